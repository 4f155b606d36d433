"""A scraper, as Prometheus is one, beside hosts whose calls are counted."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import dataclass

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True)
class Scraper:
    """Reads the metrics over HTTP."""

    url: str

    def text(self, accept="text/plain"):
        request = urllib.request.Request(self.url, headers={"accept": accept})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.read().decode()

    def of(self, name, *labels):
        """The samples of one name by the values of labels, the same in both formats."""
        plain = _samples(text_string_to_metric_families(self.text()), name, labels)
        opened = openmetrics.text_string_to_metric_families(self.text(OPENMETRICS))
        assert _samples(opened, name, labels) == plain
        return plain


def _samples(families, name, labels):
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


@pytest.fixture
def free_port():
    def find():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    return find


@pytest.fixture
def open_tools(toolstile_tools, free_port):
    """Opens tools whose calls are counted; gives them and what scrapes the metrics."""

    def make(*plugins, settings=None, **options):
        port = free_port()
        tables = {"metrics": {"port": port}, **(settings or {})}
        tools = toolstile_tools("metrics", *plugins, settings=tables, **options)
        return tools, Scraper(f"http://127.0.0.1:{port}/metrics")

    return make
