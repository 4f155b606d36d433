"""The settings, and the messages about wrong ones."""

from contextlib import closing

import apsw
import pytest
import toolstile_sqlite
from pydantic import ValidationError
from toolstile_sqlite import Settings

from toolstile import ConfigurationError, Host, Settings as HostSettings
from toolstile.testing import assert_failed, assert_ok


def test_without_a_path_there_are_no_tools(toolstile_host):
    host = toolstile_host(toolstile_sqlite)
    assert not [name for name in host.catalog.names() if name.startswith("sql")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"path": "nowhere.db"}, "there is no nowhere.db"),
        ({"path": "."}, "is a directory"),
        ({"path": "nowhere.db", "create": True, "writes": False}, "there is no nowhere.db"),
        ({"max_rows": 0}, "max_rows"),
        ({"file": "shop.db"}, "file"),
    ],
)
def test_what_is_wrong_is_told(settings, said):
    with pytest.raises(ValidationError, match=said):
        Settings(**settings)


def test_the_file_of_the_ledger_is_refused(tmp_path):
    table = {"path": str(tmp_path / "state.db"), "create": True}
    settings = HostSettings(plugins={"sqlite": table, "ledger": {"path": table["path"]}})
    told = "Database locks .* and the ledger records in that file"
    with (
        pytest.raises(ConfigurationError, match=told),
        Host(discover=["sqlite", "ledger"], settings=settings),
    ):
        pass


def test_a_file_is_made_where_that_is_wanted(toolstile_tools, tmp_path):
    file = tmp_path / "new.db"
    tools = toolstile_tools(
        toolstile_sqlite, settings={"sqlite": {"path": str(file), "create": True}}
    )
    assert tools.call("sql_schema").text == "The database is empty."
    assert file.is_file()


@pytest.mark.parametrize("name", ["a b?mode=memory&cache=shared#%41.db", ":memory:", "file:x.db"])
def test_every_character_of_the_path_stands_for_itself(toolstile_tools, shop, name):
    file = shop.rename(shop.parent / name)
    tools = toolstile_tools(toolstile_sqlite, settings={"sqlite": {"path": str(file)}})
    assert "customer" in tools.call("sql_schema").text
    # Beside it lie those of WAL mode, as long as it is open.
    assert {
        each.name.removesuffix("-wal").removesuffix("-shm") for each in shop.parent.iterdir()
    } == {name}


def test_what_is_no_database_is_told(toolstile_tools, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("These are notes, and no database at all. " * 100)
    tools = toolstile_tools(toolstile_sqlite, settings={"sqlite": {"path": str(file)}})
    assert_failed(tools.call("sql_schema"), contains=["not a database", "human intervention"])


def test_full_text_indexes_can_be_searched_and_filled(toolstile_tools, tmp_path):
    file = tmp_path / "notes.db"
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("CREATE VIRTUAL TABLE note USING fts5(body)")
    tools = toolstile_tools(toolstile_sqlite, settings={"sqlite": {"path": str(file)}})
    insert = "INSERT INTO note (body) VALUES (?)"
    assert_ok(tools.call("sql_execute", sql=insert, params=["a quick brown fox"]))
    found = tools.call("sql_query", sql="SELECT body FROM note WHERE note MATCH ?", params=["fox"])
    assert assert_ok(found).rows == [["a quick brown fox"]]
    assert_failed(tools.call("sql_execute", sql="DELETE FROM note_data"), status="failed")
    again = tools.call("sql_query", sql="SELECT body FROM note WHERE note MATCH 'fox'")
    assert len(assert_ok(again).rows) == 1
