"""Kept calls are undone row by row; rows that others have changed since are named."""

from contextlib import closing

import apsw
import pytest
import toolstile_sqlite

from toolstile.testing import assert_ok
from toolstile_hookspecs import Difference, ToolContext, UndoConflict, tool

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


@pytest.fixture
def elsewhere(shop):
    """Runs SQL in another program, which may also define tables."""

    def run(sql):
        with closing(apsw.Connection(str(shop))) as connection:
            connection.execute(f"PRAGMA foreign_keys = ON; {sql}")

    return run


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


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "RESTRICT", "NO ACTION"])
def test_a_row_that_others_refer_to_stays_and_so_do_theirs(tools, elsewhere, dump, action):
    elsewhere(
        "CREATE TABLE visit (day TEXT, hour INTEGER, "
        f"customer INTEGER REFERENCES customer (id) ON DELETE {action}, PRIMARY KEY (day, hour))"
    )
    settled = tools.call("settle")
    elsewhere("INSERT INTO visit VALUES ('May', 9, 4)")
    before = dump()

    with pytest.raises(UndoConflict) as raised:
        tools.executor.undo(settled.call.id)

    now = "a reference to a row of customer that would be missing"
    assert raised.value.differences == (Difference("visit 'May', 9", "a valid reference", now),)
    kept = undo(tools, settled, others="keep")
    told = "others have changed or need them: visit 'May', 9. So nothing of settle, "
    assert kept.startswith(f"Nothing was undone. These values stay, because {told}")
    assert dump() == before
    elsewhere("DELETE FROM visit")
    # The call stands, and is the last, because nothing of it went back.
    assert_ok(tools.executor.undo())


def test_rows_that_the_call_deleted_by_cascade_come_back(tools, elsewhere, dump):
    elsewhere(
        "CREATE TABLE visit (id INTEGER PRIMARY KEY, "
        "customer INTEGER REFERENCES customer (id) ON DELETE CASCADE); "
        "INSERT INTO visit VALUES (1, 3), (2, 3)"
    )
    before = dump()

    undo(tools, tools.call("sql_execute", sql="DELETE FROM customer WHERE id = 3"))

    assert dump() == before


def test_only_references_that_the_undo_breaks_are_named(tools, elsewhere):
    elsewhere(
        "CREATE TABLE visit (customer INTEGER REFERENCES customer (id) ON DELETE CASCADE); "
        "PRAGMA foreign_keys = OFF; INSERT INTO visit VALUES (77)"
    )
    settled = tools.call("settle")
    elsewhere("INSERT INTO visit VALUES (4)")

    with pytest.raises(UndoConflict) as raised:
        tools.executor.undo(settled.call.id)

    assert [name for name, _, _ in raised.value.differences] == ["visit 2"]


def test_triggers_do_not_fire_again_in_an_undo(tools, elsewhere, dump):
    elsewhere(
        "CREATE TABLE total (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO total VALUES (1, 3); "
        "CREATE TABLE audit (id INTEGER PRIMARY KEY, event TEXT); "
        "CREATE TRIGGER more AFTER INSERT ON customer BEGIN "
        "UPDATE total SET n = n + 1; INSERT INTO audit (event) VALUES ('new'); END; "
        "CREATE TRIGGER fewer AFTER DELETE ON customer BEGIN "
        "UPDATE total SET n = n - 1; INSERT INTO audit (event) VALUES ('gone'); END;"
    )
    before = dump()
    settled = tools.call("settle")
    after = dump()

    undone = tools.executor.undo(settled.call.id)

    assert_ok(undone)
    assert dump() == before
    undo(tools, undone)
    assert dump() == after


def test_triggers_fire_in_the_calls_after_an_undo(tools, elsewhere, change, rows):
    elsewhere(
        "CREATE TABLE audit (event TEXT); CREATE TRIGGER more AFTER INSERT ON customer BEGIN "
        "INSERT INTO audit VALUES (new.name); END;"
    )
    undo(tools, tools.call("settle"))

    change("INSERT INTO customer (name) VALUES ('Eve')")

    assert rows("SELECT event FROM audit") == [("Eve",)]


