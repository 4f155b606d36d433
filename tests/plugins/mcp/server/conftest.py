"""Fixtures of the server's tests: real processes that serve, and the official client."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"
DESK = Path(__file__).with_name("desk.py")
LONGEST = 120.0
SLOW = 120.0
OVER_HTTP = ("mcp", "--http", "127.0.0.1:0")

LEGACY = "legacy"
MODERN = "auto"
NEWEST = "2026-07-28"


@dataclass
class Served:
    """A server that answers over HTTP."""

    url: str
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @asynccontextmanager
    async def client(
        self, mode: str, *, token: str | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        # There are no certificates to read, which is what takes time otherwise.
        async with httpx2.AsyncClient(headers=headers, verify=False, timeout=SLOW) as http:
            streams = streamable_http_client(self.url, http_client=http)
            async with Client(streams, mode=mode, **options) as client:
                yield client


@contextmanager
def serving(
    *,
    plugin: Path = DESK,
    command: Sequence[str] = OVER_HTTP,
    through: Sequence[str] = (),
    **options: Any,
) -> Iterator[Served]:
    """Serve over HTTP until the block is left; what it is started through becomes the server."""
    process = subprocess.Popen(
        [*through, str(COMMAND), "--plugin", str(plugin), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    said: list[str] = []
    listens = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if line.startswith("Serving on "):
                listens.set()
        listens.set()

    hearing = threading.Thread(target=listen, daemon=True)
    hearing.start()
    try:
        assert listens.wait(LONGEST)
        urls = [line.split()[-1] for line in said if line.startswith("Serving on ")]
        assert urls, "".join(said)
        yield Served(urls[0], process, said)
    finally:
        process.terminate()
        process.wait(LONGEST)
        hearing.join(LONGEST)
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture(scope="session")
def desk_over_http(tmp_path_factory) -> Iterator[Served]:
    with serving(cwd=tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture(scope="session")
def guarded(tmp_path_factory) -> Iterator[Served]:
    """The desk, served to whoever shows a token: one of Ada's, Bert's, or the one of all."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text("of-all\n")
    (folder / "toolstile.toml").write_text(
        '[plugins.mcp.serve.tokens]\nada = "of-ada"\nbert = "of-bert"\n'
    )
    command = ("mcp", "--token-file", "token", "--http", "0.0.0.0:0")
    with serving(command=command, cwd=folder) as served:
        served.url = served.url.replace("0.0.0.0", "127.0.0.1")
        yield served


Connect = Callable[..., AbstractAsyncContextManager[Client]]


# Each test over stdio starts a process.
@pytest.fixture(params=[pytest.param("stdio", marks=pytest.mark.slow), "http"])
def transport(request) -> str:
    return request.param


@pytest.fixture(params=[LEGACY, MODERN], ids=["legacy", "modern"])
def mode(request) -> str:
    return request.param


@pytest.fixture
def connect(request, transport, mode, tmp_path) -> Connect:
    """The connection of the official client to the desk, over each transport, in each era."""

    def connected(**options: Any) -> AbstractAsyncContextManager[Client]:
        if transport == "http":
            return request.getfixturevalue("desk_over_http").client(mode, **options)
        parameters = StdioServerParameters(
            command=str(COMMAND), args=["--plugin", str(DESK), "mcp"], cwd=tmp_path
        )
        return Client(parameters, mode=mode, **options)

    return connected


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def appears(path: Path) -> None:
    """Wait until a file is there."""
    with anyio.fail_after(LONGEST):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.01)


def post(url: str, body: object, **headers: str | bytes) -> httpx2.Response:
    """Post JSON as a client of the newer era does."""
    defaults = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEWEST,
    }
    return httpx2.post(url, json=body, headers={**defaults, **headers}, timeout=LONGEST)


def peak_memory(process: subprocess.Popen[Any]) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip(f"{sys.platform} does not say how much memory a process had")
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
