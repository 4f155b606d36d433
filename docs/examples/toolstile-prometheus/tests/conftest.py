"""A scraper, as Prometheus is one: what the tests of this package share."""

import json
import urllib.request
from dataclasses import dataclass

import pytest
import toolstile_prometheus
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scraper:
    """Reads the metrics over HTTP."""

    target: str

    def text(self):
        with urllib.request.urlopen(f"http://{self.target}/metrics", timeout=30) as reply:
            return reply.read().decode()

    def of(self, name, *labels):
        """The samples of one name, by the values of labels."""
        return {
            tuple(sample.labels[label] for label in labels): sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def scraper_of():
    """Gives what reads the metrics that are served at an address."""
    return Scraper


@pytest.fixture
def open_tools(toolstile_tools, tmp_path):
    """Opens tools whose calls are counted; gives them and what scrapes the metrics."""
    number = 0

    def make(*plugins, settings=None, metrics=None, **options):
        nonlocal number
        number += 1
        file = tmp_path / f"targets{number}.json"
        table = {"port": 0, "targets_file": str(file), **(metrics or {})}
        tables = {"prometheus": table, **(settings or {})}
        tools = toolstile_tools(toolstile_prometheus, *plugins, settings=tables, **options)
        ((target,),) = [each["targets"] for each in json.loads(file.read_text())]
        return tools, Scraper(target)

    return make
