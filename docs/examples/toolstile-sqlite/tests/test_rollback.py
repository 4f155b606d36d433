"""The writes of a call are kept as a whole or not at all."""

from contextlib import closing

import apsw
import pytest

from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import ToolContext, ToolResult, tool

ADD = "INSERT INTO customer (name) VALUES (?)"


def add(context, name):
    return context.call("sql_execute", {"sql": ADD, "params": [name]})


@tool
def add_several(names: list[str], fail: bool = False, *, context: ToolContext) -> ToolResult[int]:
    """Add customers, each with a call of its own; those that fail are left out."""
    added = sum(add(context, name).success for name in names)
    return ToolResult.error("Not wanted after all.") if fail else ToolResult.ok(added)


@tool
def add_group(names: list[str], *, context: ToolContext) -> ToolResult[int]:
    """Add customers with a call that calls; whatever becomes of it, go on."""
    add(context, "before")
    context.call("add_several", {"names": names, "fail": True})
    add(context, "after")
    return ToolResult.ok(2)


@tool
def add_then_lose(*, context: ToolContext) -> ToolResult[str]:
    """Add a customer, then let SQLite end the transaction, and go on."""
    add(context, "Dora")
    lost = context.call("sql_execute", {"sql": ADD.replace("INTO", "OR ROLLBACK INTO", 1),
                                        "params": ["Ada"]})  # fmt: skip
    again = add(context, "Emil")
    return ToolResult.ok(f"{lost.text}\n{again.text}")


@pytest.fixture
def tools(open_tools):
    return open_tools(add_several, add_group, add_then_lose)


@pytest.fixture
def names(rows):
    return lambda: [name for (name,) in rows("SELECT name FROM customer ORDER BY id")]


def test_a_call_that_fails_leaves_no_trace(tools, names):
    assert_failed(tools.call("add_several", names=["Dora", "Emil"], fail=True), status="failed")
    assert names() == ["Ada", "Bob", "Cleo"]


def test_a_nested_call_that_fails_takes_only_its_own_along(tools, names):
    assert_ok(tools.call("add_several", names=["Dora", "Ada", "Emil"]), value=2)
    assert names() == ["Ada", "Bob", "Cleo", "Dora", "Emil"]


def test_savepoints_nest(tools, names):
    assert_ok(tools.call("add_group", names=["Dora", "Emil"]))
    assert names() == ["Ada", "Bob", "Cleo", "before", "after"]


def test_others_see_nothing_before_the_commit(open_tools, names):
    seen = []

    @tool
    def look_from_outside(*, context: ToolContext) -> int:
        """Add a customer, and look what another program sees."""
        add(context, "Dora")
        seen.append(names())
        return 1

    assert_ok(open_tools(look_from_outside).call("look_from_outside"))
    assert seen == [["Ada", "Bob", "Cleo"]]
    assert names()[-1] == "Dora"


def test_a_batch_runs_in_order(tools, names):
    count = "SELECT count(*) AS n FROM customer"
    outcomes = tools.call_all(
        ("sql_query", {"sql": count}),
        ("sql_execute", {"sql": ADD, "params": ["Dora"]}),
        ("sql_query", {"sql": count}),
        ("sql_execute", {"sql": ADD, "params": ["Dora"]}),
        ("sql_query", {"sql": count}),
    )
    assert [assert_ok(outcomes[place]).rows for place in (0, 2, 4)] == [[[3]], [[4]], [[4]]]
    assert not outcomes[3].success
    assert names().count("Dora") == 1


def test_a_commit_that_fails_is_told(tools, rows):
    orphan = "INSERT INTO purchase (customer, cents) VALUES (99, 1)"
    outcome = tools.call("sql_execute", sql=orphan)
    assert_failed(outcome, status="commit_failed", contains="FOREIGN KEY constraint failed")
    assert rows("SELECT count(*) FROM purchase") == [(3,)]
    assert_ok(tools.call("sql_execute", sql=orphan.replace("99", "3")))
    assert rows("SELECT count(*) FROM purchase") == [(4,)]


def test_a_transaction_that_sqlite_ends_is_lost_as_a_whole(tools, names):
    outcome = tools.call("add_then_lose")
    assert_failed(outcome, stage="prepare", contains="undone the whole transaction")
    assert names() == ["Ada", "Bob", "Cleo"]
    assert_ok(tools.call("sql_execute", sql=ADD, params=["Dora"]))
    assert names()[-1] == "Dora"


def test_another_program_that_writes_is_told_of(open_tools, shop, names):
    tools = open_tools(busy_timeout=0)
    with closing(apsw.Connection(str(shop))) as other:
        other.execute("BEGIN IMMEDIATE")
        busy = tools.call("sql_execute", sql=ADD, params=["Dora"])
        assert_failed(busy, status="failed", contains="Retry")
        other.execute("ROLLBACK")
    assert_ok(tools.call("sql_execute", sql=ADD, params=["Dora"]))
    assert names()[-1] == "Dora"
