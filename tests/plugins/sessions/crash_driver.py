"""Kills hosts whose calls commit to a stored session, a ledger and a workspace; others recover.

A program of its own, since it forks. `at STEP TOOL AGAIN` kills one process at a step of its one
call of TOOL, and calls AGAIN; `random ROUNDS` kills many at random instants. Prints a line of JSON
for each call: what another host found of it, and what it was told when it called again. All is
kept in a file, or in the database that TOOLSTILE_TEST_DATABASE names.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import toolstile_plugins.ledger as ledger_plugin
from toolstile import Executor, Host
from toolstile_hookspecs import Binding, Filesystem, IdempotencyConfig, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.session_store import Entry, SessionStore
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.session_store import PostgresSessions
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions
from toolstile_plugins.vfs import DiskStore
from toolstile_plugins.vfs.workspace import VirtualFilesystem

CALLS = 3
ONCE = IdempotencyConfig(scope="global")

Step = Callable[[str], None]
step: Step = lambda name: None  # noqa: E731 - what each step of a call does


class SteppingLedger:
    """Has a ledger's store tell of its steps."""

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        step("before the claim")
        standing = super().claim(*args, **kwargs)
        step("after the claim")
        return standing

    def finish_within(self, *args: Any, **kwargs: Any) -> bool:
        step("before the record")
        kept = super().finish_within(*args, **kwargs)
        step("after the record")
        return kept


class SteppingSessions:
    """Has a store of sessions tell of its steps."""

    @contextmanager
    def deciding(self, session_id: str) -> Generator[Any]:
        step("before the decision")
        with super().deciding(session_id) as decision:  # type: ignore[misc]
            step("in the open decision")
            append = decision.append

            def tell(entry: Entry) -> None:
                step("before the entry")
                append(entry)
                step("after the entry")

            decision.append = tell
            yield decision
        step("after the commit")


class InFile:
    """Where all is kept that hosts of one machine share."""

    class Ledger(SteppingLedger, SqliteStore):  # type: ignore[misc]
        """A ledger's store in the file."""

    class Sessions(SteppingSessions, SqliteSessions):  # type: ignore[misc]
        """A store of sessions in the file."""

    def ledger(self) -> Any:
        return self.Ledger(folder / "state.db")

    def sessions(self) -> Any:
        return self.Sessions(folder / "state.db")


class InDatabase:
    """Where all is kept that hosts on many machines share."""

    def __init__(self, url: str) -> None:
        self.url = url

    class Ledger(SteppingLedger, PostgresStore):  # type: ignore[misc]
        """A ledger's store in the database."""

    class Sessions(SteppingSessions, PostgresSessions):  # type: ignore[misc]
        """A store of sessions in the database."""

    def ledger(self) -> Any:
        # Claims of killed processes are given up after that.
        return self.Ledger(PostgresDatabase(self.url), lease=1)

    def sessions(self) -> Any:
        return self.Sessions(PostgresDatabase(self.url))


URL = os.environ.get("TOOLSTILE_TEST_DATABASE")
stores = InDatabase(URL) if URL else InFile()


@stored_as("crash.Note")
@dataclass(frozen=True)
class Note:
    """An item that a call leaves in the session."""

    key: str


def leave(key: str, context: ToolContext) -> None:
    """Write two files and a note."""
    files = context.filesystem
    assert files is not None
    for name in ("one", "two"):
        files.write(f"{key}/{name}.txt", "done")
    context.session[Note].append(Note(key))


@tool(idempotency=ONCE, timeout=None)
def act(key: str, *, context: ToolContext) -> str:
    """Leave files and a note, and have an effect outside."""
    step("inside the handler")
    leave(key, context)
    with (folder / "effects.txt").open("ab", buffering=0) as stream:
        stream.write(f"{key}\n".encode())
    step("after the effect")
    return key


@tool(idempotency=ONCE, timeout=None, contained=True)
def put(key: str, *, context: ToolContext) -> str:
    """Leave files and a note, and have no effect outside."""
    leave(key, context)
    return key


@tool(timeout=None, contained=True)
def put_within(key: str, *, context: ToolContext) -> str:
    """Have another call leave them."""
    text = context.call("put", {"key": key}).text
    step("before the caller ends")
    return text


@tool(category="read")
def look(key: str, *, context: ToolContext) -> list[str]:
    """List the files that a call has written."""
    files = context.filesystem
    assert files is not None
    return sorted(each.path for each in files.list(key)) if files.exists(key) else []


@tool(category="write", timeout=None)
def write(path: str, *, context: ToolContext) -> str:
    """Write a file that no other call knows."""
    assert context.filesystem is not None
    context.filesystem.write(path, "aside")
    return path


TOOLS = (act, put, put_within, look, write)


def workspace() -> Binding[Any]:
    return Binding(
        Filesystem, lambda resources: VirtualFilesystem(DiskStore(folder / "work", steps=step))
    )


