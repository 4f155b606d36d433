"""The recorder keeps to the contract of observers."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.testing import ObserverContract

pytestmark = pytest.mark.slow


class TestRecorder(ObserverContract):
    @pytest.fixture
    def plugin(self):
        return "record"

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "calls.jsonl"

    @pytest.fixture
    def options(self, path):
        return {"settings": {"record": {"file": str(path)}}}

    @pytest.fixture
    def heard(self, path):
        return lambda bench: path.read_text("utf-8").count('"kind":"call"')

    @pytest.fixture
    def written(self, path):
        return lambda bench: path.read_text("utf-8")
