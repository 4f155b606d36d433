"""A host and a worker in two networks, and the database of both in one of them."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import Server

from .conftest import Site
from .networks import Network, two_networks

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def networks() -> Generator[tuple[Network, Network]]:
    """The networks of the host, with the database, and of the worker."""
    with two_networks() as networks:
        yield networks


@pytest.fixture(scope="module")
def server(networks: tuple[Network, Network]) -> Generator[Server]:
    """A PostgreSQL server that both reach."""
    host, _ = networks
    server = Server(address=host.address, within=host.within)
    yield server
    server.remove()


@pytest.fixture
def site(tmp_path: Path, server: Server) -> Generator[Site]:
    """A folder without a worker."""
    pytest.importorskip("dbos")
    with closing(Site(tmp_path, server.make())) as site:
        yield site


def spans_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_spans_of_a_handler_belong_to_the_trace_of_the_call(
    site: Site, networks: tuple[Network, Network], tmp_path: Path
) -> None:
    host, worker = networks
    calls = tmp_path / "calls.jsonl"
    site.plugins["otel"] = {"trace": str(calls)}
    site.start(within=worker.within)
    told = site.call(("traced", {"name": "Ada"}), within=host.within)
    assert told == [worker.address]
    (called,) = spans_in(calls)
    (handled,) = spans_in(site.spans)
    assert handled["name"] == "greets Ada"
    assert handled["context"]["trace_id"] == called["context"]["trace_id"]
    assert handled["parent_id"] == called["context"]["span_id"]


def test_a_handler_uses_session_and_tools_of_its_host_in_the_other_network(
    site: Site, networks: tuple[Network, Network], tmp_path: Path
) -> None:
    host, worker = networks
    calls = tmp_path / "calls.jsonl"
    site.plugins["otel"] = {"trace": str(calls)}
    module = "tests.plugins.workers.connected_tools"
    site.start(3, tools=module, within=worker.within)
    relayed, trace = site.call(
        ("relay", {"name": "book", "order": 1}),
        ("trace_id", {}),
        module=module,
        within=host.within,
        address=host.address,
    )
    assert relayed.startswith("relayed by ")
    assert relayed.splitlines()[-1] == "1"
    assert f"0x{trace}" in {span["context"]["trace_id"] for span in spans_in(calls)}
