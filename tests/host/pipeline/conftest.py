"""A bench on which single calls are tried out: both drivers, alone and nested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile import Executor, Host, Session
from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    Outcome,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolPolicy,
    ToolResult,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Mark:
    """A trace that a handler leaves in the session."""

    text: str


@dataclass
class Box:
    """A transactional resource: a list that each call has its own branch of."""

    items: list[str] = field(default_factory=list[str])

    def branch(self, context: ToolContext, parent: Any) -> BoxBranch:
        return BoxBranch(parent or self)


class BoxBranch:
    def __init__(self, base: Any) -> None:
        self.base = base
        self.items: list[str] = list(base.items)
        self.resource = self

    def put(self, text: str) -> None:
        self.items.append(text)

    def prepare(self) -> None:
        return None

    def commit(self) -> None:
        self.base.items[:] = self.items

    def rollback(self) -> None:
        self.items = list(self.base.items)


class Observer:
    """A plugin that keeps every event and every news of a rollback."""

    def __init__(self) -> None:
        self.events: list[ToolInvoked] = []
        self.rollbacks: list[tuple[str, str]] = []

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.events.append(event)

    @hookimpl
    def toolstile_rollback(self, tool: Tool[Any, Any], reason: str) -> None:
        self.rollbacks.append((tool.name, reason))


class Yard:
    """A host, a session, a resource and an observer around the tools of one test."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.driver = driver
        self.box = Box()
        self.observer = Observer()
        self.session = Session(id="session", history_events=0, history_bytes=0)
        self._stack = stack
        self.tools: Executor

    def open(
        self,
        *tools: Tool[Any, Any],
        plugins: tuple[object, ...] = (),
        policies: tuple[ToolPolicy, ...] = (),
        host_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Executor:
        host = self._stack.enter_context(
            Host(
                discover=False,
                plugins=[self.observer, *plugins],
                policies=policies,
                **(host_options or {}),
            )
        )
        prompt = Prompt.of(
            "tests", "yard", (MarkdownSection(key="tools", title="Tools", tools=tools),)
        )
        self.host = host
        self.tools = self._stack.enter_context(
            host.executor(
                session=self.session,
                prompt=prompt,
                resources=(Binding.instance(Box, self.box), *options.pop("resources", ())),
                **options,
            )
        )
        return self.tools

    def dispatch(self, call: ToolCall) -> Outcome:
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self._adispatch(call))

    def resume(self, pending: Outcome, answer: Any, **others: Any) -> Outcome:
        """Resume a pending call, with another call or token where one is given."""
        call, token = others.get("call", pending.call), others.get("token", pending.approval_token)
        tools = others.get("tools", self.tools)
        if self.driver == "sync":
            return tools.resume(call, token, answer)

        async def resume() -> Outcome:
            return await tools.aresume(call, token, answer)

        return asyncio.run(resume())

    def dispatch_all(self, calls: list[ToolCall]) -> list[Outcome | BaseException]:
        if self.driver == "sync":
            return self.tools.dispatch_all(calls)
        return asyncio.run(self._adispatch_all(calls))

    async def _adispatch(self, call: ToolCall) -> Outcome:
        return await self.tools.adispatch(call)

    async def _adispatch_all(self, calls: list[ToolCall]) -> list[Outcome | BaseException]:
        return await self.tools.adispatch_all(calls)

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        return self.dispatch(ToolCall(name, arguments))

    @property
    def marks(self) -> list[str]:
        return [mark.text for mark in self.session[Mark].all()]

    @property
    def events(self) -> list[ToolInvoked]:
        """The session's log, which the observer must have heard in the same order."""
        logged = list(self.session[ToolInvoked].all())
        assert logged == self.observer.events
        return logged

    def assert_untouched(self) -> None:
        assert self.marks == []
        assert self.box.items == []


def touch(context: ToolContext, text: str = "x") -> None:
    """Change both the session and the resource."""
    context.session[Mark].append(Mark(text))
    context.resources.get(Box).put(text)  # type: ignore[attr-defined]


@pytest.fixture(params=["sync", "async"])
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    with ExitStack() as stack:
        yield Yard(request.param, stack)


@pytest.fixture
def make_yard() -> Iterator[Callable[[str], Yard]]:
    with ExitStack() as stack:
        yield lambda driver: Yard(driver, stack)


@pytest.fixture(name="touch")
def touch_fixture() -> Callable[..., None]:
    return touch


@pytest.fixture(name="mark")
def mark_type() -> type[Mark]:
    return Mark


@pytest.fixture(name="Box")
def box_type() -> type[Box]:
    return Box


@pytest.fixture
def nesting() -> Callable[..., Tool[Any, Any]]:
    """Make a tool that calls another one and keeps what it is told."""

    def make(
        inner: str, told: list[Outcome], *, is_async: bool, **arguments: Any
    ) -> Tool[Any, Any]:
        if is_async:

            @tool(name="outer")
            async def aouter(*, context: ToolContext) -> ToolResult[None]:
                """Call another tool."""
                touch(context, "outer")
                told.append(await context.acall(inner, arguments))
                return ToolResult.ok(message=told[-1].text)

            return aouter

        @tool(name="outer")
        def outer(*, context: ToolContext) -> ToolResult[None]:
            """Call another tool."""
            touch(context, "outer")
            told.append(context.call(inner, arguments))
            return ToolResult.ok(message=told[-1].text)

        return outer

    return make
