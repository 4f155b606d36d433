"""A host with every stage in use, as an application would have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from toolstile import Executor, Host, Session, Settings
from toolstile_hookspecs import (
    Binding,
    Filesystem,
    MarkdownSection,
    PolicyDecision,
    PolicyState,
    Prompt,
    Tool,
    ToolContext,
    ToolInvoked,
    ToolResult,
    hookimpl,
    tool as make_tool,
)
from toolstile_plugins.policies import SequentialDependencyPolicy
from toolstile_plugins.vfs import VirtualFilesystem

FILES: Final = 10_000
AWAITED: Final = frozenset({"add", "create_order"})
GOVERNED: Final = AWAITED | {"deploy"}
MAX_INFLIGHT: Final = 100


class Watch:
    """A policy that uses all it can: a record of its own, and a place for each call."""

    name = "watch"

    def check(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - a policy's signature
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        state = PolicyState.of(context, self.name)
        if "lock_up" in state.invoked_tools:
            return PolicyDecision.deny(f"All is locked up. {tool.name} cannot be called any more.")
        return PolicyDecision.allow()

    def reserve(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the protocol's
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        if len(context.inflight) >= MAX_INFLIGHT:
            return PolicyDecision.deny(f"Too many calls at once. Wait, then retry {tool.name}.")
        return PolicyDecision.allow()

    def on_result(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the protocol's
        result: ToolResult[Any],  # noqa: ARG002 - the protocol's
        *,
        context: ToolContext,
    ) -> None:
        state = PolicyState.of(context, self.name)
        if tool.name not in state.invoked_tools:
            state.with_tool(tool.name).save(context)


class Tally(Watch):
    """A policy that writes its records in every call, once when admitted, once when done."""

    name = "tally"

    def reserve(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the protocol's
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        _counted(PolicyState.reserved(context, self.name), tool.name).save(context)
        return PolicyDecision.allow()

    def on_result(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the protocol's
        result: ToolResult[Any],  # noqa: ARG002 - the protocol's
        *,
        context: ToolContext,
    ) -> None:
        _counted(PolicyState.of(context, self.name), tool.name).save(context)


class OfficeRules:
    """A policy in the form of two hooks, which ask for no more than they need."""

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], context: ToolContext) -> PolicyDecision | None:
        if tool.consequence == "high" and context.user_id is None:
            return PolicyDecision.deny("Nobody is signed in. It cannot be called.")
        return None

    @hookimpl
    def toolstile_on_result(self, tool: Tool[Any, Any], context: ToolContext) -> None:
        if tool.category == "delete" and context.user_id is None:
            msg = "Nobody is signed in."
            raise PermissionError(msg)


class Meter:
    """A telemetry observer."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.calls += 1
        self.seconds += event.duration


@dataclass(frozen=True)
class Total:
    """The sum of all numbers so far, which a reducer makes of results."""

    value: int = 0


def full_host(
    *more: object,
    block: Sequence[str] = (),
    resources: Sequence[Binding[Any]] = (),
    settings: Settings | None = None,
) -> Host:
    """Return the default host: the built-in plugins, two policies, a workspace, an observer.

    Args:
        more: Further plugins.
        block: Names of built-in plugins to leave out.
        resources: Further bindings of the application.
        settings: Its settings; those of the folder where none are given.
    """
    files = {f"src/{index:05d}.txt": b"text" for index in range(FILES)}
    workspace = VirtualFilesystem.in_memory(files)
    return Host(
        plugins=(OfficeRules(), Meter(), *more),
        block=tuple(block),
        settings=settings,
        policies=(SequentialDependencyPolicy(dependencies={"deploy": AWAITED}),),
        resources=(Binding.instance(Filesystem, workspace), *resources),
    )


def session_with_reducer() -> Session:
    """Return a session in which results are added up."""
    session = Session()
    session[Total].register(int, add_up)
    return session


@contextmanager
def executor_for(
    host: Host,
    tool: Tool[Any, Any],
    session: Session | None = None,
    resources: tuple[Binding[Any], ...] = (),
) -> Iterator[Executor]:
    """Give what dispatches calls of a tool, in a new session unless one is given."""
    session = session or Session()
    prompt = Prompt.of("bench", "bench", sections_of(tool))
    with host.executor(prompt=prompt, session=session, resources=resources) as executor:
        yield executor


def sections_of(tool: Tool[Any, Any]) -> list[MarkdownSection[Any]]:
    """Return what offers a tool, and the other tools that the policy speaks of."""
    section = MarkdownSection(key="bench", title="Bench", tools=[tool])
    return [section, MarkdownSection(key="others", title="Others", tools=_others(tool))]


def _others(tool: Tool[Any, Any]) -> list[Tool[Any, Any]]:
    """Return what else the policy speaks of, so that it is not told that nobody offers it."""

    def nothing() -> None:
        """Do nothing."""

    return [make_tool(name=name)(nothing) for name in sorted(GOVERNED - {tool.name})]


def add_up(items: Sequence[Total], event: int) -> Sequence[Total]:
    """Keep one total."""
    return [Total((items[-1].value if items else 0) + event)]


def _counted(state: PolicyState, tool: str) -> PolicyState:
    return replace(state, data={tool: state.data.get(tool, 0) + 1})
