"""The cost that each part of a full host adds to a call, for information."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from floors import FLOOR_OF_ADD
from full_host import Meter, OfficeRules, Tally, Watch, executor_for, session_with_reducer
from measuring import Block, Case, Effort, Probe, Row, compare, timed
from workload import ADD_ARGUMENTS, add

from toolstile import Host, Session
from toolstile_hookspecs import ToolCall, tool
from toolstile_plugins.rules import RulePolicy


def rules(count: int) -> tuple[RulePolicy, ...]:
    """Return rules of which two, where there are so many, concern `add`."""
    names = ["add", "add", *(f"tool_{number}" for number in range(198))][:count]
    return tuple(
        RulePolicy(tools={name}, when="args.a > 500", effect="deny", name=f"rule {number}")
        for number, name in enumerate(names)
    )


def others() -> list[Any]:
    """Return the tools of the other rules."""
    return [tool(name=f"tool_{number}")(add) for number in range(198)]


HOSTS: dict[str, Callable[[], Host]] = {
    "two hooks of a plugin": lambda: Host(discover=False, plugins=(OfficeRules(),)),
    "an observer": lambda: Host(discover=False, plugins=(Meter(),)),
    "a policy that reads its record": lambda: Host(discover=False, policies=(Watch(),)),
    "a policy that writes two records": lambda: Host(discover=False, policies=(Tally(),)),
    "a rule on its arguments": lambda: Host(discover=False, policies=rules(1)),
    "200 rules, of which two are its own": lambda: Host(
        discover=False, policies=rules(200), tools=others()
    ),
}


def measure_stages(effort: Effort) -> list[Row]:
    """Measure `add` through a bare host, and with one thing more at a time."""
    bare = _calling(lambda: Host(discover=False), Session)
    reducing = _calling(lambda: Host(discover=False), session_with_reducer)
    probes = [
        Probe("add: a bare host", bare),
        Probe("add: with a reducer of the result", reducing),
        *(Probe(f"add: with {what}", _calling(make, Session)) for what, make in HOSTS.items()),
    ]
    return compare([Case(probe, FLOOR_OF_ADD) for probe in probes], effort)


def _calling(
    make_host: Callable[[], Host], make_session: Callable[[], Session]
) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        timeless = tool(name="add", timeout=None)(add)
        with make_host() as host, executor_for(host, timeless, make_session()) as executor:
            assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
            yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))

    return opened
