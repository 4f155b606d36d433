"""Plugins cannot change the call that they see before it is parsed."""

import json
from types import MappingProxyType

import pytest

from toolstile_hookspecs import CallClosed, Status, ToolCall, ToolContext, hookimpl, tool


@tool
def place(city: str, tags: list[str]) -> str:
    """Name a place."""
    return f"{city} {','.join(tags)}"


class Tampering:
    """Tries to change what it is shown."""

    def __init__(self):
        self.seen = []
        self.calls = []

    def _tamper(self, call):
        self.calls.append(call)
        self.seen.append(call.arguments)
        if not isinstance(call.arguments, (str, bytes)):
            call.arguments["tags"].append("tampered")

    @hookimpl
    def toolstile_trace(self, call):
        self._tamper(call)

    @hookimpl
    def toolstile_lookup(self, call):
        self._tamper(call)

    @hookimpl
    def toolstile_parse(self, call):
        self._tamper(call)


def test_an_object_is_shown_as_text_and_stays_as_it_was(yard):
    tampering = Tampering()
    yard.open(place, plugins=(tampering,))
    arguments = {"city": "Ulm", "tags": ["a"]}
    call = ToolCall("place", arguments)
    outcome = yard.dispatch(call)
    assert outcome.text == "Ulm a"
    assert [json.loads(each) for each in tampering.seen] == [arguments] * 3
    assert arguments == {"city": "Ulm", "tags": ["a"]}
    assert (outcome.call.id, call.arguments) == (call.id, arguments)
    assert tampering.calls == [outcome.call] * 3


def test_text_is_shown_as_it_came(yard):
    tampering = Tampering()
    yard.open(place, plugins=(tampering,))
    text = '{ "city": "Ulm", "tags": [] }'
    assert yard.dispatch(ToolCall("place", text)).text == "Ulm "
    assert tampering.seen == [text] * 3


def test_what_is_no_json_is_shown_unchangeable_and_refused(yard):
    seen = []

    class Plugin:
        @hookimpl
        def toolstile_trace(self, call):
            seen.append(call.arguments)

    yard.open(place, plugins=(Plugin(),))
    outcome = yard.dispatch(ToolCall("place", {"city": object(), "tags": []}))
    assert outcome.status is Status.INVALID
    assert type(seen[0]) is MappingProxyType


def test_a_call_that_has_ended_takes_no_notes(yard):
    kept = []

    @tool
    def keep(*, context: ToolContext) -> None:
        """Keep the context."""
        context.set_attribute("test.early", 1)
        kept.append(context)

    yard.open(keep)
    outcome = yard.call("keep")
    with pytest.raises(CallClosed):
        kept[0].set_attribute("test.late", 2)
    assert outcome.event.attributes == {"test.early": 1}


@pytest.mark.parametrize("given", [{"name": "place"}, "place", None])
def test_what_is_no_call_is_refused_with_what_to_write(yard, given):
    yard.open(place)
    with pytest.raises(TypeError, match=r"is a ToolCall, not \w+: write ToolCall\("):
        yard.dispatch(given)
    assert yard.events == []


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"deadline": 0}, r"the deadline .* a Deadline, not int: write Deadline\.after\(seconds\)"),
        ({"cancellation": True}, r"the cancellation .* not bool: write Cancellation\(\)"),
    ],
)
def test_limits_that_are_none_are_refused_with_what_to_write(yard, limits, told):
    yard.open(place)
    with pytest.raises(TypeError, match=told):
        yard.dispatch(ToolCall("place", {"city": "Ulm", "tags": []}, **limits))
    assert yard.events == []


@pytest.mark.parametrize("given", [{"name": "place"}, "place", None])
def test_one_that_is_no_call_keeps_a_batch_from_running(yard, given):
    yard.open(place)
    calls = [ToolCall("place", {"city": "Ulm", "tags": []}), given]
    with pytest.raises(TypeError, match=r"is a ToolCall, not \w+: write ToolCall\("):
        yard.dispatch_all(calls)
    assert yard.events == []


def test_one_call_is_not_a_batch(yard):
    yard.open(place)
    with pytest.raises(TypeError, match="'ToolCall' object is not iterable"):
        yard.dispatch_all(ToolCall("place"))
    assert yard.events == []


def test_several_calls_may_be_made_one_by_one(yard):
    yard.open(place)
    arguments = {"city": "Ulm", "tags": []}
    outcomes = yard.dispatch_all(ToolCall("place", arguments) for _ in range(2))
    assert [outcome.text for outcome in outcomes] == ["Ulm ", "Ulm "]
