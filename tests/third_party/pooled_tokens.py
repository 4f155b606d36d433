"""A stranger's policy: all processes draw tokens from one pool, which refills as time passes.

It imports the contract alone. Run as a program, it is one of several processes that draw; it prints
a line for each draw, whether it was let.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstile_hookspecs import (
    PolicyDecision,
    Principal,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_hookspecs.services.counter import Counter


@tool
def think(tokens: int, uses: int) -> str:
    """Think, for at most so many tokens."""
    if uses < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return str(uses)


@dataclass(frozen=True)
class Pool:
    """Lets each principal think for so many tokens an hour; what is not used goes back."""

    most: int
    name: str = "pool"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Leave the decision to `reserve`."""
        return PolicyDecision.allow()

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Take what the call may use at most."""
        counter: Counter = context.resources.get(Counter)  # type: ignore[type-abstract]
        place = counter.reserve(
            self._key(context),
            params.tokens,
            self.most,
            3600,
            self._id(context),
            now=context.clock.now(),
        )
        if place.granted:
            return PolicyDecision.allow()
        return PolicyDecision.deny(
            f"{place.used} of {self.most} tokens are used. Wait, then retry."
        )

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Leave what it used."""
        self._settle(params.uses, context)

    def on_rollback(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> None:
        """Give all of it back."""
        self._settle(0, context)

    def _settle(self, used: int, context: ToolContext) -> None:
        counter: Counter = context.resources.get(Counter)  # type: ignore[type-abstract]
        counter.settle(self._id(context), used)

    def _key(self, context: ToolContext) -> str:
        asks = context.principal
        return self.name if asks is None else f"{self.name} {asks.source} {asks.id}"

    def _id(self, context: ToolContext) -> str:
        call = context.tool_call
        assert call is not None
        return f"{self.name} {context.session.id} {call.id}"


def main(file: Path, name: str, most: int, draws: int) -> None:
    """Draw tokens, one session for each process; a draw of 2 uses 1, and the last may kill.

    One that is refused while others hold theirs is tried again, until one token alone is left.
    """
    from toolstile import Host, Settings

    settings = Settings.model_validate({"plugins": {"sessions": {"path": file}}})
    with (
        Host(
            settings=settings, discover=["sessions"], tools=[think], policies=[Pool(most)]
        ) as host,
        host.executor(session_id=name, principal=Principal("test", "ada")) as tools,
    ):
        for number in range(draws):
            kills = name == "killed" and number == draws - 1
            arguments = {"tokens": 2, "uses": -1 if kills else 1}
            call = ToolCall("think", arguments, id=f"{name} {number}")
            outcome = tools.dispatch(call)
            while not outcome.success and f"{most - 1} of {most}" not in outcome.text:
                outcome = tools.dispatch(call)
            sys.stdout.write(f"{int(outcome.success)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
