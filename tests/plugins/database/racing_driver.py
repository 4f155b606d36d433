"""One of several processes that make calls on one session in PostgreSQL, and much else.

Prints a line of JSON: how many calls conflicted and were made again, and how many places it got.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import toolstile.state.journal
from toolstile import Host, Settings
from toolstile_hookspecs import (
    IdempotencyConfig,
    PolicyDecision,
    SlicePolicy,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolPolicy,
    tool,
)
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.sessions import append_all
from toolstile_hookspecs.stored_names import stored_as

AWAY = ("cannot be used", "nobody can tell", "Nobody can tell", "places could not decide")
"""Words of outcomes while the database is away."""


@stored_as("racing.Line")
@dataclass(frozen=True)
class Line:
    """An item whose number is that of the items before it; -1 for one that looks at none."""

    number: int
    text: str


@stored_as("racing.Seen")
@dataclass(frozen=True)
class Seen:
    """An item of a LOG slice."""

    text: str


class Places(ToolPolicy):
    """A policy that admits so many calls, over all processes."""

    name = "places"
    most = 60

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        if tool.name != "take":
            return PolicyDecision.allow()
        counter: Counter = context.resources.get(Counter)  # type: ignore[type-abstract]
        place = counter.reserve(
            "places", 1, self.most, None, f"place {params.text}", now=context.clock.now()
        )
        return PolicyDecision.allow() if place.granted else PolicyDecision.deny("None is left.")


def add(text: str, context: ToolContext) -> str:
    """Read how many lines there are, and write one that says so."""
    number = len(context.session[Line].all())
    context.session[Line].append(Line(number, text))
    return text


@tool(timeout=None, contained=True)
def count(text: str, *, context: ToolContext) -> str:
    """Write a line."""
    return add(text, context)


@tool(timeout=None, contained=True, idempotency=IdempotencyConfig(scope="global"))
def once(text: str, *, context: ToolContext) -> str:
    """Write a line, with a record in the ledger."""
    return add(text, context)


@tool(timeout=None, contained=True)
def take(text: str, *, context: ToolContext) -> str:
    """Write a line, as long as there are places."""
    return add(text, context)


def settings_of(url: str) -> Settings:
    return Settings.model_validate({"plugins": {"database": {"url": url, "lease": 2}}})


def done(work: Any) -> Any:
    """Return what comes of some work, which is begun again as long as the database is away."""
    until = time.monotonic() + 60
    while True:
        try:
            return work()
        except Exception as error:
            if not any(words in str(error) for words in AWAY) or time.monotonic() > until:
                raise
            time.sleep(0.05)


def main(url: str, name: str, calls: int) -> None:
    """Make the calls, each again as long as it conflicts or the database is away."""
    conflicts = places = 0
    with Host(
        settings=settings_of(url),
        discover=["database", "sessions", "ledger"],
        tools=[count, once, take],
        policies=[Places()],
    ) as host:
        tools = done(lambda: host.executor(session_id="s"))
        session = tools.session
        session[Seen].register(Seen, append_all, SlicePolicy.LOG)
        for number in range(calls):
            text = f"{name}-{number}"
            called = ToolCall(("count", "once", "count", "take")[number % 4], {"text": text})
            until = time.monotonic() + 120
            while not (outcome := tools.dispatch(called)).success:
                is_away = any(words in outcome.text for words in AWAY)
                if outcome.status == Status.DENIED and not is_away:
                    break
                assert outcome.status == Status.CONFLICT or is_away, outcome.text
                assert time.monotonic() < until, outcome.text
                conflicts += 1
                time.sleep(0.05 if is_away else 0)
            places += called.name == "take" and outcome.success
            if number % 10 == 3:
                done(lambda text=text: session[Seen].append(Seen(text)))
            if number % 20 == 7:
                done(lambda text=text: session[Line].append(Line(-1, text)))
            if number % 50 == 49:
                done(session.reset)
        tools.close()
    sys.stdout.write(json.dumps([conflicts, places]) + "\n")


if __name__ == "__main__":
    # The test reads all entries.
    toolstile.state.journal.MANY = 10**9
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
