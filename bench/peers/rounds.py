"""Peers visited in shuffled rounds, one at a time."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from environments import NotInstalledError, python_of
from findings import Findings, Growth, Series
from peers import Peer
from worker import PeerFailedError, Worker, working

STARTING_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 120.0
TOOLS: Final = ("add", "create_order")


@dataclass(frozen=True)
class Effort:
    """The rounds and runs of a measurement.

    Args:
        rounds: How often each call is measured.
        seconds: How long, each time.
        sessions: How often a long session and rollback are measured.
        calls: The length of a long session.
        files: The numbers of files for rollback.
    """

    rounds: int
    seconds: float
    sessions: int
    calls: int
    files: tuple[int, ...]


THOROUGH: Final = Effort(5, 0.1, 2, 1_000, (10, 1_000, 10_000))
QUICK: Final = Effort(1, 0.01, 1, 300, (10,))


@dataclass(frozen=True)
class Job:
    """Something that is asked of a peer, once a round.

    Args:
        name: What it is, for people.
        findings: Whose it is.
        rounds: In how many rounds it is asked.
        do: What is asked.
        arguments: With what.
        keep: Takes what came of it.
    """

    name: str
    findings: Findings
    rounds: int
    do: str
    arguments: dict[str, Any]
    keep: Callable[[Any], None]


def compare(
    peers: Iterable[Peer], folder: Path, effort: Effort, *, blocking: bool = True
) -> list[Findings]:
    """Find out about peers.

    Args:
        peers: Who.
        folder: Their environments are kept there, and what they write to stderr.
        effort: How much is done.
        blocking: Whether to see what a tool does that never returns, which takes its time.

    Returns:
        What was found out, in the order of the peers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        found: list[Findings] = []
        workers: dict[str, Worker] = {}
        for peer in peers:
            _say(f"Starting {peer.name} ...")
            findings = Findings(peer)
            found.append(findings)
            try:
                python = python_of(peer, folder)
                if blocking:
                    findings.blocked = watch_blocking(python, peer, folder)
                worker = stack.enter_context(
                    working(python, "runner.py", peer.runner, _log(folder, peer))
                )
                findings.described = worker.ask("describe", STARTING_SECONDS)
                findings.watched = worker.ask("watch", ANSWER_SECONDS)
            except (NotInstalledError, PeerFailedError) as error:
                findings.absent = str(error)
            else:
                workers[peer.name] = worker
        present = [findings for findings in found if findings.absent is None]
        jobs = [job for findings in present for job in _jobs(findings, effort)]
        for number in range(effort.rounds):
            _say(f"Round {number + 1} of {effort.rounds} ...")
            visit(jobs, number, workers)
    return found


def visit(jobs: list[Job], number: int, workers: dict[str, Worker]) -> None:
    """Ask for everything that a round asks for, in any order; what fails is not asked again."""
    for job in random.sample(jobs, len(jobs)):
        if number >= job.rounds or job.name in job.findings.faults:
            continue
        try:
            job.keep(workers[job.findings.peer.name].ask(job.do, ANSWER_SECONDS, **job.arguments))
        except PeerFailedError as error:
            job.findings.faults[job.name] = str(error)


def watch_blocking(python: Path, peer: Peer, folder: Path) -> dict[str, Any]:
    """Return what was seen of a tool that never returns, in a process of its own."""
    log = _log(folder, peer, "-blocking")
    with working(python, "blocking.py", peer.runner, log) as worker:
        seen = json.loads(worker.line(STARTING_SECONDS))
        return {**seen, "ended": worker.end()}


def _jobs(findings: Findings, effort: Effort) -> Iterator[Job]:
    for index, way in enumerate(findings.ways):
        for tool in TOOLS:
            for handler in way["handlers"]:
                series = findings.calls[index, tool, handler] = Series()
                yield Job(
                    f"{way['name']}: {tool}, {handler} handler",
                    findings,
                    effort.rounds,
                    "take",
                    {"way": index, "work": tool, "handler": handler, "seconds": effort.seconds},
                    series.add,
                )
        if way["keeps"]:
            growth = findings.growth[index] = Growth()
            yield Job(
                f"{way['name']}: a long session",
                findings,
                effort.sessions,
                "grow",
                {"way": index, "calls": effort.calls},
                growth.add,
            )
    for kept in findings.described["kept"]:
        for files in effort.files:
            series = findings.put_back[kept, files] = Series()
            yield Job(
                f"rollback, {kept}, {files} files",
                findings,
                effort.sessions,
                "put_back",
                {"files": files, "kept": kept, "seconds": effort.seconds},
                series.add,
            )


def _log(folder: Path, peer: Peer, suffix: str = "") -> Path:
    return folder / f"{Path(peer.runner).stem}{suffix}.log"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
