"""The context that a handler is given."""

import dataclasses
import pickle

import pytest

from toolstile_hookspecs import (
    BudgetTracker,
    Cancellation,
    DefinitionError,
    Filesystem,
    Heartbeat,
    Prompt,
    RunContext,
    Secret,
    StateError,
    ToolCall,
    ToolContext,
    UnboundResourceError,
)


class Control:
    def __init__(self):
        self.seen = []

    def call(self, call):
        self.seen.append(call)
        return "outcome"

    acall = call

    def progress(self, done, total, message):
        self.seen.append((done, total, message))

    def set_attribute(self, name, value):
        self.seen.append((name, value))

    def check_exclusive(self, what):
        self.seen.append(what)


class Resources(dict):
    async def aget(self, kind):
        return self[kind]


def test_a_context_made_by_hand_has_no_resources_and_says_so():
    context = ToolContext(session=None)
    assert context.filesystem is None
    assert context.budget_tracker is None
    assert Filesystem not in context.resources
    with pytest.raises(UnboundResourceError, match="No resource is bound for Filesystem"):
        context.resources.get(Filesystem)


def test_the_workspace_and_the_budget_are_resources():
    context = ToolContext(session=None, resources=Resources({Filesystem: "f", BudgetTracker: "b"}))
    assert (context.filesystem, context.budget_tracker) == ("f", "b")


def test_a_context_without_a_prompt_has_none_rendered():
    assert ToolContext(session=None).rendered_prompt is None


def test_a_context_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ToolContext(session=None).user_id = "eve"


def test_credentials_stand_in_no_text():
    context = ToolContext(session=None, auth=Secret("hunter2"), client="hunter2")
    for text in (repr(context), str(context), f"{context.auth}", repr([context.auth])):
        assert "hunter2" not in text
    assert context.auth.reveal() == "hunter2"


def test_cancellation_is_seen():
    stop = Cancellation()
    context = ToolContext(session=None, abort_signal=stop)
    assert not context.cancelled
    stop.cancel()
    assert context.cancelled


def test_progress_beats_and_reaches_the_host():
    beats, control = [], Control()
    heart = Heartbeat(lambda: beats.append(1))
    context = ToolContext(session=None, heartbeat=heart, control=control)
    context.progress(1, 2, "half")
    context.beat()
    context.set_attribute("plugin.fact", 5)
    assert beats == [1, 1]
    assert control.seen == [(1, 2, "half"), ("plugin.fact", 5)]
    ToolContext(session=None).progress(1)


def test_whether_something_can_be_had_alone_is_the_hosts_to_say():
    control = Control()
    ToolContext(session=None, control=control).check_exclusive("The lock")
    assert control.seen == ["The lock"]
    ToolContext(session=None).check_exclusive("The lock")


def test_a_nested_call_takes_along_what_came_with_the_call():
    control = Control()
    call = ToolCall("outer", meta={"traceparent": "00-1"})
    context = ToolContext(session=None, control=control, tool_call=call)
    assert context.call("inner", {"a": 1}) == "outcome"
    assert context.acall("inner") == "outcome"
    assert [each.name for each in control.seen] == ["inner", "inner"]
    assert control.seen[0].arguments == {"a": 1}
    assert control.seen[0].meta == {"traceparent": "00-1"}


def test_only_a_running_call_can_call():
    with pytest.raises(StateError, match="no running call"):
        ToolContext(session=None).call("inner")


def test_each_run_has_an_id():
    assert RunContext().run_id != RunContext().run_id
    assert pickle.loads(pickle.dumps(RunContext("r"))) == RunContext("r")


@pytest.mark.parametrize("given", [Prompt.of("a", "b").resources, [], None, Prompt.of("a", "b")])
def test_resources_that_are_not_open_are_refused(given):
    with pytest.raises(DefinitionError, match=r"its resources are not open: \w+ has no get\(\)"):
        ToolContext(session=None, resources=given)


def test_open_resources_are_taken():
    with Prompt.of("a", "b").bind(resources={int: 3}).resources as resources:
        assert ToolContext(session=None, resources=resources).resources.get(int) == 3
    assert ToolContext(session=None, resources={int: 3}).resources.get(int) == 3
