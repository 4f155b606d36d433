"""The conformance suite of an adapter into the agents of another framework, to subclass."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.calls import Stage, Status, ToolCall, ToolInvoked
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.decorator import tool
from toolstile_hookspecs.execution.foreign_tools import ForeignTool
from toolstile_hookspecs.handles import ExecutorHandle
from toolstile_hookspecs.markers import hookimpl
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.testing.suite import Contract
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True)
class ModelRead:
    """The answer to a call, as the model reads it.

    Args:
        text: The text.
        is_error: Whether it is marked as an error; None if the framework has no mark.
    """

    text: str
    is_error: bool | None = None


@dataclass(frozen=True)
class AgentRun:
    """A run of a framework's agent that has ended, or waits for a person.

    Args:
        read: The answers that the model has read, by the ids of the calls.
        text: The last words of the model, None for a run that waits.
        state: The run as JSON, if it waits.
        questions: The questions of the waiting calls, by their ids.
    """

    read: Mapping[str, ModelRead]
    text: str | None = None
    state: str | None = None
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


Script = Sequence[Sequence[ToolCall]]
"""The calls of each turn of a model, which says `done` after them."""
Paused = tuple[str, str]
"""A run and its session, as JSON."""
Functions = Sequence[Callable[..., Any]] | None
"""The tools that an agent has already; None for the tools of the executor."""


class FrameworkAgent(ABC):
    """Runs agents of one framework, with a model that follows a script.

    The number of replies so far is the place in the script, so that the agent of another process
    continues where the first one stopped.
    """

    @abstractmethod
    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        """Return functions, made into tools of the framework, as tools for an executor."""

    @abstractmethod
    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        """Run an agent to its end, or until it waits for a person.

        Args:
            tools: The executor. The agent has its tools, or governed ones.
            script: The calls of the model.
            functions: The tools that the agent has already; None for the tools of the executor.
        """

    async def run_within(
        self, seconds: float, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        """Run an agent with a deadline of its framework, if it has deadlines; see `run`.

        Raises:
            TimeoutError: When the deadline has passed.
        """
        raise NotImplementedError

    @abstractmethod
    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        """Continue a run that waited, from its JSON and the answers by the ids of calls."""


# --- The tools of both sides


@dataclass(frozen=True)
class Order:
    """An order of a desk, kept in the session."""

    number: int
    item: str

    def render(self) -> str:
        return f"#{self.number} {self.item}"


class Desk:
    """The tools of an agent, as ours and as plain functions, and their effects.

    Attributes:
        effects: The effects, in order.
        running: Set while `wait` runs.
    """

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.running = asyncio.Event()
        self._met = 0
        self._all_met = asyncio.Event()

    def own(self) -> list[Tool[Any, Any]]:
        """Return the tools of an executor."""
        desk = self

        @tool(category="side_effect")
        def order(item: str, quantity: int, *, context: ToolContext) -> str:
            """Order something."""
            context.session[Order].append(Order(quantity, item))
            return desk._ordered(item, quantity)

        @tool(category="delete", requires_confirmation=True)
        def erase(name: str) -> str:
            """Erase something for good."""
            return desk._erased(name)

        @tool(category="side_effect")
        async def meet(item: str, others: int, *, context: ToolContext) -> str:
            """Order something once the others have come."""
            await desk._meeting(others)
            context.session[Order].append(Order(others, item))
            return f"{item} met {others}"

        @tool(category="side_effect", timeout=30)
        async def wait(item: str, *, context: ToolContext) -> str:
            """Order something, and wait."""
            context.session[Order].append(Order(1, item))
            return await desk._waiting(item)

        @tool(category="side_effect", timeout=0.05)
        async def hurry(item: str, *, context: ToolContext) -> str:
            """Order something, too slowly."""
            context.session[Order].append(Order(1, item))
            return await desk._waiting(item)

        @tool(category="side_effect")
        def log_in(user: str, password: SecretStr) -> str:
            """Log in."""
            return f"{user} has {password.get_secret_value()}"

        return [order, erase, meet, wait, hurry, log_in]

    def functions(self) -> list[Callable[..., Any]]:
        """Return the functions of a framework's own tools."""
        desk = self

        async def order(item: str, quantity: int) -> str:
            """Order something."""
            return desk._ordered(item, quantity)

        async def erase(name: str) -> str:
            """Erase something for good."""
            return desk._erased(name)

        async def meet(item: str, others: int) -> str:
            """Order something once the others have come."""
            await desk._meeting(others)
            return f"{item} met {others}"

        async def wait(item: str) -> str:
            """Order something, and wait."""
            return await desk._waiting(item)

        async def hurry(item: str) -> str:
            """Order something, too slowly."""
            return await desk._waiting(item)

        async def log_in(user: str, password: SecretStr) -> str:
            """Log in."""
            # Some frameworks pass the model's text.
            given = cast("SecretStr | str", password)
            shown = given if isinstance(given, str) else given.get_secret_value()
            return f"{user} has {shown}"

        return [order, erase, meet, wait, hurry, log_in]

    def _ordered(self, item: str, quantity: int) -> str:
        if item == "nothing":
            raise LookupError("Unknown item.")
        self.effects.append(f"{quantity} x {item}")
        return f"Ordered {quantity} x {item}."

    def _erased(self, name: str) -> str:
        self.effects.append(f"erased {name}")
        return f"Erased {name}."

    async def _meeting(self, others: int) -> None:
        self._met += 1
        if self._met == others:
            self._all_met.set()
        await self._all_met.wait()

    async def _waiting(self, item: str) -> str:
        self.running.set()
        await asyncio.sleep(20)
        self.effects.append(f"waited for {item}")
        return f"Waited for {item}."


