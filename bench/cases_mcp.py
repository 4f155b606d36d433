"""`add` called over MCP: what a host behind the server costs, beside servers without one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_servers import OTHERS, SDK, STDIO, TOOLSTILE, in_process
from measuring import Block, Case, Effort, Probe, Row, compare

LIMIT, GOAL = 1.3, 1.15
"""The most that a call may cost within a process, as a multiple of the bare SDK."""
BOUNDS: Final = {TOOLSTILE: (LIMIT, GOAL)}
CLIENTS: Final = (1, 50)
FEW: Final = (1, 2)
"""As many do to see that it works."""
SERVER: Final = Path(__file__).with_name("mcp_servers.py")
NEWEST: Final = "2026-07-28"
ARGUMENTS: Final = {"a": 17, "b": 25}
ANY: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=None)


def measure_mcp(effort: Effort) -> list[Row]:
    """Measure calls of `add` by the official client: within a process, over stdio and over HTTP."""
    sdk = Probe(_within(SDK), _calling_within(SDK))
    cases = [
        Case(Probe(_within(name), _calling_within(name)), sdk, *BOUNDS.get(name, ()))
        for name in OTHERS
    ]
    by_stdio = _calling_by_stdio(SDK)
    cases += [Case(_calling_by_stdio(name), by_stdio) for name in OTHERS]
    with ExitStack() as stack:
        # Starting them takes far longer than what is measured.
        urls = {name: stack.enter_context(_serving(name)) for name in (SDK, *OTHERS)}
        for clients in CLIENTS if effort.judged else FEW:
            over_http = _calling_over_http(SDK, urls, clients)
            cases += [Case(_calling_over_http(name, urls, clients), over_http) for name in OTHERS]
        return compare(cases, effort)


def _within(name: str) -> str:
    return f"MCP, add within a process: {name}"


def _calling_within(name: str) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        with in_process(name) as server:
            yield from _measuring(lambda _: server, 1)

    return opened


def _calling_by_stdio(name: str) -> Probe:
    @contextmanager
    def opened() -> Iterator[Block]:
        server = StdioServerParameters(command=sys.executable, args=[str(SERVER), name, STDIO])
        yield from _measuring(lambda _: stdio_client(server), 1)

    return Probe(f"MCP, add over stdio: {name}", opened)


def _calling_over_http(name: str, urls: Mapping[str, str], clients: int) -> Probe:
    @contextmanager
    def opened() -> Iterator[Block]:
        def connect(http: httpx2.AsyncClient) -> Any:
            return streamable_http_client(urls[name], http_client=http)

        yield from _measuring(connect, clients)

    number = "1 client" if clients == 1 else f"each of {clients} clients at once"
    return Probe(f"MCP, add over HTTP, {number}: {name}", opened)


@contextmanager
def _serving(name: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER), name], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.terminate()
        process.communicate()


def _measuring(connect: Callable[[httpx2.AsyncClient], Any], count: int) -> Iterator[Block]:
    """Give what measures a call, made by so many clients at the same time."""
    with asyncio.Runner() as runner:
        leave = asyncio.Event()
        clients: list[Client] = []

        async def hold(ready: asyncio.Event) -> None:
            # One task connects and leaves, as the client wants it.
            async with AsyncExitStack() as stack:
                # There are no certificates to read, which is what takes time otherwise.
                http = await stack.enter_async_context(httpx2.AsyncClient(verify=False, limits=ANY))
                for _ in range(count):
                    client = Client(connect(http), mode=NEWEST)
                    clients.append(await stack.enter_async_context(client))
                ready.set()
                await leave.wait()

        async def begin() -> asyncio.Task[None]:
            ready = asyncio.Event()
            holding = asyncio.create_task(hold(ready))
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait([holding, waiting], return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
            return holding

        async def end(holding: asyncio.Task[None]) -> None:
            leave.set()
            await holding

        async def call(client: Client, times: int) -> None:
            for _ in range(times):
                result = await client.call_tool("add", ARGUMENTS)
                assert not result.is_error

        async def measure(times: int) -> float:
            started = perf_counter()
            await asyncio.gather(*(call(client, times) for client in clients))
            return (perf_counter() - started) / count

        holding = runner.run(begin())
        try:
            yield lambda times: runner.run(measure(times))
        finally:
            runner.run(end(holding))
