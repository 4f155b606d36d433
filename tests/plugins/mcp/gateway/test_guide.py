"""The guide's configuration can be used as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from executing.fences import fences

from toolstile import Host

GUIDE = (Path(__file__).parents[4] / "docs" / "how-to" / "mcp.md").read_text("utf-8")

CONFIGURATIONS = [
    block.text
    for block in fences(GUIDE)
    if block.language == "toml" and "[plugins.mcp.servers." in block.text
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_the_configurations_are_taken(text, tmp_path):
    file = tmp_path / "toolstile.toml"
    file.write_text(text)
    host = Host(config=file)
    reports = {each.name: each for each in host.plugins.reports}
    assert reports["mcp"].fault is None
    assert (
        host.settings("mcp").servers.keys()
        == tomllib.loads(text)["plugins"]["mcp"]["servers"].keys()
    )


def test_the_file_to_start_from_has_its_policies(tmp_path):
    file = tmp_path / "toolstile.toml"
    file.write_text(CONFIGURATIONS[0])
    kinds = [type(each).__name__ for each in Host(config=file).policies]
    assert kinds == ["CategoryPolicy", "ReadBeforeWritePolicy", "RateLimitPolicy"]