def opened(stack: ExitStack, session_id: str = "s") -> Executor:
    """Return an executor of a host of its own over all that is stored in the folder."""
    ledger = EffectLedger(stores.ledger())
    stack.callback(ledger.shut)
    sessions = stack.enter_context(closing(stores.sessions()))
    resources = [
        Binding.instance(EffectLedger, ledger),
        Binding.instance(SessionStore, sessions),  # type: ignore[type-abstract]
        workspace(),
    ]
    host = Host(discover=False, plugins=[ledger_plugin], tools=TOOLS, resources=resources)
    stack.enter_context(host)
    return stack.enter_context(host.executor(session_id=session_id))


def effects_of(key: str) -> int:
    """Return how often the effect of a key has happened."""
    path = folder / "effects.txt"
    return path.read_text().splitlines().count(key) if path.exists() else 0


def found_of(key: str, tools: Executor) -> dict[str, Any]:
    """Return what a host finds of a call: files, notes, and the ledger's record."""
    files = tools.dispatch(ToolCall("look", {"key": key}))
    assert files.success, files.text
    with closing(stores.ledger()) as store:
        recorded = [entry for entry in store.entries() if _is_of(entry, key)]
    return {
        "files": len(files.result.value or ()),
        "notes": sum(note.key == key for note in tools.session[Note].all()),
        "records": len(recorded),
        "effects": effects_of(key),
    }


def _is_of(entry: Any, key: str) -> bool:
    return entry.result is not None and entry.result.value == json.dumps(key).encode()


def check_entries() -> None:
    """See that the entries of each session are numbered without gaps, each decided once."""
    with closing(stores.sessions()) as store:
        for info in store.sessions():
            entries = store.after(info.id, 0)
            numbers = [entry.number for entry in entries]
            assert numbers == list(range(numbers[0], info.number + 1)), numbers
            assert len({entry.decision_id for entry in entries}) == len(entries)


def aside(key: str) -> list[bool]:
    """Return whether those go on whom the killed call does not concern.

    One on another session of the store, and one that has no store at all, in the same workspace.
    """
    with ExitStack() as stack:
        other = opened(stack, "other")
        plain = stack.enter_context(Host(discover=False, tools=TOOLS, resources=[workspace()]))
        tools = stack.enter_context(plain.executor())
        return [
            each.dispatch(ToolCall("write", {"path": f"aside/{key}-{number}.txt"})).success
            for number, each in enumerate([tools, other])
        ]


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


def ended(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def call_all(
    keys: Sequence[str], ready: Callable[[], None] = lambda: None, *, name: str = "act"
) -> None:
    with ExitStack() as stack:
        tools = opened(stack)
        ready()
        for key in keys:
            tools.dispatch(ToolCall(name, {"key": key}))


def call_again(keys: Sequence[str], *, name: str = "act") -> None:
    """Look at what a killed process has left, call again, and tell what came of it."""
    for key in keys:
        unconcerned = aside(key)
        with ExitStack() as stack:
            tools = opened(stack)
            before = found_of(key, tools)
            outcome = tools.dispatch(ToolCall(name, {"key": key}))
            line = {
                "key": key,
                "aside": unconcerned,
                "before": before,
                "after": found_of(key, tools),
                "success": outcome.success,
                "replayed": outcome.event.replayed,
                "text": outcome.text,
            }
        sys.stdout.write(json.dumps(line) + "\n")
    check_entries()
    sys.stdout.flush()


def kill_at(wanted: str, name: str, again: str) -> None:
    def killed() -> None:
        global step  # noqa: PLW0603 - of this program

        def dying(reached: str) -> None:
            if reached == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

        call_all(["first"], name=name)
        step = dying
        call_all(["k"], name=name)

    if ended(forked(killed)) != -signal.SIGKILL:
        raise AssertionError(f"the call never came to {wanted}")
    assert ended(forked(lambda: call_again(["k"], name=again))) == 0


def kill_at_random(rounds: int) -> None:
    def once(number: int, lifetime: float | None) -> float:
        keys = [f"{number}-{each}" for each in range(CALLS)]
        receiving, sending = os.pipe()

        def work() -> None:
            call_all(keys, lambda: os.write(sending, b"x"))

        child = forked(work)
        os.close(sending)
        os.read(receiving, 1)
        started = time.perf_counter()
        if lifetime is not None:
            time.sleep(random.uniform(0, lifetime))
            os.kill(child, signal.SIGKILL)
        ended(child)
        taken = time.perf_counter() - started
        os.close(receiving)
        if lifetime is not None:
            assert ended(forked(lambda: call_again(keys))) == 0
        return taken

    lifetime = sorted(once(-number, None) for number in range(1, 6))[2]
    for number in range(rounds):
        once(number, lifetime)


def main() -> NoReturn:
    if sys.argv[1] == "at":
        kill_at(*sys.argv[2:])
    else:
        kill_at_random(int(sys.argv[2]))
    sys.exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        main()
