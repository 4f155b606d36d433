"""Hosts with a gateway, in front of servers of ours that are real processes."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import Outcome, ToolCall

pytest.importorskip("mcp")

HERE = Path(__file__).parent
LIMIT = 120.0
"""Seconds for what must happen on any machine, however slow."""


def until(happened: Callable[[], Any], what: str) -> Any:
    """Wait until something has happened, and return it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.01)
    pytest.fail(f"never: {what}")


class Yard:
    """Hosts with servers behind them, driven by one of the two drivers."""

    def __init__(self, driver: str, folder: Path, stack: ExitStack) -> None:
        self.driver = driver
        self.folder = folder
        self._stack = stack
        self._turns = 0

    def open(
        self,
        servers: dict[str, dict[str, Any]],
        *,
        policies: list[dict[str, Any]] | None = None,
        plugins: dict[str, Any] | None = None,
        approver: Callable[..., Any] | str | None = None,
        max_text: int = 100_000,
        **options: Any,
    ) -> Executor:
        pins = str(self.folder / "pins.json")
        mcp = {"pins": pins, "wait": LIMIT, "servers": servers}
        settings = Settings(
            plugins={"mcp": mcp, "database": {"memory": True}, **(plugins or {})},
            policies=tuple(policies or ()),
            timeout=LIMIT,
            max_text=max_text,
            approver=approver if isinstance(approver, str) else None,
        )
        asked = None if isinstance(approver, str) else approver
        self.host = self._stack.enter_context(Host(settings=settings, approver=asked))
        self.tools: Executor = self._stack.enter_context(self.host.executor(**options))
        return self.tools

    def close(self) -> None:
        self._stack.close()

    def raw(self, mode: str, **more: Any) -> dict[str, Any]:
        """Return the settings of a server that speaks the protocol by hand."""
        args = [str(HERE / "raw_server.py"), mode, str(self.folder)]
        return {"command": sys.executable, "args": args, **more}

    def sdk(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a server made with the SDK, over its pipes."""
        return {"command": sys.executable, "args": [str(HERE / "sdk_server.py"), "stdio"], **more}

    def noted(self, name: str) -> list[Any]:
        """Return what the server that speaks by hand has noted."""
        file = self.folder / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        return self.dispatch(ToolCall(name, arguments))

    def dispatch(self, call: ToolCall) -> Outcome:
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self._adispatch(call))

    async def _adispatch(self, call: ToolCall) -> Outcome:
        return await self.tools.adispatch(call)

    def later(self, call: ToolCall) -> Callable[[], Outcome]:
        """Dispatch a call on a thread of its own; returns what waits for its outcome."""
        ended: list[Outcome] = []
        thread = threading.Thread(target=lambda: ended.append(self.dispatch(call)))
        thread.start()

        def wait() -> Outcome:
            thread.join(LIMIT)
            assert ended, f"{call.name} never ended"
            return ended[0]

        return wait

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        return until(happened, what)

    def names(self) -> list[str]:
        return [tool.name for tool in self.host.catalog if tool.origin is not None]


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def yard(driver: str, tmp_path: Path) -> Iterator[Yard]:
    with ExitStack() as stack:
        yield Yard(driver, tmp_path, stack)


class HttpServer:
    """The SDK's server over HTTP, in a process that can be killed and started again."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "sdk_server.py"), str(self.port)],
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, "the server answers")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def http_server() -> Iterator[HttpServer]:
    server = HttpServer()
    yield server
    server.kill()


@pytest.fixture
def own_http_server() -> Iterator[HttpServer]:
    """A server that a test may change and kill."""
    server = HttpServer()
    yield server
    server.kill()
