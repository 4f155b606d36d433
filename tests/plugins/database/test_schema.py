"""The tables in PostgreSQL have versions, are made once, and are changed only when told to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from toolstile_hookspecs import StateError
from toolstile_plugins.database.commands import PARTS
from toolstile_plugins.database.schema import Part, found_in, parts_in, upgrade

from .conftest import do

pytestmark = pytest.mark.slow

FIRST = Part("boxes", ("CREATE TABLE toolstile_boxes (id INTEGER)",))
SECOND = Part("boxes", (*FIRST.steps, "ALTER TABLE toolstile_boxes ADD COLUMN size INTEGER"))


def test_tables_are_made_when_they_are_first_needed(opened, url):
    database = opened()
    database.require(FIRST)
    database.open()
    assert do(url, "SELECT * FROM toolstile_boxes") == []
    other = opened()
    other.require(FIRST)
    assert other.identity(FIRST) == database.identity(FIRST)


def test_a_part_that_is_asked_for_later_is_made_later(opened):
    database = opened()
    database.require(FIRST)
    with database.writing() as connection:
        connection.execute("INSERT INTO toolstile_boxes VALUES (1)")
        database.require(Part("bags", ("CREATE TABLE toolstile_bags (id INTEGER)",)))
        with database.writing():
            connection.execute("INSERT INTO toolstile_bags VALUES (1)")
        raised = StateError("refused")
        with pytest.raises(StateError, match="refused"), database.writing():
            raise raised
    assert database.read("SELECT * FROM toolstile_bags") == [(1,)]


def test_a_newer_version_is_refused(opened):
    newer = opened()
    newer.require(SECOND)
    newer.open()
    older = opened()
    older.require(FIRST)
    with pytest.raises(StateError, match=r"are of version 2, and this Toolstile knows 1\. Use"):
        older.open()


def test_an_older_version_is_changed_only_by_an_upgrade(opened, url):
    older = opened()
    older.require(FIRST)
    with older.writing() as connection:
        connection.execute("INSERT INTO toolstile_boxes VALUES (1)")
    newer = opened()
    newer.require(SECOND)
    with pytest.raises(StateError, match="and run `toolstile database upgrade`"):
        newer.open()
    with psycopg.connect(url, autocommit=True) as connection:
        assert upgrade(connection, [SECOND]) == ["boxes"]
        assert upgrade(connection, [SECOND]) == []
        assert found_in(connection)["boxes"].identity == older.identity(FIRST)
    assert newer.read("SELECT * FROM toolstile_boxes") == [(1, None)]


def test_an_upgrade_that_fails_changes_nothing(url):
    broken = Part("bags", ("CREATE TABLE toolstile_bags (id INTEGER)", "SELECT 1 / 0"))
    with psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            upgrade(connection, [FIRST, broken])
        assert found_in(connection) == {}
        assert upgrade(connection, [FIRST]) == ["boxes"]


def test_many_that_begin_at_once_make_the_tables_once(opened):
    barrier = Barrier(6)

    def begin(number):
        database = opened()
        database.require(FIRST)
        barrier.wait()
        return database.identity(FIRST)

    with ThreadPoolExecutor(6) as pool:
        assert len({*pool.map(begin, range(6))}) == 1


def test_who_may_make_no_tables_is_told_what_to_run(opened, ordinary, url):
    database = opened(ordinary)
    database.require(FIRST)
    with pytest.raises(StateError, match="Have an administrator run `toolstile database upgrade`"):
        database.open()
    with psycopg.connect(url, autocommit=True) as connection:
        upgrade(connection, [FIRST])
    assert database.read("SELECT * FROM toolstile_boxes") == []


def test_who_may_make_no_tables_is_told_so_by_an_upgrade_alike(opened, ordinary):
    told = []
    database = opened(ordinary)
    database.require(FIRST)
    for work in (database.open, lambda: database.on_new_connection(lambda c: upgrade(c, [FIRST]))):
        with pytest.raises(StateError, match="SELECT, INSERT, UPDATE and DELETE on") as raised:
            work()
        told.append(str(raised.value))
    assert told[0] == told[1]


def test_rights_are_looked_at_in_all_tables_of_a_part(url, ordinary):
    with psycopg.connect(url, autocommit=True) as connection:
        upgrade(connection, PARTS)
    made = do(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert {*made} == {("toolstile_schema",), *((name,) for part in PARTS for name in part.tables)}
    with psycopg.connect(ordinary, autocommit=True) as connection:
        assert [fault for _, _, fault in parts_in(connection, PARTS)] == [None] * len(PARTS)


def test_who_may_not_write_is_told_what_to_grant(opened, ordinary, url, user):
    with psycopg.connect(url, autocommit=True) as connection:
        upgrade(connection, [FIRST])
    do(url, f"REVOKE INSERT ON toolstile_boxes FROM {user}")
    database = opened(ordinary)
    database.require(FIRST)
    assert database.read("SELECT * FROM toolstile_boxes") == []
    with (
        pytest.raises(StateError, match=r"denied for table toolstile_boxes\. Grant its"),
        database.writing() as connection,
    ):
        connection.execute("INSERT INTO toolstile_boxes VALUES (1)")
