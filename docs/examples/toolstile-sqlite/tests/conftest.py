"""A shop's database, and tools over it: what the tests of this package share."""

import sqlite3
from contextlib import closing

import pytest
import toolstile_sqlite

SCHEMA = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE purchase (
    id INTEGER PRIMARY KEY,
    customer INTEGER NOT NULL REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED,
    cents INTEGER NOT NULL CHECK (cents > 0)
);
CREATE VIEW turnover AS
    SELECT name, sum(cents) AS cents FROM customer JOIN purchase ON customer = customer.id
    GROUP BY name;
INSERT INTO customer (name) VALUES ('Ada'), ('Bob'), ('Cleo');
INSERT INTO purchase (customer, cents) VALUES (1, 500), (1, 250), (2, 999);
"""


@pytest.fixture
def shop(tmp_path):
    """The file of a database with customers and what they have bought."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(SCHEMA)
    return file


@pytest.fixture
def rows(shop):
    """The file's content, as another program sees it."""

    def read(sql):
        with closing(sqlite3.connect(shop)) as connection:
            return connection.execute(sql).fetchall()

    return read


@pytest.fixture
def dump(shop):
    """All that another program finds in the file."""

    def read():
        with closing(sqlite3.connect(shop)) as connection:
            version = connection.execute("PRAGMA user_version").fetchall()
            return version, list(connection.iterdump())

    return read


@pytest.fixture
def open_tools(toolstile_tools, shop):
    """Opens tools over the shop, with settings and further plugins."""

    def make(*plugins, **settings):
        table = {"path": str(shop), **settings}
        return toolstile_tools(toolstile_sqlite, *plugins, settings={"sqlite": table})

    return make


@pytest.fixture
def tools(open_tools):
    """Tools over the shop."""
    return open_tools()
