"""The agents and tools over which an adapter into another framework is tested."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from opentelemetry import trace
from pydantic import SecretStr

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.calls import Stage, ToolCall
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.decorator import tool
from toolstile_hookspecs.execution.foreign_tools import ForeignTool
from toolstile_hookspecs.handles import ExecutorHandle
from toolstile_hookspecs.markers import hookimpl
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True)
class ModelRead:
    """The answer to a call, as the model reads it.

    Args:
        text: The text.
        is_error: Whether it is marked as an error; None where the framework marks none.
    """

    text: str
    is_error: bool | None = None


@dataclass(frozen=True)
class AgentRun:
    """The end of a run of a framework's agent, or the place where it waits.

    Args:
        read: What the model has read of its calls, by their ids.
        text: The last words of the model, None for a run that waits.
        state: The run as JSON, where it waits for a person.
        questions: The questions of the calls that wait, by their ids.
    """

    read: Mapping[str, ModelRead]
    text: str | None = None
    state: str | None = None
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


Script = Sequence[Sequence[ToolCall]]
"""The calls of each turn of a model, which says `done` after them."""
Functions = Sequence[Callable[..., Any]] | None
"""The tools that an agent has already; None for the tools of the executor."""


class FrameworkAgent(ABC):
    """Runs agents of one framework, with a model that follows a script.

    The model calls what stands in `script` at the number of its replies so far, so that the agent
    of another process goes on where the first one stopped.
    """

    @abstractmethod
    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        """Return functions, made into tools of the framework, as tools for an executor."""

    @abstractmethod
    async def run(
        self,
        tools: ExecutorHandle,
        script: Script,
        functions: Functions = None,
    ) -> AgentRun:
        """Run an agent to its end, or until it waits for a person.

        Args:
            tools: The executor. The agent has its tools, or governed ones.
            script: What its model calls.
            functions: The tools that the agent has already; None for the tools of the executor.
        """

    async def run_within(
        self,
        seconds: float,
        tools: ExecutorHandle,
        script: Script,
        functions: Functions = None,
    ) -> AgentRun:
        """Run an agent with a deadline of its framework, where that has such a thing; see `run`.

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
        """Go on with a run that waited, by its JSON and the answers to its calls, by their ids."""


# --- The tools of both sides


@dataclass(frozen=True)
class Order:
    """An order of a desk, kept in the session."""

    number: int
    item: str

    def render(self) -> str:
        """Return its line."""
        return f"#{self.number} {self.item}"


class Desk:
    """The tools of an agent, as ours and as plain functions, and what they have done.

    Attributes:
        effects: What was done, in order.
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
            # Some frameworks give what the model wrote.
            given = cast("SecretStr | str", password)
            shown = given if isinstance(given, str) else given.get_secret_value()
            return f"{user} has {shown}"

        return [order, erase, meet, wait, hurry, log_in]

    def _ordered(self, item: str, quantity: int) -> str:
        if item == "nothing":
            raise LookupError("There is no such item.")
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
    """Denies large orders."""

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], params: Any) -> PolicyDecision | None:
        if tool.name != "order":
            return None
        given = cast("dict[str, Any]", params if isinstance(params, dict) else vars(params))
        if given["quantity"] > MOST:
            return PolicyDecision.deny("At most 100 are ordered. Order less, then retry.")
        return None


class _Watcher:
    """Notes the stages of all calls, and the span in which each came."""

    def __init__(self) -> None:
        self.stages: dict[str, list[Stage]] = {}
        self.traces: dict[str, int] = {}

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> _Watched:
        self.traces[call.wire_id] = trace.get_current_span().get_span_context().trace_id
        return _Watched(self.stages.setdefault(call.wire_id, []))


class _Watched:
    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

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
        functions = self.functions
        tools = self.desk.own() if functions is None else self._asking(functions)
        more = {} if session is None else {"session": host.session(session, kinds=[Order])}
        with host.executor(tools=tools, **more) as made:
            yield made

    @property
    def functions(self) -> list[Callable[..., Any]] | None:
        """The functions of the agent's own tools, None where it has ours."""
        return self.desk.functions() if self.is_foreign else None

    def _asking(self, functions: Sequence[Callable[..., Any]]) -> list[Tool[Any, Any]]:
        """Return their tools as a configuration would correct them."""
        given: dict[str, Mapping[str, Any]] = {
            "erase": {"requires_confirmation": True},
            "hurry": {"timeout": 0.05},
        }
        made = self.agent.foreign_tools(functions)
        return [replace(each, **given.get(each.name, {})) for each in made]

    def run(self, tools: ExecutorHandle, *turns: Sequence[ToolCall]) -> AgentRun:
        """Run an agent."""
        return asyncio.run(self.agent.run(tools, turns, self.functions))
