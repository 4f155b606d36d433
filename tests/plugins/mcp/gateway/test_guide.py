"""What the guide shows can be used as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from toolyard import Host
from toolyard_plugins.mcp.gateway.importing import read_servers

GUIDE = (Path(__file__).parents[4] / "docs" / "guides" / "mcp-gateway.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


CONFIGURATIONS = [each for each in blocks("toml") if "mcp_servers" not in each]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_the_configurations_are_taken(text, tmp_path):
    file = tmp_path / "toolyard.toml"
    file.write_text(text)
    host = Host(config=file)
    reports = {each.name: each for each in host.plugins.reports}
    assert reports["mcp"].fault is None
    assert (
        host.settings("mcp").servers.keys()
        == tomllib.loads(text)["plugins"]["mcp"]["servers"].keys()
    )


def test_the_file_to_start_from_has_its_policies(tmp_path):
    file = tmp_path / "toolyard.toml"
    file.write_text(CONFIGURATIONS[0])
    kinds = [type(each).__name__ for each in Host(config=file).policies]
    assert kinds == ["CategoryPolicy", "ReadBeforeWritePolicy", "RateLimitPolicy"]


@pytest.mark.parametrize("text", [*blocks("json"), blocks("toml")[1]])
def test_what_clients_are_given_can_be_imported(text, tmp_path):
    file = tmp_path / ("config.toml" if text.startswith("[") else "config.json")
    file.write_text(text)
    (server,) = read_servers(file)
    assert (server.name, server.keys["command"]) == ("toolyard", "toolyard")
