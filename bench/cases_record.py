"""The cost that the record adds to a call, on top of a full host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from floors import FLOOR_OF_ADD
from full_host import executor_for, full_host
from measuring import Block, Case, Effort, Probe, Row, compare, on_top, timed
from workload import ADD_ARGUMENTS, add

from toolstile_hookspecs import ToolCall, tool
from toolstile_plugins.record import Recorder, RecordFile

LIMIT: Final = 18
"""The most that the record may add, as a multiple of the floor."""
GOAL: Final = 12

CASES: Final = {
    "add: a full host, not recorded": False,
    "add: a full host with the record": True,
}


def measure_record(effort: Effort) -> list[Row]:
    """Measure `add` through a full host, and with the record."""
    rows = compare(
        [
            Case(Probe(name, _calling(recorded=recorded)), FLOOR_OF_ADD)
            for name, recorded in CASES.items()
        ],
        effort,
    )
    by_name = {row.case: row for row in rows}
    plain, recorded = (by_name[name] for name in CASES)
    return [*rows, on_top("add: the record, on top of a full host", recorded, plain, LIMIT, GOAL)]


def _calling(*, recorded: bool) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        timeless = tool(name="add", timeout=None)(add)
        with ExitStack() as stack:
            host = stack.enter_context(full_host())
            if recorded:
                folder = Path(stack.enter_context(TemporaryDirectory()))
                file = RecordFile(folder / "calls.jsonl", durability="process")
                recorder = Recorder(file, host.clock)
                stack.callback(recorder.close)
                host.register(recorder)
            executor = stack.enter_context(executor_for(host, timeless))
            assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
            yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))

    return opened
