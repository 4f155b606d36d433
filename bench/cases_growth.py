"""The processor time of a call on its host and on the database, and the rates that follow."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import psycopg
from measuring import Effort, Row
from postgres_server import is_installed, postgres_server
from workload import ADD_ARGUMENTS

from toolstile import Host, MarkdownSection, Prompt, Settings
from toolstile_hookspecs import IdempotencyConfig, Tool, ToolCall, ToolContext, tool

HOSTS: Final = (1, 2, 4)
"""The numbers of hosts, each a process with a session of its own."""
MODEL: Final = 2.0
"""The most by which the model may promise more than is measured."""

PARENT: Final = 1
OWN: Final = (11, 12)
OF_ENDED: Final = (13, 14)
"""Places in `/proc/PID/stat` after the name, as proc(5) has them: the last two hold ticks."""


@dataclass(frozen=True)
class Sum:
    """An item that a call leaves in its session."""

    value: int


def _tool(idempotency: IdempotencyConfig | None = None) -> Tool[Any, Any]:
    @tool(name="add", timeout=None, idempotency=idempotency)
    def add(a: int, b: int, *, context: ToolContext) -> int:
        """Add two numbers, and keep the sum in the session."""
        context.session[Sum].append(Sum(a + b))
        return a + b

    return add


class Kind(NamedTuple):
    """A kind of call.

    Args:
        name: Its name.
        is_shared: Whether its session is in PostgreSQL.
        is_recorded: Whether its effect is in the ledger.
    """

    name: str
    is_shared: bool
    is_recorded: bool = False


KINDS: Final = (
    Kind("a call, its session in memory", is_shared=False),
    Kind("a call, its session in PostgreSQL", is_shared=True),
    Kind("a call, its session and its effect in PostgreSQL", is_shared=True, is_recorded=True),
)


class Run(NamedTuple):
    """The figures of some hosts that make calls at once.

    Args:
        rate: Calls a second, of all of them.
        latency: Seconds of a call, the median.
        host: Processor seconds of a call in its host.
        server: Processor seconds of a call in the database.
    """

    rate: float
    latency: float
    host: float
    server: float


def measure_growth(effort: Effort) -> list[Row]:
    """Measure each kind of call alone, then with several hosts, beside what the model says."""
    if not is_installed():
        return []
    number = 3_000 if effort.judged else 20
    with postgres_server() as url:
        server = Server(url)
        return [row for kind in KINDS for row in _rows(server, kind, number)]


class Server:
    """A PostgreSQL server of this machine, as long as it runs.

    Args:
        url: The connection string of a database in it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with psycopg.connect(url) as connection:
            backend = connection.info.backend_pid
            self._first = int(_fields(Path(f"/proc/{backend}/stat"))[PARENT])

    def seconds(self) -> float:
        """Return the processor time that it has taken so far, with all its processes."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = _fields(path)
                if path.parent.name == str(self._first):
                    ticks += sum(int(fields[place]) for place in (*OWN, *OF_ENDED))
                elif fields[PARENT] == str(self._first):
                    ticks += sum(int(fields[place]) for place in OWN)
        return ticks / os.sysconf("SC_CLK_TCK")


def _fields(path: Path) -> list[str]:
    return path.read_text().rpartition(")")[2].split()


def _rows(server: Server, kind: Kind, number: int) -> list[Row]:
    runs = {hosts: _run(server, kind, hosts, number) for hosts in HOSTS}
    alone = runs[1]
    rows = [
        Row(kind.name, None, alone.latency, alone.latency),
        Row(f"{kind.name}: processor of its host", None, None, None, alone.host * 1e6, unit="us"),
    ]
    if kind.is_shared:
        name = f"{kind.name}: processor of the database"
        rows.append(Row(name, None, None, None, alone.server * 1e6, unit="us"))
    limit = MODEL if kind.is_shared else None
    for hosts, run in runs.items():
        name = f"{kind.name}: {hosts} {'host' if hosts == 1 else 'hosts at once'}"
        promised = _modelled(alone, hosts) / run.rate
        rows += [
            Row(name, None, None, None, run.rate, unit="a second"),
            Row(f"{name}, as the model says", None, None, None, promised, limit),
        ]
    return rows


def _modelled(alone: Run, hosts: int) -> float:
    """Return the rate of so many hosts on this machine, from the figures of one.

    Each makes its calls one after the other, so it makes no more than its latency lets it; all of
    them share the processors with their database.
    """
    processors = len(os.sched_getaffinity(0))
    return min(hosts / alone.latency, processors / (alone.host + alone.server))


def _run(server: Server, kind: Kind, hosts: int, number: int) -> Run:
    command = [sys.executable, __file__, server.url, str(KINDS.index(kind)), str(number)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(hosts)
    ]
    lines = [_line(process) for process in processes]
    assert all(line == "ready" for line in lines)
    before, started = server.seconds(), time.perf_counter()
    for process in processes:
        _send(process)
    figures = [json.loads(_line(process)) for process in processes]
    seconds, taken = time.perf_counter() - started, server.seconds() - before
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    calls = hosts * number
    return Run(
        calls / seconds,
        statistics.median(figure["latency"] for figure in figures),
        sum(figure["processor"] for figure in figures) / calls,
        taken / calls if kind.is_shared else 0.0,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _send(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _be_a_host(url: str, kind: Kind, number: int) -> None:
    """Make calls in a session of its own when it is told to, and tell what they took."""
    called = _tool(IdempotencyConfig(scope="call") if kind.is_recorded else None)
    prompt = Prompt.of("bench", "bench", [MarkdownSection(key="a", title="A", tools=[called])])
    plugins = {"database": {"url": url}} if kind.is_shared else {}
    call = ToolCall("add", ADD_ARGUMENTS)
    with (
        Host(settings=Settings(plugins=plugins)) as host,
        host.executor(prompt=prompt, session_id=uuid4().hex) as executor,
    ):
        for _ in range(10):
            assert executor.dispatch(call).success
        print("ready", flush=True)
        sys.stdin.readline()
        latencies: list[float] = []
        processor = time.process_time()
        for _ in range(number):
            started = time.perf_counter()
            assert executor.dispatch(call).success
            latencies.append(time.perf_counter() - started)
        processor = time.process_time() - processor
        print(json.dumps({"latency": statistics.median(latencies), "processor": processor}))
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    _be_a_host(sys.argv[1], KINDS[int(sys.argv[2])], int(sys.argv[3]))
