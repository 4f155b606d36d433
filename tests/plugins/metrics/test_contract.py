"""The metrics keep to what every observer has to show."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.testing import ObserverContract
from toolstile_plugins import metrics
from toolstile_plugins.metrics import prometheus

from .conftest import Scraper


class TestMetrics(ObserverContract):
    @pytest.fixture
    def plugin(self):
        return metrics

    @pytest.fixture
    def port(self, free_port):
        return free_port()

    @pytest.fixture
    def options(self, port):
        return {"settings": {"metrics": {"port": port}}}

    @pytest.fixture
    def scraper(self, port):
        return Scraper(f"http://127.0.0.1:{port}/metrics")

    @pytest.fixture
    def heard(self, scraper):
        return lambda _: sum(scraper.of("toolstile_calls_total", "tool", "status").values())

    @pytest.fixture
    def written(self, scraper):
        return lambda _: scraper.text()

    @pytest.fixture
    def break_it(self, monkeypatch):
        def broken(*arguments):
            raise OSError("There is no memory left.")

        return lambda: monkeypatch.setattr(prometheus.Counter, "labels", broken)
