"""The answers of the tools."""

import pytest
from toolstile_sqlite import Change, Rows

from toolstile.testing import assert_failed, assert_ok


def test_the_schema_is_told_as_sql(tools):
    text = tools.call("sql_schema").text
    assert "CREATE TABLE customer" in text
    assert "CREATE VIEW turnover" in text


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT cents FROM purchase WHERE customer = ? AND cents > ? ORDER BY id", [1, 100]),
        (
            "SELECT cents FROM purchase WHERE customer = :who AND cents > :least ORDER BY id",
            {"who": 1, "least": 100},
        ),
    ],
)
def test_values_are_parameters(tools, sql, params):
    outcome = tools.call("sql_query", sql=sql, params=params)
    assert_ok(outcome, value=Rows(columns=["cents"], rows=[[500], [250]]))
    assert outcome.text == '["cents"]\n[500]\n[250]'


def test_a_value_is_never_sql(tools):
    name = "Ada'; DROP TABLE customer; --"
    assert_ok(
        tools.call("sql_query", sql="SELECT id FROM customer WHERE name = ?", params=[name]),
        value=Rows(columns=["id"], rows=[]),
    )


def test_views_and_recursion_can_be_read(tools):
    assert_ok(
        tools.call("sql_query", sql="SELECT * FROM turnover ORDER BY name"),
        value=Rows(columns=["name", "cents"], rows=[["Ada", 750], ["Bob", 999]]),
    )
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4)"
    assert assert_ok(tools.call("sql_query", sql=f"{counting} SELECT i FROM n")).rows == [
        [1],
        [2],
        [3],
        [4],
    ]


def test_changes_are_counted_and_kept(tools, rows):
    insert = "INSERT INTO customer (name) VALUES (:name)"
    assert_ok(
        tools.call("sql_execute", sql=insert, params={"name": "Dora"}),
        value=Change(changed=1, last_id=4),
    )
    update = "UPDATE purchase SET cents = cents + ? WHERE customer = ? RETURNING id, cents"
    assert_ok(
        tools.call("sql_execute", sql=update, params=[1, 1]),
        value=Change(2, returned=Rows(["id", "cents"], [[1, 501], [2, 251]])),
    )
    nobody = tools.call("sql_execute", sql="DELETE FROM purchase WHERE cents > 10000")
    assert_ok(nobody, value=Change(0))
    assert rows("SELECT name FROM customer WHERE id = 4") == [("Dora",)]
    assert rows("SELECT sum(cents) FROM purchase") == [(1751,)]


def test_values_that_json_cannot_hold_are_told(tools):
    sql = "SELECT x'00ff' AS a, 9e999 AS b, NULL AS c"
    assert assert_ok(tools.call("sql_query", sql=sql)).rows == [["(blob of 2 bytes)", "inf", None]]
    broken = tools.call("sql_query", sql="SELECT CAST(x'ff41' AS TEXT)")
    assert_failed(broken, contains="hex() of it")


def test_long_results_are_cut_with_a_note(open_tools):
    tools = open_tools(max_rows=2, max_characters=1000)
    value = assert_ok(tools.call("sql_query", sql="SELECT id FROM purchase"))
    assert value.rows == [[1], [2]]
    assert "Cut after 2 rows" in value.note

    whole = tools.call("sql_query", sql="SELECT id FROM purchase LIMIT 2")
    assert assert_ok(whole).note is None

    wide = assert_ok(tools.call("sql_query", sql="SELECT printf('%500s', 'x') AS a"))
    assert len(wide.rows[0][0]) < 200
    assert "substr" in wide.note


@pytest.mark.parametrize(
    ("sql", "params", "said"),
    [
        ("SELEC 1", [], 'near "SELEC": syntax error'),
        ("SELECT nope FROM customer", [], "no such column: nope"),
        ("SELECT * FROM customers", [], "no such table: customers"),
        ("SELECT ?", [], "Incorrect number of bindings"),
        ("SELECT :a", {"b": 1}, "binding"),
        ("SELECT ?", [2**70], "too big"),
        ("INSERT INTO customer (name) VALUES (?)", ["Ada"], "UNIQUE constraint failed"),
        ("INSERT INTO purchase (customer, cents) VALUES (1, -5)", [], "CHECK constraint failed"),
    ],
)
def test_faults_are_told_with_what_to_do(tools, sql, params, said):
    name = "sql_execute" if sql.startswith("INSERT") else "sql_query"
    text = assert_failed(tools.call(name, sql=sql, params=params), status="failed", contains=said)
    assert "then retry" in text


def test_wrong_arguments_are_refused(tools):
    assert_failed(tools.call("sql_query", sql=1, limit=5), status="invalid", contains="sql")
    assert_failed(tools.call("sql_query", sql="SELECT ?", params=[[1]]), status="invalid")


def test_the_tools_bring_their_guidance(tools):
    assert "as a parameter" in tools.host.prompt.render().text
