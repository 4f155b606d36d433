"""Putting back what a failing call changed: a long slice costs what a short one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from full_host import executor_for, full_host, session_with_reducer
from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Host, Session
from toolstile_hookspecs import ToolCall, ToolContext, ToolResult, tool

SHORT = 10
LIMIT = 1.5


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the slice."""

    number: int


@tool(timeout=None)
def fail_late(number: int, *, context: ToolContext) -> ToolResult[None]:
    """Change the session, then fail."""
    entries = context.session[Entry]
    entries.append(Entry(number))
    return ToolResult.error(f"There are {len(entries.all()):,} entries, which is wrong.")


def measure_rollback(effort: Effort) -> list[Row]:
    """Measure failing calls, and bare branches, over slices of different lengths."""
    short, long = _session(SHORT), _session(effort.entries)
    with full_host() as host:
        return compare(
            [
                Case(
                    Probe(f"rollback of a call: {effort.entries:,} entries", _failing(host, long)),
                    Probe(f"rollback of a call: {SHORT} entries", _failing(host, short)),
                    LIMIT,
                ),
                Case(
                    Probe(f"rollback of a branch: {effort.entries:,} entries", _branching(long)),
                    Probe(f"rollback of a branch: {SHORT} entries", _branching(short)),
                    LIMIT,
                ),
            ],
            effort,
        )


def _session(entries: int) -> Session:
    session = session_with_reducer()
    session[Entry].seed(*map(Entry, range(entries)))
    return session


def _failing(host: Host, session: Session) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        before = len(session[Entry].all())
        # A clone starts from the same slices without the log of the calls of other rounds.
        with executor_for(host, fail_late, session.clone()) as executor:
            yield timed(lambda: executor.dispatch(ToolCall("fail_late", '{"number": 1}')))
            assert len(executor.session[Entry].all()) == before

    return opened


def _branching(session: Session) -> Callable[[], AbstractContextManager[Block]]:
    def once() -> None:
        branch = session.fork()
        branch[Entry].append(Entry(1))
        branch.rollback()

    @contextmanager
    def opened() -> Iterator[Block]:
        yield timed(once)

    return opened
