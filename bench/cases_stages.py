"""The cost that each part of a full host adds to a call, for information."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from floors import FLOOR_OF_ADD
from full_host import Meter, OfficeRules, Tally, Watch, executor_for, session_with_reducer
from measuring import Block, Case, Effort, Probe, Row, compare, timed
from workload import ADD_ARGUMENTS, add

from toolstile import Host, Session
from toolstile_hookspecs import ToolCall, tool

HOSTS: dict[str, Callable[[], Host]] = {
    "two hooks of a plugin": lambda: Host(discover=False, plugins=(OfficeRules(),)),
    "an observer": lambda: Host(discover=False, plugins=(Meter(),)),
    "a policy that reads its record": lambda: Host(discover=False, policies=(Watch(),)),
    "a policy that writes two records": lambda: Host(discover=False, policies=(Tally(),)),
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