MOST: Final = 100
"""The maximum quantity of an order."""


class _Limit:
    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], params: Any) -> PolicyDecision | None:
        if tool.name != "order":
            return None
        given = cast("dict[str, Any]", params if isinstance(params, dict) else vars(params))
        if given["quantity"] > MOST:
            return PolicyDecision.deny("At most 100 are ordered. Order less, then retry.")
        return None


class _Watcher:
    def __init__(self) -> None:
        self.stages: dict[str, list[Stage]] = {}
        self.traces: dict[str, int] = {}

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> _Watched:
        self.traces[call.wire_id] = trace.get_current_span().get_span_context().trace_id
        return _Watched(self.stages.setdefault(call.wire_id, []))


class _Watched(nullcontext[None]):
    def __init__(self, stages: list[Stage]) -> None:
        super().__init__()
        self._stages = stages

    def stage(self, stage: Stage) -> None:
        self._stages.append(stage)


def _later(_: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer.pending()


@dataclass
class Scene:
    """A desk, and an executor over its tools."""

    agent: FrameworkAgent
    open_host: Callable[..., Any]
    is_foreign: bool
    desk: Desk = field(default_factory=Desk)
    watcher: _Watcher = field(default_factory=_Watcher)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @contextmanager
    def tools(self, session: str | None = None) -> Generator[ExecutorHandle]:
        """Open an executor, in a session from its JSON where that is given."""
        host = self.open_host(_Limit(), self.watcher, approver=_later, **self.options)
        tools = self.desk.own()
        if (functions := self.functions) is not None:
            given: dict[str, Mapping[str, Any]] = {
                "erase": {"requires_confirmation": True},
                "hurry": {"timeout": 0.05},
            }
            made = self.agent.foreign_tools(functions)
            tools = [replace(each, **given.get(each.name, {})) for each in made]
        more = {} if session is None else {"session": host.session(session, kinds=[Order])}
        with host.executor(tools=tools, **more) as made:
            yield made

    @property
    def functions(self) -> list[Callable[..., Any]] | None:
        """The functions of the agent's own tools, None if it has ours."""
        return self.desk.functions() if self.is_foreign else None

    def run(self, tools: ExecutorHandle, *turns: Sequence[ToolCall]) -> AgentRun:
        return asyncio.run(self.agent.run(tools, turns, self.functions))


def _call(id_: str, tool_name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(tool_name, arguments, id=id_)


def _events(tools: ExecutorHandle) -> list[ToolInvoked]:
    return list(tools.session[ToolInvoked].all())


def _orders(tools: ExecutorHandle) -> list[str]:
    return [order.item for order in tools.session[Order].all()]


SECRET: Final = "hunter2"  # noqa: S105 - made up
APPROVED: Final = ApprovalAnswer.approve()


class FrameworkAdapterContract(Contract, agent=None):
    """Tests of an adapter; the fixture `agent` of a subclass returns its `FrameworkAgent`.

    Each test runs in both directions: our tools in their agent, and their tools behind our stages.

    Attributes:
        gathers: Whether a turn's calls are one batch.
        pauses: Whether the framework's own runs wait for a person, and continue elsewhere.
        secrets: Whether the framework's own tools declare secret arguments.
        edits: Whether the person can edit the arguments of a call.
        stops: Whether a timeout ends a tool of the framework.
        deadlines: Whether the framework's own runs have a deadline.
        wrong: Arguments of an order, each wrong, also as the framework passes it on.

    Example:
        >>> import pytest
        >>> class TestMine(FrameworkAdapterContract):
        ...     @pytest.fixture
        ...     def agent(self):
        ...         return MyAgent()
    """

    gathers: ClassVar[bool] = True
    pauses: ClassVar[bool] = True
    edits: ClassVar[bool] = True
    secrets: ClassVar[bool] = True
    stops: ClassVar[bool] = True
    deadlines: ClassVar[bool] = True
    wrong: ClassVar[Mapping[str, Any]] = {"item": 5, "quantity": "10", "colour": "red"}

    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        """Return an object that runs agents of the framework."""
        self._must_give("agent", "gives a `FrameworkAgent`")

    @pytest.fixture(params=["our tools", "their tools"])
    def scene(
        self,
        request: pytest.FixtureRequest,
        agent: FrameworkAgent,
        toolstile_host: Callable[..., Any],
        tmp_path: Any,
    ) -> Scene:
        """Return a desk with tools of one of the two sides."""
        options = {"approval_key": "k" * 32, "approval_spent": tmp_path / "spent.sqlite"}
        is_foreign = request.param == "their tools"
        return Scene(agent, toolstile_host, is_foreign, options=options)

    def test_a_call_passes_all_stages(self, scene: Scene) -> None:
        with scene.tools() as tools:
            run = scene.run(tools, [_call("c1", "order", item="mug", quantity=2)])
            assert run.read == {"c1": ModelRead("Ordered 2 x mug.", run.read["c1"].is_error)}
            assert not run.read["c1"].is_error
            assert run.text == "done"
            assert scene.desk.effects == ["2 x mug"]
            assert [(event.call.wire_id, event.status) for event in _events(tools)] == [
                ("c1", Status.SUCCEEDED)
            ]
        seen = set(scene.watcher.stages["c1"])
        assert {Stage.LOOKUP, Stage.PARSE, Stage.CHECK, Stage.EXECUTE, Stage.COMMIT} <= seen

    def test_all_faults_of_arguments_are_told(self, scene: Scene) -> None:
        """Nothing is coerced, dropped or run."""
        with scene.tools() as tools:
            run = scene.run(tools, [_call("c1", "order", **self.wrong)])
            assert all(name in run.read["c1"].text for name in self.wrong)
            assert run.read["c1"].is_error is not False
            assert run.text == "done"
            assert [event.status for event in _events(tools)] == [Status.INVALID]
        assert scene.desk.effects == []

    def test_a_denial_is_read_and_the_run_goes_on(self, scene: Scene) -> None:
        with scene.tools() as tools:
            run = scene.run(
                tools,
                [_call("c1", "order", item="mug", quantity=1000)],
                [_call("c2", "order", item="mug", quantity=10)],
            )
            assert "At most 100 are ordered. Order less, then retry." in run.read["c1"].text
            assert run.read["c1"].is_error is not False
            assert not run.read["c2"].is_error
            assert [event.status for event in _events(tools)] == [Status.DENIED, Status.SUCCEEDED]
        assert scene.desk.effects == ["10 x mug"]

    def test_a_failure_is_read_and_rolled_back(self, scene: Scene) -> None:
        with scene.tools() as tools:
            run = scene.run(tools, [_call("c1", "order", item="nothing", quantity=1)])
            assert "Unknown item." in run.read["c1"].text
            assert run.read["c1"].is_error is not False
            assert run.text == "done"
            assert [event.status for event in _events(tools)] == [Status.ERROR]
            assert _orders(tools) == []

    def test_every_call_of_a_turn_has_its_own_answer(self, scene: Scene) -> None:
        items = ("cup", "mug", "jug")
        with scene.tools() as tools:
            turn = [_call(item, "order", item=item, quantity=1) for item in items]
            run = scene.run(tools, turn)
            assert {id_: read.text for id_, read in run.read.items()} == {
                item: f"Ordered 1 x {item}." for item in items
            }

    def test_a_turn_is_one_batch_in_call_order(self, scene: Scene) -> None:
        """Its calls run side by side, and commit in the order of the model."""
        if not self.gathers:
            pytest.skip("This framework starts the calls of a turn one by one.")
        with scene.tools() as tools:
            turn = [_call(f"c{n}", "meet", item=f"item {n}", others=3) for n in (3, 1, 2)]
            run = scene.run(tools, turn)
            assert [run.read[f"c{n}"].text for n in (3, 1, 2)] == [
                f"item {n} met 3" for n in (3, 1, 2)
            ]
            assert [event.call.wire_id for event in _events(tools)] == ["c3", "c1", "c2"]
            if not scene.is_foreign:
                assert _orders(tools) == ["item 3", "item 1", "item 2"]

    def test_a_failed_call_leaves_the_others_of_its_turn(self, scene: Scene) -> None:
        """A batch is not a transaction."""
        with scene.tools() as tools:
            run = scene.run(
                tools,
                [
                    _call("c1", "order", item="cup", quantity=1),
                    _call("c2", "order", item="nothing", quantity=1),
                    _call("c3", "order", item="jug", quantity=1000),
                    _call("c4", "order", item="mug", quantity=1),
                ],
            )
            assert [run.read[f"c{n}"].text for n in (1, 4)] == [
                "Ordered 1 x cup.",
                "Ordered 1 x mug.",
            ]
            assert sorted(scene.desk.effects) == ["1 x cup", "1 x mug"]

    def test_a_run_waits_for_a_person_and_goes_on_elsewhere(self, scene: Scene) -> None:
        """The tool runs once, in the other host, after JSON."""
        turn = [_call("c1", "erase", name="a.txt"), _call("c2", "order", item="cup", quantity=1)]
        paused = self._paused(scene, turn)
        assert scene.desk.effects == ["1 x cup"]
        with self._resumed(scene, turn, paused, APPROVED) as (run, tools):
            assert run.read["c1"].text == "Erased a.txt."
            assert not run.read["c1"].is_error
            assert run.text == "done"
            ends = [event.status for event in _events(tools) if event.call.wire_id == "c1"]
            assert ends[-1] is Status.SUCCEEDED
        assert scene.desk.effects == ["1 x cup", "erased a.txt"]

    def test_a_person_says_no(self, scene: Scene) -> None:
        turn = [_call("c1", "erase", name="a.txt")]
        answer = ApprovalAnswer.deny("Keep that file.")
        with self._resumed(scene, turn, self._paused(scene, turn), answer) as (run, _):
            assert "Keep that file." in run.read["c1"].text
            assert run.text == "done"
        assert scene.desk.effects == []

    def test_a_person_edits_the_arguments(self, scene: Scene) -> None:
        if not self.edits:
            pytest.skip("A person cannot edit arguments in this framework.")
        turn = [_call("c1", "erase", name="a.txt")]
        answer = ApprovalAnswer.edit({"name": "b.txt"})
        with self._resumed(scene, turn, self._paused(scene, turn), answer) as (run, _):
            assert run.read["c1"].text == "Erased b.txt."
        assert scene.desk.effects == ["erased b.txt"]

    def test_an_approval_is_used_up(self, scene: Scene) -> None:
        turn = [_call("c1", "erase", name="a.txt")]
        paused = self._paused(scene, turn)
        for _ in range(2):
            with self._resumed(scene, turn, paused, APPROVED) as (run, _):
                assert run.text == "done" or run.state is not None
        assert scene.desk.effects == ["erased a.txt"]

    def test_a_run_that_is_cancelled_ends_its_call(self, scene: Scene) -> None:
        async def cancelled(tools: ExecutorHandle) -> None:
            turn = [_call("c1", "wait", item="mug")]
            task = asyncio.ensure_future(scene.agent.run(tools, [turn], scene.functions))
            await asyncio.wait_for(scene.desk.running.wait(), 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with scene.tools() as tools:
            asyncio.run(cancelled(tools))
            (event,) = _events(tools)
            assert event.status in {Status.CANCELLED, Status.RAISED}
            assert event.rolled_back
            assert _orders(tools) == []
        assert scene.desk.effects == []

    def test_a_run_whose_time_is_up_ends_its_call(self, scene: Scene) -> None:
        if not self.deadlines:
            pytest.skip("Runs of this framework have no deadline.")
        with scene.tools() as tools:
            turn = [_call("c1", "wait", item="mug")]
            late = scene.agent.run_within(1, tools, [turn], scene.functions)
            with pytest.raises(TimeoutError):
                asyncio.run(late)
            (event,) = _events(tools)
            assert event.status in {Status.CANCELLED, Status.DEADLINE, Status.RAISED}
            assert event.rolled_back
            assert _orders(tools) == []
        assert scene.desk.effects == []

    def test_a_tool_that_takes_too_long_is_told(self, scene: Scene) -> None:
        if scene.is_foreign and not self.stops:
            pytest.skip("Nothing ends a tool of this framework but itself.")
        with scene.tools() as tools:
            run = scene.run(tools, [_call("c1", "hurry", item="mug")])
            assert run.read["c1"].is_error is not False
            assert run.text == "done"
            assert [event.status for event in _events(tools)] == [Status.TIMED_OUT]
            assert _orders(tools) == []
        assert scene.desk.effects == []

    def test_a_call_belongs_to_the_trace_of_its_run(self, scene: Scene) -> None:
        tracer = TracerProvider().get_tracer("tests")
        with scene.tools() as tools, tracer.start_as_current_span("run") as span:
            turn = [_call(f"c{n}", "order", item="cup", quantity=n) for n in (1, 2)]
            scene.run(tools, turn)
        own = span.get_span_context().trace_id
        assert scene.watcher.traces == {"c1": own, "c2": own}

    def test_secrets_are_masked(self, scene: Scene) -> None:
        if scene.is_foreign and not self.secrets:
            pytest.skip("This framework's tools have no type for secrets.")
        with scene.tools() as tools:
            run = scene.run(tools, [_call("c1", "log_in", user="ada", password=SECRET)])
            assert SECRET not in run.read["c1"].text
            assert "ada" in run.read["c1"].text
            (event,) = _events(tools)
            assert SECRET not in json.dumps(event.shown_arguments)

    def _paused(self, scene: Scene, turn: Sequence[ToolCall]) -> Paused:
        if not self.pauses:
            pytest.skip("Runs of this framework do not wait for a person.")
        with scene.tools() as tools:
            run = scene.run(tools, turn)
            assert run.state is not None
            assert run.text is None
            assert turn[0].id not in run.read
            question = json.dumps(run.questions[turn[0].id])
            assert "erase" in question
            return json.dumps(json.loads(run.state)), tools.session.snapshot().to_json()

    @contextmanager
    def _resumed(
        self, scene: Scene, turn: Sequence[ToolCall], paused: Paused, answer: ApprovalAnswer
    ) -> Generator[tuple[AgentRun, ExecutorHandle]]:
        state, session = paused
        answers = {turn[0].id: answer}
        with scene.tools(session) as tools:
            resumed = scene.agent.resume(tools, [turn], state, answers, scene.functions)
            yield asyncio.run(resumed), tools
