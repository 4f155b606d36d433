"""The CPU time that hosts take to open, and commands to answer."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from time import process_time

from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Host

BARE = ("-c", "pass")
VERSION = ("-m", "toolstile", "--version")
FIRST = ("-c", "from toolstile import Host\nwith Host(): pass")
TOOLS = ("-m", "toolstile", "tools", "--example")
CALL = ("-m", "toolstile", "call", "list_directory", "{}", "--workspace", ".")
RUN = ("-m", "toolstile", "run", "--example")
SECOND = "a second Host() with all plugins"


def measure_startup(effort: Effort) -> list[Row]:
    """Measure hosts, and whole processes, each beside a bare interpreter's."""
    bare = Probe("python -c pass", _running(BARE))
    rows = compare(
        [
            Case(
                Probe(SECOND, _opening()), Probe("Host(discover=False)", _opening(discover=False))
            ),
            Case(Probe("a first Host(), and its import", _running(FIRST)), bare, 30, 22),
            Case(Probe("toolstile --version", _running(VERSION)), bare, 2.5, 2),
            Case(Probe("toolstile tools --example", _running(TOOLS)), bare, 30, 22),
            Case(Probe("toolstile call", _running(CALL)), bare, 30, 22),
            Case(Probe("toolstile run --example", _running(RUN)), bare, 30, 22),
        ],
        effort,
    )
    # A limit in time, because nothing that applications have is as quick as a host without plugins.
    (second,) = (row for row in rows if row.case == SECOND)
    taken = None if second.median is None else second.median * 1000
    limited = replace(second, case=f"{SECOND}, in ms", figure=taken, limit=20, goal=15, unit="ms")
    return [*rows, limited if effort.judged else replace(limited, limit=None)]


def _opening(*, discover: bool = True) -> Callable[[], AbstractContextManager[Block]]:
    def open_host() -> None:
        with Host(discover=discover):
            pass

    @contextmanager
    def opened() -> Iterator[Block]:
        with _empty_directory():
            open_host()  # the first one imports
            yield timed(open_host, process_time)

    return opened


def _running(arguments: tuple[str, ...]) -> Callable[[], AbstractContextManager[Block]]:
    # Where it is forbidden here, there still are compiled modules where they were installed.
    environ = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        subprocess.run([sys.executable, *arguments], env=environ, check=True, capture_output=True)

    @contextmanager
    def opened() -> Iterator[Block]:
        with _empty_directory():
            yield timed(run, _cpu_of_children)

    return opened


def _cpu_of_children() -> float:
    """Return the CPU time of all processes that have ended, which other processes do not change."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _empty_directory() -> Iterator[None]:
    """Work in an empty directory, so that no configuration is found."""
    before = os.getcwd()  # noqa: PTH109
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(before)
