"""The table of published servers is that of the list, and none of them is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from surveying.installing import Installed, read_servers
from surveying.report import PAGE, page_with
from surveying.visiting import Visit

# The source is the same on every Python: once is enough.
pytestmark = pytest.mark.slow

TEXT = PAGE.read_text("utf-8")
ROWS = {
    cells[0]: cells
    for line in TEXT.splitlines()
    if line.startswith("| ")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def test_there_are_thirty_servers_of_both_registries():
    servers = read_servers()
    assert len({server.name for server in servers}) == len(servers) >= 30
    assert min(len([s for s in servers if s.npm]), len([s for s in servers if s.pypi])) >= 10


def test_each_offers_tools_in_the_table():
    for server in read_servers():
        assert int(ROWS[server.name][3]) > 0
        assert server.package in ROWS[server.name][1]


def test_a_server_that_is_not_reached_is_told_in_the_table():
    (first, *_) = read_servers()
    installed = Installed(first, "1", Path(), {})
    page = page_with([Visit(installed, None, (), {}, "it has | ended")])
    assert "0 of 1 servers are reached; they offer 0 tools, and 0 tools are left out." in page
    assert f"| {first.package} 1 (npm) | - | 0 | not reached: it has / ended |" in page
    assert page.startswith(TEXT.partition("<!-- begin")[0])