def test_a_count_that_others_have_changed_too_is_a_conflict(tools, elsewhere, change, dump):
    elsewhere(
        "CREATE TABLE total (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO total VALUES (1, 3); "
        "CREATE TRIGGER more AFTER INSERT ON customer BEGIN UPDATE total SET n = n + 1; END; "
        "CREATE TRIGGER fewer AFTER DELETE ON customer BEGIN UPDATE total SET n = n - 1; END;"
    )
    settled = tools.call("settle")
    change("INSERT INTO customer (name) VALUES ('Eve')")
    before = dump()

    with pytest.raises(UndoConflict) as raised:
        tools.executor.undo(settled.call.id)

    assert raised.value.differences == (Difference("total 1", "1, 4", "1, 5"),)
    assert dump() == before


@pytest.mark.parametrize(
    "altered",
    [
        "ALTER TABLE note RENAME TO remark",
        "DROP TABLE note",
        "ALTER TABLE note DROP COLUMN text",
        "ALTER TABLE note DROP COLUMN extra",
        "DROP TABLE note; CREATE TABLE note (id, extra, text PRIMARY KEY)",
    ],
)
def test_a_table_that_no_longer_fits_is_a_conflict(tools, elsewhere, dump, altered):
    elsewhere("CREATE TABLE note (id INTEGER PRIMARY KEY, extra, text)")
    written = tools.call("sql_execute", sql="INSERT INTO note VALUES (1, 2, 'draft')")
    elsewhere(altered)
    before = dump()

    with pytest.raises(UndoConflict, match="table note: as the call found it, now dropped"):
        tools.executor.undo(written.call.id)

    assert dump() == before


@pytest.mark.parametrize(
    "altered",
    [
        "ALTER TABLE note DROP COLUMN extra; ALTER TABLE note ADD COLUMN more",
        "ALTER TABLE note RENAME COLUMN extra TO other",
        "DROP TABLE note; CREATE TABLE note (id INTEGER PRIMARY KEY, text, extra)",
    ],
)
def test_values_go_to_no_other_columns(tools, elsewhere, change, dump, rows, altered):
    elsewhere("CREATE TABLE note (id INTEGER PRIMARY KEY, extra, text)")
    change("INSERT INTO note VALUES (1, 2, 'draft')")
    deleted = tools.call("sql_execute", sql="DELETE FROM note")
    elsewhere(altered)
    before = dump()

    with pytest.raises(UndoConflict, match="table note: as the call found it, now dropped"):
        tools.executor.undo(deleted.call.id)

    kept = undo(tools, deleted, others="keep")
    assert kept.startswith("Nothing was undone. These values stay, because others have changed")
    assert dump() == before


def test_a_column_that_was_added_since_is_no_conflict(tools, elsewhere, change, rows):
    elsewhere("CREATE TABLE note (id INTEGER PRIMARY KEY, text)")
    change("INSERT INTO note VALUES (1, 'draft')")
    deleted = tools.call("sql_execute", sql="DELETE FROM note")
    elsewhere("ALTER TABLE note ADD COLUMN extra DEFAULT 5")

    undo(tools, deleted)

    assert rows("SELECT * FROM note") == [(1, "draft", 5)]


@pytest.mark.parametrize("sql", ["INSERT INTO found VALUES ('Fay')", "DELETE FROM found"])
def test_a_call_that_changed_a_virtual_table_says_that_it_cannot_be_undone(
    tools, elsewhere, change, dump, sql
):
    elsewhere("CREATE VIRTUAL TABLE found USING fts5(name)")
    change("INSERT INTO found VALUES ('Eve')")
    written = tools.call("sql_execute", sql=sql)
    before = dump()

    undone = tools.executor.undo(written.call.id, others="keep")

    assert not undone.success
    assert undone.text.startswith(
        "Nothing was undone, because the call or a trigger changed found,"
    )
    assert dump() == before


def test_a_call_whose_trigger_fills_a_full_text_index_is_not_half_undone(tools, elsewhere, rows):
    elsewhere(
        "CREATE VIRTUAL TABLE found USING fts5(name, content='customer', content_rowid='id'); "
        "CREATE TRIGGER more AFTER INSERT ON customer BEGIN "
        "INSERT INTO found (rowid, name) VALUES (new.id, new.name); END;"
    )
    settled = tools.call("settle")

    undone = tools.executor.undo(settled.call.id)

    assert not undone.success
    assert "rows of virtual tables" in undone.text
    assert rows("SELECT name FROM found WHERE found MATCH 'Dora'") == [("Dora",)]


def test_a_call_that_only_reads_has_nothing_to_undo(tools):
    assert_ok(tools.call("sql_query", sql="SELECT 1"))
    assert "No call of this session can be undone" in tools.executor.undo().text
