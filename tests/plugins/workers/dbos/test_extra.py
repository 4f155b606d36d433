"""The dispatcher where its extra is not installed."""

from __future__ import annotations

import sys

import pytest

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.workers.dbos.dispatcher import DbosDispatcher


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dbos", None)

    with pytest.raises(ConfigurationError, match=r"dbos"):
        DbosDispatcher(PostgresDatabase("postgresql://nobody@localhost/none"))
