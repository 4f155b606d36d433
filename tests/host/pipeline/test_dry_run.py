"""A dry run shows what each call would change, and keeps nothing."""

from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from toolstile_hookspecs import (
    Binding,
    PolicyDecision,
    PolicyState,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_plugins.policies import SequentialDependencyPolicy


class Lock:
    """A resource that one call at a time may have."""

    def begin(self):
        return 1

    def commit(self, savepoint):
        return None

    def rollback(self, savepoint):
        return None


@dataclass
class Participant:
    """Keeps what was asked of it."""

    heard: list

    def diff(self):
        self.heard.append("diff")
        return "1 row"

    def prepare(self):
        self.heard.append("prepare")

    def commit(self):
        self.heard.append("commit")

    def rollback(self):
        self.heard.append("rollback")


@pytest.fixture
def put(touch):
    @tool(category="write", contained=True)
    def put(text: str, *, context: ToolContext) -> str:
        """Change the session and the box."""
        touch(context, text)
        return f"put {text}"

    return put


@pytest.fixture
def send(yard):
    @tool
    def send() -> None:
        """Send it, for good."""
        yard.sent = True

    return send


def test_a_call_succeeds_and_shows_its_diff_but_nothing_is_kept(yard, put):
    yard.open(put, dry_run=True)
    outcome = yard.call("put", text="a")
    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "put a")
    assert outcome.event.rolled_back
    assert outcome.event.attributes["toolstile.dry_run"] is True
    assert "Mark: added Mark(text='a')" in outcome.event.attributes["toolstile.diff"]
    yard.assert_untouched()
    assert [event.call for event in yard.events] == [outcome.call]
    assert yard.observer.rollbacks == [("put", "It was a dry run.")]


def test_whatever_became_of_a_call_its_event_says_that_it_was_a_dry_run(yard, put, send):
    @tool(contained=True)
    def nest(*, context: ToolContext) -> str:
        """Call another."""
        return context.call("put", {"text": "b"}).text

    yard.open(put, send, nest, dry_run=True)
    statuses = [
        yard.call("put", text=1).status,
        yard.call("send").status,
        yard.call("sent").status,
        yard.call("nest").status,
    ]
    assert statuses == [Status.INVALID, Status.DENIED, Status.UNKNOWN_TOOL, Status.SUCCEEDED]
    assert len(yard.events) == 5
    assert all(event.attributes["toolstile.dry_run"] is True for event in yard.events)


def test_each_call_sees_what_those_before_it_would_have_changed(yard, put, mark):
    @tool(category="read")
    def look(*, context: ToolContext) -> list[str]:
        """Look into the session and the box."""
        marks = [each.text for each in context.session[mark].all()]
        return [*marks, *context.resources.get(type(yard.box)).items]

    yard.open(put, look, dry_run=True)
    yard.call("put", text="a")
    second = yard.call("put", text="b")
    assert yard.call("look").text == "a\nb\na\nb"
    assert second.event.attributes["toolstile.diff"].count("Mark") == 2
    assert "'a'" not in second.event.attributes["toolstile.diff"]
    yard.assert_untouched()


def test_a_failing_call_leaves_what_those_before_it_did(yard, put, touch, mark):
    @tool(category="write", contained=True)
    def fail(*, context: ToolContext) -> ToolResult[int]:
        """Change something, then fail."""
        touch(context, "gone")
        return ToolResult.error(str(len(context.session[mark].all())))

    yard.open(put, fail, dry_run=True)
    yard.call("put", text="a")
    assert yard.call("fail").text == "2"
    assert yard.call("fail").text == "2"
    assert "gone" not in yard.tools.rehearsed()


def test_the_whole_is_shown_without_secrets_and_put_back_at_the_end(yard, put, touch):
    @tool(category="write", contained=True)
    def keep(password: SecretStr, *, context: ToolContext) -> None:
        """Keep a password."""
        touch(context, password.get_secret_value())

    tools = yard.open(put, keep, dry_run=True)
    assert tools.rehearsed() == "no changes"
    yard.call("put", text="a")
    yard.call("keep", password="hunter2")
    assert "Mark(text='a'), Mark(text='***')" in tools.rehearsed()
    assert "hunter2" not in tools.rehearsed()
    tools.close()
    assert tools.rehearsed() == "no changes"
    yard.assert_untouched()


def test_policies_count_a_call_of_a_dry_run_as_done(yard, put):
    @tool(category="write", contained=True)
    def after() -> None:
        """Come after."""

    policy = SequentialDependencyPolicy(dependencies={"after": frozenset({"put"})})
    yard.open(put, after, policies=(policy,), dry_run=True)
    assert yard.call("after").status is Status.DENIED
    yard.call("put", text="a")
    assert yard.call("after").success
    assert not yard.session[PolicyState].all()


