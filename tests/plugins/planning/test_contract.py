"""The planning suite keeps to the contract of suites."""

from __future__ import annotations

from typing import ClassVar

import pytest

from toolstile_hookspecs.testing import ToolSuiteContract
from toolstile_plugins import planning


class TestPlanning(ToolSuiteContract):
    arguments: ClassVar = {
        "planning_add_step": {"steps": ["Write the notes"]},
        "planning_read_plan": {},
    }

    @pytest.fixture
    def plugin(self):
        return planning

    @pytest.fixture
    def prepare(self):
        def prepare(bench, tool):
            if tool.name != "planning_setup_plan":
                made = bench.call(
                    "planning_setup_plan",
                    objective="Ship the release",
                    initial_steps=["Run the tests"],
                )
                assert made.success, made.text

        return prepare
