"""Cuts the power of hosts at random instants, and looks at what they left on the disk.

A program of its own, since it forks; `mirrored_disk` has to be loaded before it starts. It prints
a line of JSON for each look: the faults, and what came of the calls since the last look. This
process has the effects of the calls: it writes a line for each that stays, whatever is cut.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import queue
import random
import selectors
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from mirrored_disk import MirroredDisk

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import IdempotencyConfig, Outcome, ToolCall, ToolContext, tool
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.record import verify

SESSIONS = 4
"""The sessions in which calls are made at the same time."""
MOST = 60
"""The most messages of a host before its power is cut."""
ONCE = IdempotencyConfig(scope="global")

effects: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()


@stored_as("power.Note")
@dataclass(frozen=True)
class Note:
    """An item that a call leaves in the session."""

    key: str


def leave(key: str, context: ToolContext) -> None:
    """Write two files and a note."""
    assert context.filesystem is not None
    for name in ("one", "two"):
        context.filesystem.write(f"{key}/{name}.txt", key)
    context.filesystem.write(f"last-{key.split('-')[1]}.txt", key)
    context.session[Note].append(Note(key))


@tool(idempotency=ONCE, timeout=None)
def side_effect(key: str, *, context: ToolContext) -> str:
    """Leave files and a note, and have an effect outside."""
    leave(key, context)
    line = effects.get()
    line.send(key.encode())
    assert line.recv(10) == b"done"
    effects.put(line)
    return f"done {key}"


@tool(idempotency=ONCE, timeout=None, contained=True)
def put(key: str, *, context: ToolContext) -> str:
    """Leave files and a note, and have no effect outside."""
    leave(key, context)
    return f"done {key}"


@dataclass
class Calls:
    """The calls since the last look, as they are known outside of their hosts.

    Attributes:
        begun: The tool and the session of each, by key.
        acknowledged: The keys of those that a host acknowledged.
    """

    begun: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    acknowledged: set[str] = field(default_factory=set[str])
    failed: list[str] = field(default_factory=list[str])

    def hear(self, message: str) -> None:
        kind, rest = message.split(" ", 1)
        if kind == "begun":
            key, name, session = rest.split()
            self.begun[key] = (name, session)
        elif kind == "acknowledged":
            self.acknowledged.add(rest)
        elif kind == "failed":
            self.failed.append(rest)


# --- The process that loses its power


def opened(stack: ExitStack, root: Path) -> dict[str, Executor]:
    """Open a host; returns an executor for each session."""
    state = {"path": str(root / "state" / "state.db")}
    plugins = {
        "ledger": state,
        "record": {"file": str(root / "record.jsonl")},
        "vfs": {"root": str(root / "work")},
    }
    if IS_STORED:
        plugins["sessions"] = state
    settings = Settings.model_validate({**SETTINGS, "plugins": plugins})
    host = stack.enter_context(Host(settings=settings, tools=[side_effect, put]))
    names = [f"s{number}" for number in range(SESSIONS)]
    return {name: stack.enter_context(host.executor(session_id=name)) for name in names}


def call_until_killed(number: int, tell: Callable[[str], object]) -> None:
    """Call in several sessions at the same time, by threads or by tasks."""
    with ExitStack() as stack:
        tools = [*opened(stack, disk.root).values()]
        if number % 2:
            with ThreadPoolExecutor(SESSIONS) as pool:
                calling = [
                    pool.submit(call_in, each, f"{number}-{n}", tell)
                    for n, each in enumerate(tools)
                ]
                for each in calling:
                    each.result()
        asyncio.run(acall_in_all(tools, number, tell))


def calls_of(
    prefix: str, session: str, tell: Callable[[str], object]
) -> Generator[ToolCall, Outcome, NoReturn]:
    """Yield one call after the other, each for the outcome of the last."""
    count = 0
    while True:
        count += 1
        key, name = f"{prefix}-{count}", "put" if count % 4 == 0 else "side_effect"
        tell(f"begun {key} {name} {session}")
        outcome = yield ToolCall(name, {"key": key})
        tell(f"acknowledged {key}" if outcome.success else f"failed {key}: {outcome.text}")


def call_in(tools: Executor, prefix: str, tell: Callable[[str], object]) -> NoReturn:
    calls = calls_of(prefix, tools.session_id, tell)
    call = next(calls)
    while True:
        call = calls.send(tools.dispatch(call))


async def acall_in_all(tools: list[Executor], number: int, tell: Callable[[str], object]) -> None:
    async def acall_in(n: int) -> NoReturn:
        calls = calls_of(f"{number}-{n}", tools[n].session_id, tell)
        call = next(calls)
        while True:
            call = calls.send(await tools[n].adispatch(call))

    await asyncio.gather(*map(acall_in, range(SESSIONS)))


def forked(work: Callable[[], None]) -> int:
    """Run something in a process of its own; returns its id."""
    number = os.fork()
    if number:
        return number
    try:
        work()
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)


def cut_once(number: int, calls: Calls) -> None:
    """Let a host make calls, and cut its power."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(SESSIONS + 1)]

    def work() -> None:
        for ours, _ in pairs:
            ours.close()
        for _, theirs in pairs[1:]:
            effects.put(theirs)
        call_until_killed(number, lambda said: pairs[0][1].send(said.encode()))

    child = forked(work)
    for _, theirs in pairs:
        theirs.close()
    serve_until_killed(child, [ours for ours, _ in pairs], calls)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == -signal.SIGKILL, f"cut {number}: the host ended with {status}"
    disk.cut(chance if chance.random() < 0.5 else None)


