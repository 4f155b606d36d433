"""The metrics keep to what every observer has to show."""

import json

import pytest
import toolstile_prometheus
from toolstile_prometheus import metrics

from toolstile_hookspecs.testing import ObserverContract


class TestMetrics(ObserverContract):
    @pytest.fixture
    def plugin(self):
        return toolstile_prometheus

    @pytest.fixture
    def targets(self, tmp_path):
        return tmp_path / "targets.json"

    @pytest.fixture
    def options(self, targets):
        return {"settings": {"prometheus": {"port": 0, "targets_file": str(targets)}}}

    @pytest.fixture
    def scraper(self, targets, scraper_of):
        def scrape():
            ((target,),) = [each["targets"] for each in json.loads(targets.read_text())]
            return scraper_of(target)

        return scrape

    @pytest.fixture
    def heard(self, scraper):
        return lambda _: sum(scraper().of("toolstile_calls_total", "tool", "status").values())

    @pytest.fixture
    def written(self, scraper):
        return lambda _: scraper().text()

    @pytest.fixture
    def break_it(self, monkeypatch):
        def broken(*arguments):
            raise OSError("There is no memory left.")

        return lambda: monkeypatch.setattr(metrics.Counter, "labels", broken)
