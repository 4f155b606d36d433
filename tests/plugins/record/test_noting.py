"""The line of a call names its arguments and its outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    MarkdownSection,
    PolicyDecision,
    Secret,
    SnapshotError,
    Tool,
    ToolCall,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_hookspecs.calls import REPLAYED_EFFECT
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.replayer import Replayer
from toolstile_plugins.record.serialize import NOTHING, fields_of, joined

ROUND: dict[str, Any] = {}
ROUND["a"] = ROUND

DEEP: dict[str, Any] = {}
for _ in range(10_000):
    DEEP = {"a": DEEP}


class Hasty:
    @hookimpl(tryfirst=True)
    def toolstile_parse(self) -> None:
        raise RuntimeError("not today")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"a": NaN}', '{"a": NaN}'),
        ("[" * 100_000, "[" * 100_000),
        ("not JSON, but hunter2", "not JSON, but ***"),
        (b'{"a": "\xff', '{"a": "\ufffd'),
        ({"a": object()}, "arguments that JSON cannot say"),
        (ROUND, "arguments that JSON cannot say"),
        (DEEP, "arguments that JSON cannot say"),
    ],
    ids=["nan", "deep", "text", "bytes", "object", "round", "deep object"],
)
def test_arguments_that_nobody_has_looked_at_are_recorded_as_they_can_be(desk, path, given, said):
    with desk.recording(path, auth=Secret("hunter2"), plugins=[Hasty()]) as tools:
        tools.dispatch(ToolCall("add", given))
    [line] = desk.lines_of(path)
    assert (line["status"], line["arguments"]) == ("error", said)


KEY = SecretStr("hunter2")


@tool
def unlock(
    door: str,
    key: SecretStr = KEY,
    pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})] = "4711-4712",
) -> str:
    """Unlock a door."""
    if door == "right":
        raise RuntimeError(f"{pin} does not fit")
    return f"{door} is open with {key.get_secret_value()}"


class Doors:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="doors", title="Doors", tools=[unlock])]


class Doubting:
    @hookimpl
    def toolstile_check(self, tool: Any) -> PolicyDecision | None:
        return PolicyDecision.ask("Whose key is it?") if tool is unlock else None


def test_secrets_that_were_left_out_of_the_arguments_are_in_no_line(desk, path):
    with desk.recording(path, plugins=[Doors()]) as tools:
        desk.call(tools, "unlock", door="left")
        desk.call(tools, "unlock", door="right")
    opened, failed = desk.lines_of(path)
    assert opened["envelope"]["data"] == "left is open with ***"
    assert failed["envelope"]["error"] == "Internal error in unlock: *** does not fit"
    assert failed["error"]["text"] == "*** does not fit"


open_door = Tool[Any, Any](
    name="open_door",
    description="Open a door.",
    params_schema={
        "type": "object",
        "properties": {"door": {"type": "string"}, "key": {"type": "string", "writeOnly": True}},
    },
    handler=lambda params, *, context: ToolResult.ok(f"opened with {[*params]}"),
)


class MoreDoors:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="doors", title="Doors", tools=[unlock, open_door])]


@pytest.mark.parametrize("name", ["unlock", "open_door"])
def test_a_secret_given_as_the_name_of_an_argument_is_in_no_line(desk, path, name):
    with desk.recording(path, plugins=[MoreDoors()]) as tools:
        desk.call(tools, name, door="left", **{"open-sesame": "key"})
        desk.call(tools, name, door="left", **{'open "sesame"': {"deep": 1}})
    assert "sesame" not in path.read_text()
    first, second = desk.lines_of(path)
    assert first["arguments"].keys() == second["arguments"].keys() == {"door", "***"}


def test_a_call_with_such_an_argument_is_answered_from_the_record(desk, path):
    with desk.recording(path, plugins=[MoreDoors()]) as tools:
        desk.call(tools, "open_door", door="left", **{"open-sesame": "key"})
    replay = Replayer(Recording.load(path))
    with Host(discover=False, plugins=[MoreDoors(), replay]) as host, host.executor() as tools:
        again = desk.call(tools, "open_door", door="left", **{"open-sesame": "key"})
        assert again.success, again.text


def test_secrets_that_a_person_replaced_are_in_no_line(desk, path):
    edit = ApprovalAnswer.edit({"door": "left", "key": "another"})
    told = {"plugins": [Doors(), Doubting()], "approver": lambda _: edit}
    with desk.recording(path, **told) as tools:
        desk.call(tools, "unlock", door="the one of abcdef", key="abcdef")
    [line] = desk.lines_of(path)
    assert line["arguments"] == {"door": "the one of ***", "key": "***"}


@pytest.mark.parametrize(
    ("name", "arguments", "masked"),
    [
        ("echo", {"text": "a *** b"}, False),
        ("echo", {"text": 7, "more": "***"}, False),
        ("add", {"a": 1}, None),
        ("unlock", {"door": "***"}, None),
        ("unlock", {"door": "the one of hunter2"}, None),
        ("unlock", {"door": "***", "key": "***", "pin": "***"}, False),
        ("nobody", {"text": "a"}, None),
    ],
)
def test_a_line_says_where_a_mask_is_none(desk, path, name, arguments, masked):
    with desk.recording(path, plugins=[Doors()]) as tools:
        desk.call(tools, name, **arguments)
    [line] = desk.lines_of(path)
    assert line.get("masked") is masked


def line_of(desk: Any, path: Any, changes: str | SnapshotError = NOTHING, **befell: Any) -> Any:
    with desk.recording(path, auth=Secret("hunter2")) as tools:
        event = desk.call(tools, "add", a=1).event
    return json.loads(joined(fields_of(replace(event, **befell), changes)))


@pytest.mark.parametrize("befell", [{"rolled_back": True}, {"replayed": True}, {"reruns": 2}])
def test_what_befell_a_call_is_in_its_line(desk, path, befell):
    assert line_of(desk, path, **befell).items() >= befell.items()


def test_for_whom_a_call_ran_is_in_its_line(desk, path):
    assert line_of(desk, path, user_id="ada")["user"] == "ada"


def test_the_line_of_a_call_of_a_child_has_the_path_of_the_agent(desk, path):
    with desk.recording(path) as tools, tools.child("reader", session="own") as child:
        desk.call(child, "add", a=1)
        desk.call(tools, "add", a=2)
    assert [line.get("agent") for line in desk.lines_of(path)] == ["main/reader", None]
    assert [each.agent for each in Recording.load(path).calls] == ["main/reader", "main"]


def test_why_what_a_call_did_to_the_session_is_lost_is_told_without_secrets(desk, path):
    line = line_of(desk, path, SnapshotError("hunter2 is no JSON."))
    assert line["changes_lost"] == "*** is no JSON."
    assert "changes" not in line


def test_numbers_that_json_does_not_have_are_texts_in_facts(desk, path):
    assert line_of(desk, path, attributes={"a.b": float("inf")})["attributes"] == {
        "a.b": "Infinity"
    }


def test_an_envelope_of_a_recorded_effect_says_that_it_is_one(desk, path):
    assert line_of(desk, path, attributes={REPLAYED_EFFECT: True})["envelope"]["replayed"] is True


def test_an_exception_that_says_nothing_has_its_class(desk, path):
    assert line_of(desk, path, error=Mute())["error"] == {"type": "Mute", "text": ""}
