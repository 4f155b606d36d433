"""Kills hosts whose transaction is kept by one decision; others recover, twice.

A program of its own, since it forks. `steps` prints the steps of a transaction in order, `at
NUMBER...` kills one process at each of these steps, and `random ROUNDS` kills at random instants.
Prints a line of JSON for each transaction: the parts that a first and a second host find. The
session is stored beside the ledger, or in memory if TOOLSTILE_TEST_SESSIONS says so; all is kept in
a file, or in the database that TOOLSTILE_TEST_DATABASE names.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tests.plugins.sessions import crash_driver as base

import toolstile_plugins.ledger as ledger_plugin
from toolstile import Executor, Host
from toolstile_hookspecs import Binding, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.ledger import EffectLedger

IN_MEMORY = os.environ.get("TOOLSTILE_TEST_SESSIONS") == "memory"


class Ledger(base.stores.Ledger):  # type: ignore[misc, name-defined]
    """A ledger's store that decides by itself, where sessions are in memory."""

    def finish(self, *args: Any, **kwargs: Any) -> bool:
        base.step("before the record")
        kept: bool = super().finish(*args, **kwargs)
        base.step("after the record")
        return kept


base.stores.Ledger = Ledger


class Till:
    """Rows in a file. A call's are prepared beside it, with the key of the call's decision."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "till.json"
        self.folder = folder

    def rows(self) -> list[str]:
        return list(json.loads(self.file.read_text())) if self.file.exists() else []

    def branch(self, context: ToolContext, parent: TillBranch | None) -> TillBranch:
        return TillBranch(self, parent)

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        for pending in self.folder.glob("till-*.pending"):
            key = pending.with_suffix(".key").read_text()
            answer = decided(key)
            assert answer is not None, f"nothing knows of {key}"
            if answer:
                pending.replace(self.file)
            pending.unlink(missing_ok=True)


class TillBranch:
    """The rows that a call has added."""

    def __init__(self, till: Till, parent: TillBranch | None) -> None:
        self.till, self.parent = till, parent
        self.key: str | None = None
        self.resource = self
        self.rows: list[str] = []
        self.pending = till.folder / f"till-{id(self)}.pending"

    def diff(self) -> str:
        return "\n".join(self.rows)

    def prepare(self) -> None:
        if self.parent is None:
            base.step("preparing the till")
            self.pending.with_suffix(".key").write_text(str(self.key))
            self.pending.write_text(json.dumps([*self.till.rows(), *self.rows]))
            base.step("prepared the till")

    def commit(self) -> None:
        if self.parent is not None:
            self.parent.rows += self.rows
            return
        base.step("before the till's commit")
        self.pending.replace(self.till.file)
        base.step("after the till's commit")

    def rollback(self) -> None:
        self.pending.unlink(missing_ok=True)


@tool(contained=True, timeout=None)
def ring(key: str, *, context: ToolContext) -> str:
    """Put a row in the till."""
    context.resources.get(Till).rows.append(key)  # type: ignore[attr-defined]
    return key


def opened(stack: ExitStack) -> Executor:
    """Return an executor of a host of its own over all that is stored in the folder."""
    ledger = EffectLedger(base.stores.ledger())
    stack.callback(ledger.shut)
    resources: list[Binding[Any]] = [
        Binding.instance(EffectLedger, ledger),
        Binding(Till, lambda _: Till(base.folder)),
        base.workspace(),
    ]
    if not IN_MEMORY:
        sessions = stack.enter_context(closing(base.stores.sessions()))
        resources.append(Binding.instance(SessionStore, sessions))  # type: ignore[type-abstract]
    tools = [*base.TOOLS, ring]
    host = Host(discover=False, plugins=[ledger_plugin], tools=tools, resources=resources)
    stack.enter_context(host)
    return stack.enter_context(host.executor(session_id="s"))


def change(key: str, ready: Callable[[], None] = lambda: None, *, is_late: bool = False) -> None:
    """Keep a transaction of two keyed calls, a repeated one and a row; say when it begins."""
    with ExitStack() as stack:
        tools = opened(stack)
        if not is_late:
            ready()
        with tools.transaction(key) as work:
            for name, place in (("put", "a"), ("ring", ""), ("put", "b"), ("put", "a")):
                outcome = work.dispatch(ToolCall(name, {"key": f"{key}{place}"}))
                assert outcome.success, outcome.text
            if is_late:
                ready()
        base.step("the caller knows")
        (base.folder / f"{key}.known").touch()


def look(key: str) -> None:
    """Print the parts of a transaction that a host finds."""
    with ExitStack() as stack:
        tools = opened(stack)
        files = [tools.dispatch(ToolCall("look", {"key": f"{key}{each}"})) for each in "ab"]
        assert all(each.success for each in files), files[0].text
        till = tools.resources.get(Till)
        with closing(base.stores.ledger()) as store:
            entries = [each for each in store.entries() if each.result is not None]
        values = {json.loads(each.result.value) for each in entries}
        found = {
            "files": sum(len(each.result.value or ()) for each in files),
            "rows": till.rows().count(key),
            "records": len(values & {f"{key}a", f"{key}b"}),
            "known": (base.folder / f"{key}.known").exists(),
        }
        if not IN_MEMORY:
            keys = [note.key for note in tools.session[base.Note].all()]
            found["notes"] = keys.count(f"{key}a") + keys.count(f"{key}b")
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def recover(key: str) -> None:
    for _ in range(2):
        assert base.ended(base.forked(lambda: look(key))) == 0
    # The killed process keeps nothing from others.
    assert base.ended(base.forked(lambda: change(f"{key} again"))) == 0
    if not IN_MEMORY:
        assert base.ended(base.forked(base.check_entries)) == 0


def steps() -> list[str]:
    """Return the steps of a transaction, in order."""
    reached: list[str] = []
    base.step = reached.append
    change("counted")
    base.step = lambda name: None
    return reached


def kill_at(number: int) -> None:
    def killed() -> None:
        left = [None] * number

        def dying(name: str) -> None:
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left.pop()

        base.step = dying
        change(f"at {number}")

    assert base.ended(base.forked(killed)) == -signal.SIGKILL
    recover(f"at {number}")


def kill_at_random(rounds: int) -> None:
    def once(number: int, lifetime: float | None, *, is_late: bool) -> float:
        key = f"round {number}"
        receiving, sending = os.pipe()
        work = lambda: change(key, lambda: os.write(sending, b"x"), is_late=is_late)  # noqa: E731
        child = base.forked(work)
        os.close(sending)
        os.read(receiving, 1)
        started = time.perf_counter()
        if lifetime is not None:
            time.sleep(random.uniform(0, lifetime))
            os.kill(child, signal.SIGKILL)
        base.ended(child)
        taken = time.perf_counter() - started
        os.close(receiving)
        if lifetime is not None:
            recover(key)
        return taken

    # Every other time within the end, which is short.
    lifetimes = [
        sorted(once(-number - 10 * late, None, is_late=late) for number in range(1, 4))[1]
        for late in (False, True)
    ]
    for number in range(rounds):
        is_late = bool(number % 2)
        once(number, lifetimes[is_late], is_late=is_late)


def main() -> None:
    what, *given = sys.argv[1:]
    if what == "steps":
        sys.stdout.write(json.dumps(steps()))
    elif what == "at":
        for number in given:
            kill_at(int(number))
    else:
        kill_at_random(int(given[0]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        base.folder = Path(name)
        (base.folder / "work").mkdir()
        main()
