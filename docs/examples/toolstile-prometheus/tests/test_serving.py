"""The metrics are there while the host is open, and where they should be."""

import json
import socket
import urllib.error
import urllib.request

import pytest
import toolstile_prometheus
from prometheus_client import REGISTRY
from pydantic import ValidationError
from toolstile_prometheus import Settings

from toolstile import Host
from toolstile_hookspecs import PluginError, tool


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_without_a_port_nothing_is_served(toolstile_tools):
    tools = toolstile_tools(toolstile_prometheus, look)
    assert "prometheus-metrics" not in [each.name for each in tools.host.plugins.reports]


def test_it_is_served_where_it_is_said_and_ends_with_the_host(toolstile_host, free_port, tmp_path):
    file = tmp_path / "targets.json"
    table = {"port": free_port, "targets_file": str(file)}
    host = toolstile_host(toolstile_prometheus, look, settings={"prometheus": table})
    assert json.loads(file.read_text()) == [{"targets": [f"127.0.0.1:{free_port}"]}]
    address = f"http://127.0.0.1:{free_port}/metrics"
    with urllib.request.urlopen(address, timeout=30) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain")
    host.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=30)
    assert not file.exists()


def test_hosts_count_by_themselves_and_leave_the_applications_metrics_alone(open_tools):
    before = {family.name for family in REGISTRY.collect()}
    first, first_scraper = open_tools(look)
    second, second_scraper = open_tools(look)
    first.call("look")
    first.call("look")
    second.call("look")
    assert first_scraper.of("toolstile_calls_total", "tool", "status") == {("look", "succeeded"): 2}
    assert second_scraper.of("toolstile_calls_total", "tool", "status") == {
        ("look", "succeeded"): 1
    }
    assert {family.name for family in REGISTRY.collect()} == before


def test_a_port_that_is_taken_is_told(toolstile_host):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PluginError, match=rf"prometheus.*port {port}.*Set another port"):
            toolstile_host(toolstile_prometheus, settings={"prometheus": {"port": port}})


def test_a_client_that_says_nothing_does_not_keep_the_host_open(open_tools):
    tools, scraper = open_tools(look)
    address, _, port = scraper.target.rpartition(":")
    with socket.create_connection((address, int(port)), timeout=30):
        assert tools.call("look").success
        tools.host.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"port": 70000}, "port"),
        ({"port": -1}, "port"),
        ({"buckets": [1.0, 0.1]}, "rising"),
        ({"buckets": []}, "rising"),
        ({"path": "/"}, "path"),
    ],
)
def test_what_is_wrong_is_told(settings, said):
    with pytest.raises(ValidationError, match=said):
        Settings(**settings)


def test_an_installed_package_without_settings_changes_nothing():
    with Host(discover=False, plugins=[toolstile_prometheus]) as host:
        assert [each.fault for each in host.plugins.reports] == [None]