def serve_until_killed(child: int, lines: list[socket.socket], calls: Calls) -> None:
    """Have the effects of a host's calls until it is killed, and those that it asked for before.

    It is killed after so many messages, since nobody knows how fast the machine is; or while it
    opens, and finishes what the last cut has left.
    """
    left = chance.randrange(1, MOST) if chance.random() < 0.8 else 0
    kill_at = math.inf if left else time.monotonic() + chance.uniform(0, 0.3)
    with selectors.DefaultSelector() as open_lines:
        for line in lines:
            open_lines.register(line, selectors.EVENT_READ)
        while open_lines.get_map():
            if time.monotonic() >= kill_at:
                os.kill(child, signal.SIGKILL)
                kill_at = math.inf
            rest = None if kill_at == math.inf else max(0.0, kill_at - time.monotonic())
            for found, _ in open_lines.select(rest):
                if serve(found.fileobj, calls, is_effect=found.fileobj is not lines[0]):
                    open_lines.unregister(found.fileobj)
                left -= 1
                if left == 0:
                    kill_at = time.monotonic() + chance.uniform(0, 0.05)
    for line in lines:
        line.close()


def serve(line: Any, calls: Calls, *, is_effect: bool) -> bool:
    """Take a message, also of a process that was killed since; tell whether there is no other."""
    try:
        message = line.recv(100_000)
    except ConnectionResetError:
        # Killed before it had read an answer; what it has sent is still there.
        return False
    if message and is_effect:
        os.write(EFFECTS, message + b"\n")
        with suppress(OSError):
            line.send(b"done")
    elif message:
        calls.hear(message.decode())
    return not message


# --- The look at what is left


