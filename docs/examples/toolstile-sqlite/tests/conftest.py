"""A shop's database, and tools over it: what the tests of this package share."""

from contextlib import closing

import apsw
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
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute(SCHEMA)
    return file


@pytest.fixture
def rows(shop):
    """The file's content, as another program sees it."""

    def read(sql):
        # By the same library: two in one process lose each other's locks.
        with closing(apsw.Connection(str(shop))) as connection:
            return connection.execute(sql).fetchall()

    return read


@pytest.fixture
def dump(shop):
    """All that another program finds in the file."""

    def read():
        with closing(apsw.Connection(str(shop))) as connection:
            run = connection.execute
            tables = run("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            rows = {name: run(f"SELECT * FROM {name}").fetchall() for (name,) in tables.fetchall()}
            return run("PRAGMA user_version").get, run("SELECT * FROM sqlite_master").get, rows

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
