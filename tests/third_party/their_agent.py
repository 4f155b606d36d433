"""A small agent framework of a stranger's, and the lines that put its tools behind the stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolstile_hookspecs import (
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Outcome,
    ToolCall,
    ToolContext,
)


@dataclass(frozen=True)
class TheirTool:
    """A tool of the framework: a name, a schema, and an async function of the run's own state."""

    name: str
    text: str
    parameters: dict[str, Any]
    run: Callable[[Run, dict[str, Any]], Awaitable[Any]]


@dataclass
class Run:
    """One run of their agent, which no tool of ours knows."""

    user: str
    log: list[str] = field(default_factory=list)


def foreign_tools(theirs: Sequence[TheirTool]) -> list[ForeignTool]:
    """Return their tools as tools that run by what each turn gives."""
    return [ForeignTool(each.name, each.text, each.parameters, server="agent") for each in theirs]


@dataclass
class Governed:
    """Their agent's turns, with every call behind our stages."""

    theirs: Sequence[TheirTool]
    tools: ExecutorHandle

    async def turn(self, run: Run, calls: Sequence[ToolCall]) -> list[Outcome | BaseException]:
        """Make the calls of one turn as one batch; each runs within their run."""
        return await self.tools.adispatch_all(calls, using=[self._in(run, each) for each in calls])

    async def go_on(self, run: Run, call: ToolCall, token: str) -> Outcome:
        """Make a call that a person has approved."""
        return await self.tools.aresume(call, token, answer=True, using=self._in(run, call))

    def _in(self, run: Run, call: ToolCall) -> ForeignCall:
        theirs = {each.name: each for each in self.theirs}[call.name]

        async def within(arguments: dict[str, Any], context: ToolContext) -> Any:
            return await theirs.run(run, arguments)

        return within