class Look:
    """A host over what is on the disk, which makes the same calls again."""

    def __init__(self, calls: Calls, stack: ExitStack) -> None:
        self.calls = calls
        self.faults: list[str] = list(calls.failed)
        self.seen: Counter[str] = Counter()
        self._check_files()
        self._tools = opened(stack, disk.root)

    def _check_files(self) -> None:
        for file in disk.root.rglob("*.db"):
            with closing(sqlite3.connect(file)) as connection:
                ((found,),) = connection.execute("PRAGMA integrity_check")
            if found != "ok":
                self.faults.append(f"{file.name}: {found}")
        record = disk.root / "record.jsonl"
        lines = record.read_bytes().split(b"\n")[:-1] if record.exists() else []
        recorded = {
            line["arguments"]["key"]
            for line in map(json.loads, (line for line in lines if line.strip(b"\0")))
            if line["kind"] == "call" and line["status"] == "succeeded"
        }
        self.faults += [f"{key} is not recorded" for key in self.calls.acknowledged - recorded]

    def of(self, key: str) -> None:
        """Look at a call, and make it again."""
        (name, session), acknowledged = self.calls.begun[key], key in self.calls.acknowledged
        before, happened = self._left_by(key), effects_of(key)
        outcome = self._tools[session].dispatch(ToolCall(name, {"key": key}))
        after = self._left_by(key)
        said = "success" if outcome.success else outcome.text
        known = outcome.success and outcome.event.replayed
        fault = f"{key} ({name}, acknowledged: {acknowledged}, effects: {happened})"
        if effects_of(key) > (name == "side_effect"):
            self.faults.append(f"{fault} is repeated")
        if acknowledged and not known:
            self.faults.append(f"{fault} is forgotten: {said}, {before}")
        # A commit of files that was decided may be finished when the next call needs it.
        if known and (after != "all" or (acknowledged and before != "all")):
            self.faults.append(f"{fault} left {before}, then {after}")
        if known and outcome.result.value != f"done {key}":
            self.faults.append(f"{fault} has another result: {outcome.result.value}")
        if not known and before != "nothing":
            self.faults.append(f"{fault} is unknown and left {before}: {said}")
        if not outcome.success and "may have happened" not in outcome.text:
            self.faults.append(f"{fault} ends otherwise: {outcome.text}")
        end = "replayed" if known else "ran" if outcome.success else "unknown"
        self.seen[f"acknowledged {end}" if acknowledged else end] += 1

    def _left_by(self, key: str) -> str:
        files = [disk.root / "work" / key / f"{name}.txt" for name in ("one", "two")]
        left = {file.read_text() if file.exists() else None for file in files}
        sessions = [tools.session for tools in self._tools.values()] if IS_STORED else []
        notes = sum(note.key == key for each in sessions for note in each[Note].all())
        if left == {key} and notes == IS_STORED:
            return "all"
        return "nothing" if left == {None} and not notes else f"{left} and {notes} notes"


def effects_of(key: str) -> int:
    return (FOLDER / "effects.txt").read_text().splitlines().count(key)


def look(calls: Calls) -> None:
    """Print what a host finds of the calls."""
    with ExitStack() as stack:
        answers, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        effects.put(asked)
        look = Look(calls, stack)
        stack.enter_context(ThreadPoolExecutor(1)).submit(answer, answers)
        for key in calls.begun:
            look.of(key)
        asked.shutdown(socket.SHUT_RDWR)
        stack.close()
    if calls.begun:
        look.faults += map(str, verify(disk.root / "record.jsonl").faults)
    sys.stdout.write(json.dumps({"faults": look.faults, "seen": look.seen}) + "\n")
    sys.stdout.flush()


def answer(line: socket.socket) -> None:
    """Have the effects of calls that run at a look."""
    while key := line.recv(100):
        os.write(EFFECTS, key + b"\n")
        line.send(b"done")


def warm_up() -> None:
    """Import all that calls need, once for all processes."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        (Path(folder) / "work").mkdir()
        tools = opened(stack, Path(folder))["s0"]
        assert tools.dispatch(ToolCall("put", {"key": "0-0-0"})).success
        assert asyncio.run(tools.adispatch(ToolCall("put", {"key": "0-0-1"}))).success


def begin_anew() -> None:
    shutil.rmtree(disk.root)
    (disk.root / "work").mkdir(parents=True)
    disk.settle()


def main(cuts: int) -> None:
    warm_up()
    calls = Calls()
    begin_anew()
    for number in range(cuts):
        cut_once(number, calls)
        # Else the next host finds what two cuts have left.
        if chance.random() < 0.8 or number == cuts - 1:
            looking = forked(partial(look, calls))
            assert os.waitpid(looking, 0)[1] == 0, "the look has failed"
            disk.settle()
            calls = Calls()
            # New files have names to lose.
            if chance.random() < 0.3:
                begin_anew()


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    options = json.loads(sys.argv[2])
    SETTINGS, IS_STORED = options["settings"], options["stored"]
    chance = random.Random(options["seed"])
    EFFECTS = os.open(FOLDER / "effects.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_SYNC)
    disk = MirroredDisk(FOLDER, Path(options["library"]))
    main(options["cuts"])
