"""Trees of calls that write, of which any may fail, leave what a model says."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import apsw
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from toolstile_hookspecs import ToolContext, ToolResult, tool


@dataclass
class Step:
    """A call: writes a row, makes the calls within it, writes another, and may then fail."""

    number: int
    within: list[Step] = field(default_factory=list)
    fails: bool = False


@tool
def write_rows(step: Step, *, context: ToolContext) -> ToolResult[None]:
    """Write rows as a step says."""
    for sign in (1, -1):
        sql = {"sql": "INSERT INTO written VALUES (?)", "params": [sign * step.number]}
        assert context.call("sql_execute", sql).success
        for each in step.within if sign == 1 else ():
            context.call("write_rows", {"step": as_json(each)})
    return ToolResult.error("as it was told") if step.fails else ToolResult.ok(None)


def as_json(step):
    return {
        "number": step.number,
        "within": [as_json(each) for each in step.within],
        "fails": step.fails,
    }


def kept(step):
    """The rows that a step leaves."""
    if step.fails:
        return []
    within = [number for each in step.within for number in kept(each)]
    return [step.number, *within, -step.number]


LEAVES = st.builds(Step, st.integers(1, 9), fails=st.booleans())
STEPS = st.recursive(
    LEAVES,
    lambda steps: st.builds(
        Step, st.integers(1, 9), st.lists(steps, max_size=3), st.sampled_from([False, False, True])
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("toolstile_driver", ["sync", "async"])
def test_what_is_left_is_what_did_not_fail(open_tools, shop, rows):
    with closing(apsw.Connection(str(shop))) as connection:
        connection.execute("CREATE TABLE written (number INTEGER)")
    tools = open_tools(write_rows)

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(STEPS, min_size=1, max_size=2))
    def check(steps):
        tools.call("sql_execute", sql="DELETE FROM written")
        for step in steps:
            assert tools.call("write_rows", step=as_json(step)).success is not step.fails
        left = [number for (number,) in rows("SELECT number FROM written ORDER BY rowid")]
        assert left == [number for step in steps for number in kept(step)]

    check()
