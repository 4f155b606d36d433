"""Kept calls are undone row by row; rows that others have changed since are named."""

import pytest
import toolstile_sqlite

from toolstile.testing import assert_ok
from toolstile_hookspecs import ToolContext, tool
from toolstile_hookspecs.execution.undo import Difference, UndoConflict

BILLS = "SELECT customer, cents FROM purchase ORDER BY id"


@tool(contained=True)
def settle(*, context: ToolContext) -> int:
    """Add a customer, raise two bills, and delete a third one."""
    for sql in (
        "INSERT INTO customer (name) VALUES ('Dora')",
        "UPDATE purchase SET cents = cents + 1 WHERE customer = 1",
        "DELETE FROM purchase WHERE customer = 2",
    ):
        assert context.call("sql_execute", {"sql": sql}).success
    return 3


@pytest.fixture
def tools(toolstile_tools, shop, tmp_path):
    (tmp_path / "kept").mkdir()
    table = {"sqlite": {"path": str(shop)}, "undo": {"path": str(tmp_path / "kept")}}
    return toolstile_tools(toolstile_sqlite, "undo", settings=table, tools=[settle])


@pytest.fixture
def change(tools):
    """Changes rows in another transaction."""
    return lambda sql: assert_ok(tools.call("sql_execute", sql=sql))


def undo(tools, outcome, **options):
    return assert_ok(tools.executor.undo(outcome.call.id, **options))


def test_each_kind_of_change_goes_back_and_comes_again(tools, dump):
    before = dump()
    settled = tools.call("settle")
    assert_ok(settled)
    after = dump()
    assert after != before

    undone = tools.executor.undo(settled.call.id)

    assert_ok(undone)
    assert "purchase 1, purchase 2, purchase 3" in undone.text
    assert dump() == before
    undo(tools, undone)
    assert dump() == after


def test_a_row_that_another_transaction_changed_is_named_by_table_and_key(tools, change, dump):
    settled = tools.call("settle")
    change("UPDATE purchase SET cents = 7 WHERE id = 1")
    change("DELETE FROM purchase WHERE id = 2")
    change("INSERT INTO purchase VALUES (3, 3, 4)")
    change("UPDATE customer SET name = 'Dorothea' WHERE id = 4")
    before = dump()

    with pytest.raises(UndoConflict) as raised:
        tools.executor.undo(settled.call.id)

    assert sorted(raised.value.differences) == [
        Difference("customer 4", "4, 'Dora'", "4, 'Dorothea'"),
        Difference("purchase 1", "1, 501", "1, 1, 7"),
        Difference("purchase 2", "2, 251", "deleted"),
        Difference("purchase 3", "deleted", "3, 3, 4"),
    ]
    assert dump() == before


def test_the_rest_goes_back_if_the_others_keep_theirs(tools, change, rows):
    settled = tools.call("settle")
    change("UPDATE purchase SET cents = 7 WHERE id = 1")

    undo(tools, settled, others="keep")

    assert rows(BILLS) == [(1, 7), (1, 250), (2, 999)]
    assert rows("SELECT name FROM customer WHERE name = 'Dora'") == []


def test_a_row_that_others_refer_to_stays(tools, change, rows):
    settled = tools.call("settle")
    change("INSERT INTO purchase (customer, cents) VALUES (4, 9)")

    with pytest.raises(UndoConflict, match="1 rows refer to rows that are not there"):
        tools.executor.undo(settled.call.id)

    assert (4, 9) in rows(BILLS)


def test_a_call_that_only_reads_has_nothing_to_undo(tools):
    assert_ok(tools.call("sql_query", sql="SELECT 1"))
    assert "No call of this session can be undone" in tools.executor.undo().text
