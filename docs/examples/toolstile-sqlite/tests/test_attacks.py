"""SQL that a model may write does nothing that it should not do."""

import pytest
from toolstile_sqlite import Database, Settings

from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import Cancellation, Deadline, ToolContext, ToolValidationError

READING = {
    "stacked": ("SELECT 1; DELETE FROM customer", "one statement"),
    "stacked in a comment": ("SELECT 1; -- \n DROP TABLE customer", "one statement"),
    "insert": ("INSERT INTO customer (name) VALUES ('Eve')", "only reads"),
    "insert behind a CTE": (
        "WITH a(n) AS (SELECT 'Eve') INSERT INTO customer (name) SELECT n FROM a",
        "only reads",
    ),
    "update": ("UPDATE customer SET name = 'Eve'", "only reads"),
    "delete": ("DELETE FROM customer RETURNING *", "only reads"),
}
BOTH = {
    "drop": ("DROP TABLE customer", "structure"),
    "create": ("CREATE TABLE eve (a)", "structure"),
    "create as": ("CREATE TABLE eve AS SELECT * FROM customer", "structure"),
    "temporary": ("CREATE TEMP TABLE eve (a)", "structure"),
    "temporary trigger": (
        "CREATE TEMP TRIGGER eve AFTER INSERT ON customer BEGIN DELETE FROM purchase; END",
        "structure",
    ),
    "virtual": ("CREATE VIRTUAL TABLE eve USING fts5(a)", "structure"),
    "alter": ("ALTER TABLE customer ADD COLUMN eve", "structure"),
    "reindex": ("REINDEX", "structure"),
    "analyze": ("ANALYZE", "structure"),
    "attach": ("ATTACH '{elsewhere}' AS eve", "Other databases"),
    "attach by address": ("ATTACH 'file:{elsewhere}?mode=rwc' AS eve", "Other databases"),
    "vacuum into": ("VACUUM INTO '{elsewhere}'", ""),
    "pragma": ("PRAGMA query_only = OFF", "PRAGMA"),
    "pragma that writes": ("PRAGMA user_version = 7", "PRAGMA"),
    "writable schema": ("PRAGMA writable_schema = ON", "PRAGMA"),
    "pragma as a table": ("SELECT * FROM pragma_journal_mode('DELETE')", ""),
    "extension": ("SELECT load_extension('{elsewhere}')", "function"),
    "file": ("SELECT readfile('/etc/hostname')", "no such function"),
    "begin": ("BEGIN", "transaction already"),
    "commit": ("COMMIT", "transaction already"),
    "rollback": ("ROLLBACK", "transaction already"),
    "savepoint": ("SAVEPOINT eve", "savepoint already"),
    "release": ("RELEASE call_1", "savepoint already"),
    "rollback to": ("ROLLBACK TO call_1", "savepoint already"),
    "blob": ("SELECT randomblob(1000000000)", "too big"),
    "text": ("SELECT replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000000)))", "too big"),
    "deep": ("SELECT " + "(" * 5000 + "1" + ")" * 5000, ""),
    "long": ("SELECT '" + "x" * 200_000 + "'", ""),
    "zero byte": ("SELECT 1\0; DROP TABLE customer", ""),
    "surrogate": ("SELECT '\ud800'", ""),
}
ATTACKS = [("sql_query", *each) for each in [*READING.values(), *BOTH.values()]]
ATTACKS += [("sql_execute", *each) for each in BOTH.values()]
ATTACKS += [
    ("sql_execute", "DELETE FROM customer; DELETE FROM purchase", "one statement"),
    ("sql_execute", "DELETE FROM sqlite_master", "may not be modified"),
    ("sql_execute", "UPDATE sqlite_master SET sql = ''", "may not be modified"),
]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def test_nothing_comes_of_any_attack(tools, dump, tmp_path):
    """All in one session: what one leaves behind, another could use."""
    elsewhere = tmp_path / "elsewhere.db"
    assert_ok(tools.call("sql_schema"))
    before, files = dump(), sorted(tmp_path.iterdir())
    for name, sql, said in ATTACKS:
        outcome = tools.call(name, sql=sql.replace("{elsewhere}", str(elsewhere)))
        text = assert_failed(outcome, contains=said)
        assert "Traceback" not in text
        assert "apsw." not in text
    assert dump() == before
    assert sorted(tmp_path.iterdir()) == files
    assert assert_ok(tools.call("sql_query", sql="SELECT count(*) FROM customer")).rows == [[3]]


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        ("sql_query", ENDLESS + "SELECT max(i) FROM n"),
        ("sql_query", ENDLESS + "SELECT 1 FROM n, n AS m, n AS o WHERE n.i + m.i + o.i < 0"),
        ("sql_execute", ENDLESS + "INSERT INTO customer (name) SELECT 'x' || i FROM n"),
    ],
)
def test_what_never_ends_is_stopped(open_tools, dump, name, sql):
    tools = open_tools(time_limit=0.05)
    before = dump()
    assert_failed(tools.call(name, sql=sql), status="failed", contains="longer than 0.05 seconds")
    assert dump() == before
    assert_ok(tools.call("sql_query", sql="SELECT 1"))


def test_a_statement_ends_with_its_call(shop):
    stop = Cancellation()
    stop.cancel()
    late = Deadline.after(0)
    database = Database(Settings(path=shop))
    savepoint = database.begin()
    for context, said in [
        (ToolContext(session=None, abort_signal=stop), "was cancelled"),
        (ToolContext(session=None, deadline=late), "the deadline has passed"),
    ]:
        with pytest.raises(ToolValidationError, match=said):
            database.query(ENDLESS + "SELECT max(i) FROM n", [], context)
    database.rollback(savepoint)
    database.close()


def test_a_flood_of_rows_is_cut_and_not_collected(open_tools):
    tools = open_tools(max_rows=5)
    value = assert_ok(tools.call("sql_query", sql=ENDLESS + "SELECT i FROM n"))
    assert len(value.rows) == 5


def test_without_writes_the_file_is_opened_for_reading_only(open_tools, dump):
    tools = open_tools(writes=False)
    assert_failed(tools.call("sql_execute", sql="DELETE FROM customer"), status="unknown_tool")
    assert_ok(tools.call("sql_query", sql="SELECT 1"))
    assert "sql_execute" not in tools.host.catalog.names()
