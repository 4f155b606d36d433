"""The tools keep to what every suite of tools has to show."""

from typing import ClassVar

import pytest
import toolstile_sqlite

from toolstile_hookspecs.testing import ToolSuiteContract


class TestSuite(ToolSuiteContract):
    arguments: ClassVar = {
        "sql_schema": {},
        "sql_execute": {
            "sql": "INSERT INTO customer (name) VALUES (?)",
            "params": ["Dora"],
        },
    }

    @pytest.fixture
    def plugin(self):
        return toolstile_sqlite

    @pytest.fixture
    def options(self, shop):
        return {"settings": {"sqlite": {"path": str(shop)}}}

    @pytest.fixture
    def outside(self, dump):
        return lambda _: dump()