def test_calls_dispatched_together_are_isolated_and_seen_by_those_after(yard, put, mark):
    @tool(category="read")
    def look(*, context: ToolContext) -> int:
        """Count."""
        return len(context.session[mark].all())

    yard.open(put, look, dry_run=True)
    together = [*(ToolCall("put", {"text": text}) for text in "ab"), ToolCall("look")]
    outcomes = yard.dispatch_all(together)
    # The last has read what the others change, so it is run again after them.
    assert [(each.text, each.event.reruns) for each in outcomes] == [
        ("put a", 0),
        ("put b", 0),
        ("2", 1),
    ]
    assert yard.call("look").text == "2"
    yard.assert_untouched()


def test_nothing_is_kept_of_a_call_that_comes_after_the_end(yard, put):
    tools = yard.open(put, dry_run=True)
    tools.close()
    with pytest.raises(StateError, match="executor is closed"):
        yard.call("put", text="late")
    tools = yard.open(put, dry_run=True)
    yard.call("put", text="a")
    tools.close()
    with pytest.raises(StateError, match="executor is closed"):
        yard.call("put", text="late")
    yard.assert_untouched()


def test_calls_dispatched_together_keep_nothing_either(yard, put):
    yard.open(put, dry_run=True)
    outcomes = yard.dispatch_all([ToolCall("put", {"text": text}) for text in "abc"])
    assert [outcome.success for outcome in outcomes] == [True] * 3
    yard.assert_untouched()


def test_a_call_that_changes_nothing_says_so(yard):
    @tool(category="read")
    def look() -> int:
        """Look."""
        return 1

    yard.open(look, dry_run=True)
    assert yard.call("look").event.attributes["toolstile.diff"] == "no changes"


def test_a_tool_that_is_not_contained_is_denied(yard, send):
    yard.open(send, dry_run=True)
    outcome = yard.call("send")
    assert outcome.status is Status.DENIED
    assert "send is not contained" in outcome.text
    assert "dry run" in outcome.text
    assert not hasattr(yard, "sent")


def test_a_denial_names_the_policies_reasons_as_well(yard, send):
    class Plugin:
        @hookimpl
        def toolstile_check(self):
            return PolicyDecision.deny("Not today.")

    yard.open(send, plugins=(Plugin(),), dry_run=True)
    assert yard.call("send").text.splitlines()[0] == "Not today."


def test_a_failing_call_fails_as_ever(yard):
    @tool(category="read")
    def fail() -> ToolResult[None]:
        """Fail."""
        return ToolResult.error("No.")

    yard.open(fail, dry_run=True)
    outcome = yard.call("fail")
    assert (outcome.status, outcome.text) == (Status.FAILED, "No.")
    assert "toolstile.diff" not in outcome.event.attributes


def test_whoever_has_to_be_asked_is_asked(yard, touch):
    shown = []

    @tool(contained=True, requires_confirmation=True)
    def put(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    yard.open(put, approver=lambda request: not shown.append(request), dry_run=True)
    assert yard.call("put").success
    assert [request.diff for request in shown] == [None]


def test_an_exclusive_resource_cannot_be_had(yard):
    @tool(contained=True)
    def take(*, context: ToolContext) -> None:
        """Take the lock."""
        context.resources.get(Lock)

    yard.open(take, resources=(Binding.instance(Lock, Lock()),), dry_run=True)
    assert "Lock cannot be had in a dry run" in yard.call("take").text


def test_nested_calls_are_part_of_the_diff_and_the_uncontained_are_denied(
    yard, put, send, nesting, touch
):
    @tool(name="outer", contained=True)
    async def aouter(*, context: ToolContext) -> str:
        """Call others."""
        await context.acall("put", {"text": "inner"})
        return (await context.acall("send")).text

    @tool(name="outer", contained=True)
    def outer(*, context: ToolContext) -> str:
        """Call others."""
        context.call("put", {"text": "inner"})
        return context.call("send").text

    yard.open(aouter if yard.driver == "async" else outer, put, send, dry_run=True)
    outcome = yard.call("outer")
    assert "send is not contained" in outcome.text
    assert "Mark(text='inner')" in outcome.event.attributes["toolstile.diff"]
    yard.assert_untouched()


def test_participants_are_neither_prepared_nor_committed(yard, put):
    heard = []

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self):
            return Participant(heard)

        @hookimpl
        def toolstile_on_result(self):
            heard.append("on_result")

    yard.open(put, plugins=(Plugin(),), dry_run=True)
    assert "1 row" in yard.call("put", text="a").event.attributes["toolstile.diff"]
    assert heard == ["diff", "on_result", "rollback"]


def test_other_executors_of_the_host_keep_what_they_do(yard, put):
    yard.open(put, dry_run=True)
    dry = yard.tools
    prompt, box = yard.tools.prompt, Binding.instance(type(yard.box), yard.box)
    with yard.host.executor(session=yard.session, prompt=prompt, resources=(box,)) as tools:
        assert tools.dispatch(ToolCall("put", {"text": "kept"})).success
        assert dry.dispatch(ToolCall("put", {"text": "gone"})).success
    assert yard.marks == ["kept"]
    assert yard.box.items == ["kept"]
