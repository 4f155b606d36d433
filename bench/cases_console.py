"""The cost of an open console for the calls of its host, at 1,000 calls a second.

Processor time of the host's whole process counts, beside that of a host without a console.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import process_time, sleep
from typing import Any, Final

import httpx2
from measuring import Effort, Row

from toolstile_plugins.console.call_index import CallIndex, Filter

LIMIT: Final = 1.05
"""The most that a call may cost, as a multiple of one without a console."""
TABS: Final = 10
QUESTIONS: Final = 100
SETTLED: Final = 2.0
"""Seconds after which all tabs have loaded their page."""

ALONE: Final = "add, 1,000 a second: a host with the record"
IN_PROCESS: Final = f"the same: {TABS} tabs show its calls, the console in its process"
WAITING: Final = f"the same: {TABS} tabs show {QUESTIONS} questions, the console in its process"
APART: Final = f"the same: {TABS} tabs show its calls, the console a process of its own"
ASKED: Final = f"the same: {QUESTIONS} of its calls wait for a person"
OWN: Final = "the console's own process, for each of these calls"
INDEXED: Final = "a recorded call, taken into the console's index"


class Browser:
    """Tabs that follow pages of a console as its script does, over real connections."""

    def __init__(self, address: str) -> None:
        root, _, token = address.partition("/#")
        self._options: dict[str, Any] = {
            "base_url": root,
            "headers": {"origin": root},
            "trust_env": False,
            "timeout": None,
        }
        with httpx2.Client(**self._options) as client:
            entered = client.post("/login", data={"token": token})
            self._options["cookies"] = dict(client.cookies)
        self._room = entered.headers["location"].rstrip("/")

    @contextmanager
    def tabs(self, page: str, events: str) -> Iterator[None]:
        """Keep tabs open within the block."""
        closed = Event()
        with ThreadPoolExecutor(1) as thread:
            holding = thread.submit(asyncio.run, self._hold(page, events, closed))
            sleep(SETTLED)
            try:
                yield
            finally:
                closed.set()
            holding.result()

    async def _hold(self, page: str, events: str, closed: Event) -> None:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(**self._options, limits=limits) as client:
            tabs = [asyncio.create_task(self._tab(client, page, events)) for _ in range(TABS)]
            await asyncio.to_thread(closed.wait)
            assert not any(tab.done() for tab in tabs), tabs
            for tab in tabs:
                tab.cancel()
            await asyncio.gather(*tabs, return_exceptions=True)

    async def _tab(self, client: httpx2.AsyncClient, page: str, events: str) -> None:
        is_news = False
        async with client.stream("GET", f"{self._room}/events/{events}") as answer:
            async for line in answer.aiter_lines():
                is_news = line == "event: news" or (is_news and line != "")
                if line.startswith("data: ") and not is_news:
                    (await client.get(f"{self._room}/{page}")).raise_for_status()


class Process:
    """A process whose processor time is measured.

    Args:
        folder: The folder of its record and its inbox.
        role: `calls` for one whose questions let calls end, `waits` for one whose calls wait for a
            person, `watch` for one that makes no calls.

    Attributes:
        folder: The folder of its record and its inbox.
    """

    def __init__(self, folder: Path, role: str, stack: ExitStack) -> None:
        self.folder = folder
        command = [sys.executable, Path(__file__).with_name("console_host.py"), folder, role]
        pipe = subprocess.PIPE
        self._process = stack.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        )
        assert self._process.stdin is not None
        stack.callback(self._process.stdin.close)

    def do(self, what: str, number: int) -> float:
        """Let it do something so many times, and return the processor time that took."""
        before = self.spent()
        return float(self._ask(f"{what} {number}")) - before

    def spent(self) -> float:
        """Return the processor time of the process so far."""
        return float(self._ask("rest 0"))

    @contextmanager
    def console(self) -> Iterator[Browser]:
        """Serve its console within the block, and open it in a browser."""
        yield Browser(self._ask("open 1"))
        self._ask("close 1")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "The process has ended."
        return answer.strip()


def measure_console(effort: Effort) -> list[Row]:
    """Measure calls beside open pages, and what the index costs."""
    calls = max(60, round(effort.seconds * 6000))
    spent: dict[str, list[float]] = {
        name: [] for name in (ALONE, IN_PROCESS, WAITING, APART, OWN, ASKED)
    }
    ratios: dict[str, list[float]] = {name: [] for name in (IN_PROCESS, WAITING, APART, ASKED)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        hosts, watching = _opened(folder, stack)
        for host in {*hosts.values()}:
            host.do("call", calls)
        for _ in range(effort.rounds):
            for name in random.sample([*ratios], len(ratios)):
                # The same process without it: two of them differ by more than is measured here.
                beside = hosts[ALONE] if name == ASKED else hosts[name]
                alone = beside.do("call", calls) / calls
                with _tabs(name, hosts, watching):
                    before = watching.spent()
                    taken = hosts[name].do("call", calls) / calls
                    own = (watching.spent() - before) / calls
                spent[ALONE].append(alone)
                spent[name].append(taken)
                ratios[name].append(taken / alone)
                spent[OWN] += [own] if name == APART else []
        indexed = _indexed(watching.folder / "calls.jsonl")
    rows = [_row(name, spent[name], ratios.get(name)) for name in spent]
    return [*rows, _row(INDEXED, [indexed])]


def _opened(folder: Path, stack: ExitStack) -> tuple[dict[str, Process], Process]:
    """Return the hosts by what is measured, and the one that only watches."""
    hosts: dict[str, Process] = {}
    for number, name in enumerate((ALONE, IN_PROCESS, WAITING, APART, ASKED)):
        (folder / str(number)).mkdir()
        role = "waits" if name == ASKED else "calls"
        hosts[name] = Process(folder / str(number), role, stack)
    hosts[WAITING].do("ask", QUESTIONS)
    hosts[ASKED].do("wait", QUESTIONS)
    return hosts, Process(hosts[APART].folder, "watch", stack)


@contextmanager
def _tabs(name: str, hosts: dict[str, Process], watching: Process) -> Iterator[None]:
    """Keep tabs open within the block, where they are what is measured."""
    if name == ASKED:
        yield
        return
    page = ("", "waiting") if name == WAITING else ("calls", "calls")
    serving = watching if name == APART else hosts[name]
    with serving.console() as browser, browser.tabs(*page):
        yield


def _indexed(record: Path) -> float:
    """Return the processor time that a call of a record takes on its way into an index."""
    index = CallIndex([record], record.with_name("fresh.index"))
    began = process_time()
    index.page(Filter(), 1)
    taken = process_time() - began
    return taken / record.read_bytes().count(b"\n")


def _row(name: str, seconds: list[float], ratios: list[float] | None = None) -> Row:
    return Row(
        case=name,
        floor=None if ratios is None else ALONE,
        minimum=min(seconds),
        median=statistics.median(seconds),
        figure=None if ratios is None else statistics.median(ratios),
        limit=None if ratios is None or name == ASKED else LIMIT,
    )
