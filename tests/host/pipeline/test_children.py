"""A child may do what its parent and its own arguments both allow, whichever way it calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile.testing import FakeClock
from toolstile_hookspecs import (
    ApprovalRequest,
    Binding,
    BudgetTracker,
    ConfigurationError,
    Deadline,
    DefinitionError,
    IdempotencyConfig,
    MarkdownSection,
    PolicyDecision,
    Principal,
    Prompt,
    StateError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    Visibility,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)
from toolstile_hookspecs.execution.children import SharedBudget, child_of, root_session_id
from toolstile_plugins.agent.budget import Budget, BudgetExceeded, TokenBudgetTracker
from toolstile_plugins.approval.display import question_of
from toolstile_plugins.policies.dependencies import SequentialDependencyPolicy
from toolstile_plugins.policies.limits import QuotaPolicy

ADA = Principal("https://id.example.org", "ada")
REFUSED = "write_file cannot be called here: it is not among the tools of this agent."
WRITTEN: list[str] = []


@dataclass(frozen=True)
class Note:
    """A note, which a session keeps."""

    text: str


@tool(category="read")
def read_file(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    context.session[Note].append(Note(path))
    return f"{context.agent} reads {path}"


@tool(category="write", wire_name="Write")
def write_file(path: str) -> str:
    """Write a file."""
    WRITTEN.append(path)
    return "written"


@tool
def read_and_write(path: str, *, context: ToolContext) -> str:
    """Call another tool."""
    return context.call("write_file", {"path": path}).text


@tool
async def read_and_write_later(path: str, *, context: ToolContext) -> str:
    """Call another tool on the event loop."""
    return (await context.acall("Write", {"path": path})).text


TOOLS = [read_file, write_file, read_and_write, read_and_write_later]
READING = ["read_*"]


@pytest.fixture(autouse=True)
def clean() -> None:
    WRITTEN.clear()


def call(name: str, path: str = "a.txt") -> ToolCall:
    return ToolCall(name, {"path": path})


class Rule:
    """A policy that always decides the same."""

    def __init__(self, decision: PolicyDecision, name: str = "rule") -> None:
        self.name = name
        self._decision = decision

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return self._decision

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None


@pytest.fixture
def tools() -> Iterator[Executor]:
    with Host(discover=False, tools=TOOLS) as host, host.executor(principal=ADA) as executor:
        yield executor


# --- Ways to call


def by_name(child: Executor) -> list[str]:
    return [child.dispatch(call("write_file")).text]


def by_alias(child: Executor) -> list[str]:
    return [child.dispatch(call("Write")).text]


def in_a_batch(child: Executor) -> list[str]:
    outcomes: list[Any] = child.dispatch_all([call("read_file"), call("write_file"), call("Write")])
    assert outcomes[0].success
    return [each.text for each in outcomes[1:]]


def nested(child: Executor) -> list[str]:
    return [child.dispatch(call("read_and_write")).text]


def on_the_loop(child: Executor) -> list[str]:
    async def run() -> list[Any]:
        calls = [call("write_file"), call("read_and_write_later"), call("Write")]
        each = child.adispatch_each(calls)
        several = [*await child.adispatch_all(calls), *await asyncio.gather(*each)]
        return [await child.adispatch(call("Write")), *several]

    return [outcome.text for outcome in asyncio.run(run())]


@pytest.mark.parametrize("way", [by_name, by_alias, in_a_batch, nested, on_the_loop])
@pytest.mark.parametrize("session", ["share", "own"])
def test_a_child_is_refused_in_every_way_what_only_its_parent_may_do(
    tools: Executor, way: Callable[[Executor], list[str]], session: Any
) -> None:
    with tools.child("reader", tools=READING, session=session) as child:
        texts = way(child)
        assert texts, "nothing was called"
        for text in texts:
            assert text.startswith(REFUSED.replace("write_file", "Write", text.startswith("Write")))
        assert WRITTEN == []
        assert [each.name for each in child.prompt.tools(child.session)] == [
            "read_file",
            "read_and_write",
            "read_and_write_later",
        ]
    assert tools.dispatch(call("Write")).success
    assert tools.dispatch(call("read_and_write")).text == "written"


def test_a_grandchild_may_do_no_more_than_each_above_it(tools: Executor) -> None:
    with (
        tools.child("a", tools=READING) as child,
        child.child("b", tools=["*_file"]) as grandchild,
    ):
        assert grandchild.dispatch(call("read_file")).text == "main/a/b reads a.txt"
        for name in ("write_file", "read_and_write"):
            assert grandchild.dispatch(call(name)).status is Status.UNKNOWN_TOOL


def test_the_tool_of_a_lookup_hook_is_refused_too(tools: Executor) -> None:
    class Lookup:
        @hookimpl
        def toolstile_lookup(self, call: ToolCall) -> Tool[Any, Any] | None:
            found = {
                "twin": write_file,
                "other": replace(write_file, name="secret", wire_name=None),
            }
            return found.get(call.name)

    with (
        Host(discover=False, tools=TOOLS, plugins=[Lookup()]) as host,
        host.executor() as executor,
        executor.child("reader", tools=READING) as child,
    ):
        for name in ("twin", "other"):
            outcome = child.dispatch(call(name))
            assert outcome.status is Status.UNKNOWN_TOOL, outcome.text
            assert executor.dispatch(call(name)).success
        assert len(WRITTEN) == 2


SHELF = [
    MarkdownSection(key="desk", title="Desk", tools=[read_file]),
    MarkdownSection(
        key="shelf",
        title="Shelf",
        template="All.",
        summary="Some.",
        visibility=Visibility.SUMMARY,
        tools=[write_file, replace(read_file, name="read_more")],
    ),
]


@pytest.mark.parametrize("session", ["share", "own"])
def test_an_expanded_section_gives_a_child_its_own_tools_only(session: Any) -> None:
    opening = ToolCall("open_sections", {"section_keys": ["shelf"]})
    with (
        Host(discover=False) as host,
        host.executor(prompt=Prompt.of("demo", "desk", SHELF)) as executor,
        executor.child("reader", tools=READING, session=session) as child,
    ):
        with pytest.raises(VisibilityExpansionRequired) as asked:
            child.dispatch(opening)
        shown = child.expand(asked.value)
        assert [each.name for each in shown.tools] == ["read_file", "read_more"]
        assert child.dispatch(call("write_file")).text.startswith(REFUSED)
        assert child.dispatch(call("read_more")).success
        # In a session of its own, the child has opened nothing for its parent.
        opened = executor.dispatch(call("write_file"))
        assert opened.success is (session == "share"), opened.text


def test_tools_that_depend_on_a_tool_that_is_left_out_are_left_out() -> None:
    trip = replace(read_file, name="read_trip", depends_on=("write_file",))
    with (
        Host(discover=False, tools=[*TOOLS, trip]) as host,
        host.executor() as executor,
        executor.child("reader", tools=READING) as child,
    ):
        assert "it depends on write_file" in child.dispatch(call("read_trip")).text
        assert executor.dispatch(call("read_trip")).success


def test_a_child_follows_the_plugins_of_its_parent() -> None:
    class Late:
        @hookimpl
        def toolstile_sections(self) -> list[Any]:
            late = [
                replace(write_file, name=name, wire_name=None) for name in ("read_late", "late")
            ]
            return [MarkdownSection(key="late", title="Late", tools=late)]

    with (
        Host(discover=False, tools=TOOLS) as host,
        host.executor() as executor,
        executor.child("reader", tools=READING) as child,
    ):
        assert child.dispatch(call("read_late")).status is Status.UNKNOWN_TOOL
        host.register(Late(), "late")
        assert child.dispatch(call("read_late")).success
        assert child.dispatch(call("late")).status is Status.UNKNOWN_TOOL
        host.unregister("late")
        assert child.dispatch(call("read_late")).status is Status.UNKNOWN_TOOL


# --- Rules


@pytest.mark.parametrize("above", [None, *"das"])
@pytest.mark.parametrize("own", "das")
def test_the_strictest_of_the_rules_of_parent_and_child_counts(above: Any, own: str) -> None:
    decisions = {
        "d": PolicyDecision.deny("No."),
        "a": PolicyDecision.ask("Sure?"),
        "s": PolicyDecision(allowed=True, reason="Yes."),
    }
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    policies = [] if above is None else [Rule(decisions[above], "above")]
    settings = Settings(policy={"default": "deny"} if above is None else {})
    with (
        Host(
            discover=False, tools=TOOLS, policies=policies, approver=approver, settings=settings
        ) as host,
        host.executor() as executor,
        executor.child("reader", rules=[Rule(decisions[own])]) as child,
    ):
        outcome = child.dispatch(call("read_file"))
        # By default nothing is allowed: neither is it because a child allows it, or asks a person.
        expected = above is not None and "d" not in {above, own}
        assert outcome.success is expected, outcome.text
        assert bool(asked) is (expected and "a" in {above, own})
        assert all(request.context.agent == "main/reader" for request in asked)
        assert executor.dispatch(call("read_file")).success is (above in {"a", "s"})


def test_two_policies_of_one_name_are_refused_when_the_child_is_made() -> None:
    quota = QuotaPolicy(name="q", max_calls=5)
    with (
        Host(discover=False, tools=TOOLS, policies=[quota]) as host,
        host.executor() as executor,
        pytest.raises(DefinitionError, match="Two policies have the name 'q'"),
    ):
        executor.child("reader", rules=[QuotaPolicy(name="q", max_calls=1)])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tools": ["raed_file"]}, r"'raed_file' \(did you mean 'read_file' or"),
        ({"rules": [QuotaPolicy(tools={"write_fil"}, max_calls=1)]}, "'write_fil'"),
        ({"session": "mine"}, "session"),
        ({"tool": ["read_file"]}, "tool"),
        ({"budget": 5}, "budget"),
        ({"tools": "read_file"}, "tools"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
    ],
)
def test_a_wrong_argument_is_named(tools: Executor, given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        tools.child(given.pop("name", "reader"), **given)


# --- Quotas, budgets, deadlines, people


@pytest.mark.parametrize("session", ["share", "own"])
@pytest.mark.parametrize("stored", [False, True])
def test_quotas_of_the_parent_and_of_the_child_both_hold(
    tmp_path: Path, session: Any, stored: bool
) -> None:
    path = str(tmp_path / "state.db")
    settings = Settings(plugins={"sessions": {"path": path}}) if stored else None
    quota = QuotaPolicy(name="all", max_calls=4)
    discover = ("sessions",) if stored else False

    def several(tools: Executor, number: int) -> int:
        return sum(tools.dispatch(call("read_file")).success for _ in range(number))

    def host() -> Host:
        return Host(discover=discover, settings=settings, tools=TOOLS, policies=[quota])

    with host() as opened, opened.executor(session_id="s") as executor:
        own = [QuotaPolicy(max_calls=2)]
        with executor.child("reader", rules=own, session=session) as child:
            assert several(child, 3) == 2
        with executor.child("other", session=session) as other:
            assert several(other, 1) == 1
        assert several(executor, 3) == 1
        with executor.child("third", session=session) as third:
            assert several(third, 1) == 0
    if stored:
        with host() as opened, opened.executor(session_id="s") as executor:
            assert several(executor, 1) == 0


@pytest.mark.parametrize("session", ["share", "own"])
def test_policies_remember_the_calls_of_child_and_parent_alike(session: Any) -> None:
    first = SequentialDependencyPolicy(dependencies={"write_file": {"read_file"}})
    with (
        Host(discover=False, tools=TOOLS, policies=[first]) as host,
        host.executor() as executor,
        executor.child("writer", session=session) as child,
    ):
        assert not child.dispatch(call("write_file")).success
        assert executor.dispatch(call("read_file")).success
        assert child.dispatch(call("write_file")).success
        with executor.child("other", session=session) as other:
            assert other.dispatch(call("write_file")).success


def test_a_budget_counts_in_that_of_the_parent(tools: Executor) -> None:
    class Counted:
        def __init__(self, most: float) -> None:
            self.left = most

        def spend(self, amount: float, unit: str = "tokens") -> None:
            self.left -= amount
            if self.left < 0:
                raise ValueError("used up")

        def remaining(self, unit: str = "tokens") -> float | None:
            return self.left if unit == "tokens" else None

    @tool
    def read_tokens(amount: int, *, context: ToolContext) -> float | None:
        """Spend tokens."""
        tracker = context.budget_tracker
        assert tracker is context.resources.get(BudgetTracker)  # type: ignore[type-abstract]
        assert tracker is not None
        assert tracker.remaining("cost") is None
        tracker.spend(amount)
        return tracker.remaining()

    whole = Counted(100)
    bound = (Binding.instance(BudgetTracker, whole),)
    with (
        Host(discover=False, tools=[read_tokens]) as host,
        host.executor(resources=bound) as executor,
        executor.child("a", budget=Counted(60)) as child,
        child.child("b", budget=Counted(90)) as grandchild,
        executor.child("c") as plain,
    ):

        def spend(tools: Executor, amount: int) -> Any:
            return tools.dispatch(ToolCall("read_tokens", {"amount": amount})).result.value

        assert spend(child, 10) == 50
        assert spend(grandchild, 10) == 40
        assert spend(plain, 50) == 30
        assert spend(child, 5) == 25
        assert spend(grandchild, 30) is None
        assert whole.left == -5
        assert spend(executor, 1) is None


def test_a_shared_budget_counts_in_both_also_where_one_is_used_up() -> None:
    own, around = (TokenBudgetTracker(Budget(max_total_tokens=most)) for most in (5, 50))
    with pytest.raises(BudgetExceeded):
        SharedBudget(own, around).spend(6)
    assert (own.remaining(), around.remaining()) == (-1, 44)


def test_the_deadline_is_no_later_than_the_parents() -> None:
    clock = FakeClock()
    soon, late = (Deadline.after(seconds, clock=clock) for seconds in (5, 50))
    with (
        Host(discover=False, tools=TOOLS, clock=clock) as host,
        host.executor(deadline=soon) as first,
        host.executor() as second,
    ):
        assert first.child("a", deadline=late).deadline is soon
        assert first.child("a").deadline is soon
        assert second.child("a").deadline is None
        assert second.child("a", deadline=late).child("b", deadline=soon).deadline is soon


@pytest.mark.parametrize("session", ["share", "own"])
def test_person_and_grants_are_the_parents(session: Any) -> None:
    asked: list[ApprovalRequest] = []
    confirmed = replace(write_file, requires_confirmation=True)

    def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    with (
        Host(discover=False, tools=[confirmed], approver=approver) as host,
        host.executor(principal=ADA, request="Write it.") as executor,
        executor.child("writer", session=session) as child,
    ):
        outcome = child.dispatch(call("write_file"))
        assert outcome.success
        (request,) = asked
        question = question_of(request)
        assert (question.principal, question.session_id) == (ADA, executor.session.id)
        assert question.agent == request.context.agent == outcome.event.agent == "main/writer"
        assert root_session_id(request.context) == executor.session.id
        assert [turn.text for turn in request.context.request] == ["Write it."]
        assert outcome.event.principal == ADA


@pytest.mark.parametrize("session", ["share", "own"])
def test_two_agents_do_not_have_one_effect_twice(tmp_path: Path, session: Any) -> None:
    once = replace(write_file, idempotency=IdempotencyConfig(), wire_name=None)
    settings = Settings(plugins={"ledger": {"path": str(tmp_path / "ledger.db")}})
    with (
        Host(discover=("ledger",), settings=settings, tools=[once]) as host,
        host.executor() as executor,
        executor.child("a", session=session) as first,
        first.child("b", session=session) as second,
    ):
        texts = [each.dispatch(call("write_file")).text for each in (second, executor, first)]
        assert texts == ["written"] * 3
        assert WRITTEN == ["a.txt"]
    with Host(discover=("ledger",), settings=settings, tools=[once]) as host:
        assert host.call("write_file", path="a.txt") == "written"
    assert len(WRITTEN) == 2


# --- Sessions, closing


def test_a_session_of_its_own_has_its_own_slices(tools: Executor) -> None:
    with tools.child("a") as sharing, tools.child("b", session="own") as own:
        sharing.dispatch(call("read_file", "shared"))
        own.dispatch(call("read_file", "own"))
        assert [each.text for each in tools.session[Note].all()] == ["shared"]
        assert [each.text for each in own.session[Note].all()] == ["own"]
        before = own.session.snapshot()
        own.dispatch(call("read_file", "later"))
        own.session.restore(before)
        assert [each.text for each in own.session[Note].all()] == ["own"]
        assert own.session.id != tools.session.id
        events = own.session[ToolInvoked].all()
        known = {(each.agent, each.session_id) for each in events}
        assert known == {("main/b", own.session.id)}


@tool(contained=True, category="write")
def read_down(path: str, *, context: ToolContext) -> str:
    """Note a path."""
    context.session[Note].append(Note(path))
    return f"{len(context.session[Note].all())} by {context.agent}"


@pytest.mark.parametrize("kept", [True, False])
def test_a_fork_is_kept_or_dropped_by_the_parent(kept: bool) -> None:
    first = SequentialDependencyPolicy(dependencies={"after": {"read_down"}})
    after = replace(read_down, name="after")
    quota = QuotaPolicy(name="q", max_calls=4)
    with (
        Host(discover=False, tools=[read_down, after, write_file], policies=[first, quota]) as host,
        host.executor() as executor,
    ):
        fork = executor.child("a", session="fork", tools=["read_*", "write_file"])
        assert fork.dispatch(call("read_down")).text == "1 by main/a"
        with fork.child("b", tools=["read_*"]) as inner:
            outcome = inner.dispatch(call("read_down"))
            assert outcome.text == "2 by main/a/b"
            assert outcome.event.transaction is not None
            assert len(inner.session[Note].all()) == 2
            assert inner.dispatch(call("after")).status is Status.UNKNOWN_TOOL
        assert fork.dispatch(call("after")).status is Status.UNKNOWN_TOOL
        assert "is not contained" in fork.dispatch(call("write_file")).text
        assert list(executor.session[Note].all()) == []
        assert not executor.dispatch(call("after")).success
        left = fork.child("c")
        if kept:
            fork.commit()  # type: ignore[attr-defined]
        else:
            fork.rollback()  # type: ignore[attr-defined]
        for ended in (fork, left):
            with pytest.raises(StateError, match="has ended"):
                ended.dispatch(call("read_down"))
        assert len(executor.session[Note].all()) == (2 if kept else 0)
        # The policies remember the calls of a fork if it was kept; quotas count them anyway.
        assert executor.dispatch(call("after")).success is kept
        for _ in range(1 if kept else 2):
            assert executor.dispatch(call("read_down")).success
        assert "Quota exceeded" in executor.dispatch(call("read_down")).text


@pytest.mark.parametrize("kind", ["child", "fork", "fork of a child"])
def test_a_second_run_of_a_transaction_is_that_of_the_same_agents(kind: str) -> None:
    seen: list[str] = []

    class Watch:
        name = "watch"

        def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
            seen.append(context.agent)
            return PolicyDecision.allow()

        def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
            return None

    @tool(contained=True)
    def mark(*, context: ToolContext) -> str:
        """Read the notes, and tell the agent."""
        context.session[Note].append(Note(f"{len(context.session[Note].all())}"))
        return context.agent

    with (
        Host(discover=False, tools=[mark], policies=[Watch()]) as host,
        host.executor() as executor,
    ):
        with executor.transaction("work") as work:
            session: Any = "share" if kind == "child" else "fork"
            with work.child("a", session=session) as child:
                child.dispatch(ToolCall("mark"))
                if kind == "fork of a child":
                    with child.child("b", session="fork") as inner:
                        inner.dispatch(ToolCall("mark"))
            work.dispatch(ToolCall("mark"))
            executor.session[Note].append(Note("by another"))
        notes = [each.text for each in executor.session[Note].all()]
        agents = ["main/a", *(["main/a/b"] if kind == "fork of a child" else []), "main"]
        assert notes == ["by another", *map(str, range(1, len(agents) + 1))]
        events = executor.session[ToolInvoked].all()
        assert [each.agent for each in events] == agents
        assert [each.text for each in events] == agents
        # Each is asked about before each run, and in the end about all.
        assert [agent for agent in agents if seen.count(agent) < 2] == []
        assert set(seen) == {*agents}


def test_a_fork_is_kept_at_the_end_of_its_block_and_rolled_back_with_its_parent() -> None:
    with Host(discover=False, tools=[read_down]) as host, host.executor() as executor:
        with executor.child("a", session="fork") as fork:
            fork.dispatch(call("read_down"))
        assert len(executor.session[Note].all()) == 1
        with (  # noqa: PT012
            pytest.raises(KeyError),
            executor.child("b", session="fork") as fork,
        ):
            fork.dispatch(call("read_down"))
            raise KeyError
        other = executor.child("c", session="fork")
        other.dispatch(call("read_down"))
        executor.close()
        assert len(executor.session[Note].all()) == 1


def test_a_child_of_a_dry_run_keeps_nothing() -> None:
    contained = replace(read_file, contained=True)
    with (
        Host(discover=False, tools=[contained]) as host,
        host.executor(dry_run=True) as executor,
    ):
        with executor.child("a") as child:
            assert child.dispatch(call("read_file")).success
        assert executor.dispatch(call("read_file", "b")).success
        assert executor.rehearsed().count("Note(") == 2
        assert executor.session[Note].all() == []
        with pytest.raises(StateError, match="The child 'a' of the transaction 'dry run' cannot"):
            executor.child("a", session="own")


def test_a_child_of_a_transaction_shares_its_session(tools: Executor) -> None:
    with tools.transaction("a trip") as work, pytest.raises(StateError) as refused:
        work.child("reader", session="own")
    assert str(refused.value) == (
        "The child 'reader' of the transaction 'a trip' cannot have session='own', because "
        "such a session would be kept even if the transaction is not. Use session='share' or "
        "'fork', or make the child of the executor."
    )


def test_a_child_closes_with_its_block_and_with_its_parent(tools: Executor) -> None:
    with tools.child("a") as child:
        grandchild = child.child("b")
    for each in (child, grandchild):
        with pytest.raises(StateError, match="closed"):
            each.dispatch(call("read_file"))
    assert tools.dispatch(call("read_file")).success
    other = tools.child("c").child("d")
    tools.close()
    with pytest.raises(StateError, match="closed"):
        other.dispatch(call("read_file"))
    with pytest.raises(StateError, match="closed"):
        tools.child("e")


def test_a_parents_resources_stay_open_and_are_built_once() -> None:
    built: list[dict[str, int]] = []

    def build(_: object) -> dict[str, int]:
        built.append({})
        return built[-1]

    @tool
    def read_counter(*, context: ToolContext) -> int:
        """Count."""
        counter = context.resources.get(dict)
        counter["n"] = counter.get("n", 0) + 1
        return counter["n"]

    with (
        Host(discover=False, tools=[read_counter]) as host,
        host.executor(resources=[Binding(dict, build)]) as executor,
    ):
        for _ in range(2):
            with executor.child("a") as child, child.lend({int: 5}):
                assert child.resources.get(int) == 5
                assert int not in executor.resources
                child.dispatch(ToolCall("read_counter"))
        assert executor.dispatch(ToolCall("read_counter")).result.value == 3
        assert len(built) == 1


@pytest.mark.parametrize("session", ["share", "own"])
def test_a_handler_makes_a_child_which_ends_with_its_call(session: Any) -> None:
    children: list[Any] = []
    released = threading.Event()

    @tool(timeout=0.5)
    def read_slowly(seconds: float, *, context: ToolContext) -> str:
        """Run another agent."""
        with child_of(context, "helper", tools=READING, session=session) as child:
            children.append(child)
            text = child.dispatch(call("read_file")).text
            released.wait(seconds)
            return text

    with Host(discover=False, tools=[*TOOLS, read_slowly]) as host, host.executor() as executor:
        quick = executor.dispatch(ToolCall("read_slowly", {"seconds": 0.0}))
        assert quick.text == "main/helper reads a.txt"
        late = executor.dispatch(ToolCall("read_slowly", {"seconds": 60.0}))
        assert late.status is Status.TIMED_OUT
        with pytest.raises(StateError, match="closed"):
            children[-1].dispatch(call("read_file"))
        released.set()


def test_a_context_made_by_hand_has_no_child() -> None:
    with pytest.raises(StateError, match="no executor"):
        child_of(ToolContext(session=None), "helper")  # type: ignore[arg-type]
