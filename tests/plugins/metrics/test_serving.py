"""The metrics are there while the host is open, and where they should be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError, tool
from toolstile_plugins.metrics.prometheus import CallMetrics

from .conftest import OPENMETRICS, Scraper

# Each starts processes.
pytestmark = pytest.mark.slow


@tool
def look() -> str:
    """Look."""
    return "seen"


def calls_in(registry: CollectorRegistry) -> float | None:
    labels = {"tool": "look", "status": "succeeded"}
    return registry.get_sample_value("toolstile_calls_total", labels)


def test_without_a_port_nothing_is_counted_nor_imported():
    code = """if True:
        import sys
        from toolstile import Host
        with Host() as host:
            assert "metrics" in {each.name for each in host.plugins.reports}
            assert "metrics_of_calls" not in {each.name for each in host.plugins.reports}
        assert "prometheus_client" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_they_are_served_where_it_is_said_and_end_with_the_host(toolstile_host, free_port):
    port = free_port()
    host = toolstile_host("metrics", look, settings={"metrics": {"port": port}})
    scraper = Scraper(f"http://127.0.0.1:{port}/metrics")
    assert scraper.text().startswith("# HELP toolstile_")
    assert scraper.text(OPENMETRICS).endswith("# EOF\n")
    host.close()
    with pytest.raises(urllib.error.URLError):
        scraper.text()


def test_hosts_count_by_themselves_and_leave_the_applications_metrics_alone(open_tools):
    before = {family.name for family in REGISTRY.collect()}
    (first, first_scraper), (second, second_scraper) = open_tools(look), open_tools(look)
    first.call("look")
    first.call("look")
    second.call("look")
    counted = [one.of("toolstile_calls_total", "tool") for one in (first_scraper, second_scraper)]
    assert counted == [{("look",): 2}, {("look",): 1}]
    assert {family.name for family in REGISTRY.collect()} == before


def test_an_application_passes_its_registry(toolstile_tools):
    registry = CollectorRegistry()
    metrics = CallMetrics(registry, buckets=[0.5, 60.0])
    toolstile_tools(metrics, look).call("look")
    assert metrics.registry is registry
    assert calls_in(registry) == 1
    labels = {"tool": "look", "le": "60.0"}
    assert registry.get_sample_value("toolstile_call_duration_seconds_bucket", labels) == 1


def test_an_application_serves_them_in_a_route(toolstile_tools):
    metrics = CallMetrics()
    toolstile_tools(metrics, look).call("look")
    with TestClient(Starlette(routes=[Route("/metrics", metrics)])) as client:
        told = client.get("/metrics", headers={"accept": OPENMETRICS})
    assert told.headers["content-type"].startswith("application/openmetrics-text")
    assert 'toolstile_calls_total{status="succeeded",tool="look"} 1.0' in told.text


def test_processes_are_counted_together(tmp_path):
    """Each worker counts in files; whichever is scraped tells the sum."""
    code = """if True:
        from toolstile import Host, ToolCall, tool
        from toolstile_plugins.metrics.prometheus import CallMetrics
        @tool
        def look() -> str:
            '''Look.'''
            return "seen"
        metrics = CallMetrics()
        host = Host(discover=False, plugins=[metrics], tools=[look])
        with host, host.executor() as tools:
            tools.dispatch(ToolCall("look"))
        labels = {"tool": "look", "status": "succeeded"}
        print(metrics.registry.get_sample_value("toolstile_calls_total", labels))
    """
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True
        ).stdout
        for _ in range(2)
    ]
    assert [float(text) for text in told] == [1, 2]


def test_a_port_that_is_taken_is_told(toolstile_host):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port}.*Give another port"):
            toolstile_host("metrics", settings={"metrics": {"port": port}})


def test_a_client_that_says_nothing_does_not_keep_the_host_open(open_tools):
    tools, scraper = open_tools(look)
    port = int(scraper.url.partition("127.0.0.1:")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=30):
        assert tools.call("look").success
        tools.host.close()


def test_a_missing_library_is_told_with_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "toolstile_plugins.metrics.prometheus")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    host = Host(settings=Settings(plugins={"metrics": {"port": 9464}}))
    with pytest.raises(ConfigurationError, match=r"prometheus-client.*\[observability\]"), host:
        pass
