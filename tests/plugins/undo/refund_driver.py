"""Kills hosts that pay and take payments back; others recover. The bank's file is the judge.

A program of its own, since it forks. `steps WAY` prints the steps of a way of paying in order,
`at WAY PLACE...` kills a process at each of these, by number or name, and `random ROUNDS` kills at
random instants. After each, `TIMES` processes that recover are killed in the refund, if they come
to one. Prints a line of JSON for each round: payments minus refunds, and the payments that are
committed, after the recovery and after a second one. All is kept in a file, or in the database
that TOOLSTILE_TEST_DATABASE names.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from tests.plugins.sessions import crash_driver as base
from tests.plugins.undo.bank import Bank

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import Binding, IdempotencyConfig, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.ledger import EffectState
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.ledger import EffectLedger, effect_key
from toolstile_plugins.ledger.entries import state_of

IN_MEMORY = os.environ.get("TOOLSTILE_TEST_SESSIONS") == "memory"
TIMES = 2
"""The processes that are killed in the refund, one after the other."""
IN_REFUND = ("before the refund", "after the refund")
PATIENCE = 30.0


class Ledger(base.stores.Ledger):  # type: ignore[misc, name-defined]
    """A ledger's store that tells of the steps of an undo, too."""

    def finish(self, *args: Any, **kwargs: Any) -> bool:
        base.step("before the record")
        kept: bool = super().finish(*args, **kwargs)
        base.step("after the record")
        return kept

    def owe(self, *args: Any) -> bool:
        base.step("before it is owed")
        owed: bool = super().owe(*args)
        base.step("after it is owed")
        return owed

    def mark_unknown(self, *args: Any) -> bool:
        base.step("before the mark")
        marked: bool = super().mark_unknown(*args)
        base.step("after the mark")
        return marked


base.stores.Ledger = Ledger


def bank() -> Bank:
    # Each time anew, because the steps change.
    return Bank(base.folder / "bank.txt", base.step)


def refund(params: Any, result: object, key: str, context: ToolContext) -> None:
    assert result in (None, f"receipt of {params.key}")
    bank().refund(key)


@tool(idempotency=IdempotencyConfig(scope="global", ttl=None), undo=refund, timeout=None)
def pay(key: str, *, context: ToolContext) -> str:
    """Pay for a key, and note it in the session."""
    context.session[base.Note].append(base.Note(key))
    number = effect_key(context)
    assert number is not None
    return bank().pay(number, key)


def opened(stack: ExitStack) -> Executor:
    """Return an executor of a host of its own over all that is stored in the folder."""
    ledger = EffectLedger(base.stores.ledger())
    stack.callback(ledger.shut)
    resources: list[Binding[Any]] = [Binding.instance(EffectLedger, ledger), base.workspace()]
    if not IN_MEMORY:
        sessions = stack.enter_context(closing(base.stores.sessions()))
        resources.append(Binding.instance(SessionStore, sessions))  # type: ignore[type-abstract]
    host = Host(
        discover=["ledger", "undo"],
        # In a database, the claims of killed processes lapse only after a second.
        settings=Settings(
            plugins={"undo": {"path": base.folder / "undo"}, "ledger": {"reconcile_every": 0.5}}
        ),
        tools=[*base.TOOLS, pay],
        resources=resources,
    )
    stack.enter_context(host)
    return stack.enter_context(host.executor(session_id="s"))


def once(way: str, key: str, ready: Callable[[], None] = lambda: None) -> None:
    """Pay once: alone, in a transaction that is kept or rolled back, or with a later undo."""
    with ExitStack() as stack:
        tools = opened(stack)
        ready()
        if way == "alone":
            tools.dispatch(ToolCall("pay", {"key": key}))
            return
        with suppress(ZeroDivisionError), tools.transaction(key) as work:
            for name in ("pay", "put", "pay"):
                assert work.dispatch(ToolCall(name, {"key": key})).success
            if way == "rolled back":
                raise ZeroDivisionError
        if way == "undone":
            assert tools.undo().success
            assert tools.session[base.Note].all() == () or not IN_MEMORY


WAYS = ("alone", "kept", "rolled back", "undone")


def look(key: str) -> None:
    """Wait until a host has undone what is owed, and print what it finds."""
    with ExitStack() as stack:
        tools = opened(stack)
        until = time.monotonic() + PATIENCE
        with closing(base.stores.ledger()) as store:
            while True:
                entries = list(store.entries(tool_name="pay"))
                if all(state_of(each) in {"done", "undone"} for each in entries):
                    break
                assert time.monotonic() < until, [(state_of(each), each) for each in entries]
                time.sleep(0.02)
        value = json.dumps(f"receipt of {key}").encode()
        done = [each for each in entries if each.state is EffectState.DONE]
        found = {
            "balance": bank().balance(key),
            "committed": sum(each.result.value == value for each in done),
            "lines": len([line for line in bank().lines() if line.endswith(f" {key}")]),
        }
        if not IN_MEMORY:
            files = tools.dispatch(ToolCall("look", {"key": key}))
            notes = [note.key for note in tools.session[base.Note].all()]
            found["notes"] = notes.count(key)
            found["files"] = len(files.result.value or ())
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def dying_at(wanted: Sequence[str]) -> None:
    def dying(name: str) -> None:
        if name in wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    base.step = dying


def recovering(key: str) -> None:
    """Recover in silence, and die in the refund."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    dying_at([random.choice(IN_REFUND)])
    look(key)


def recover(key: str) -> int:
    """Let processes recover, which are killed in the refund at first; return how many were."""
    killed = 0
    for _ in range(TIMES):
        ended = base.ended(base.forked(lambda: recovering(key)))
        assert ended in (0, -signal.SIGKILL), ended
        killed += ended != 0
    for _ in range(2):
        assert base.ended(base.forked(lambda: look(key))) == 0
    return killed


def steps(way: str) -> list[str]:
    """Return the steps of a way of paying, in order."""
    reached: list[str] = []
    base.step = reached.append
    once(way, "counted")
    base.step = lambda name: None
    return reached


def kill_at(way: str, place: str) -> int:
    key = f"{way}-{place}".replace(" ", "-")

    def killed() -> None:
        if not place.isdigit():
            # The keeper of the leases takes steps meanwhile, too, so numbers differ by run.
            dying_at([place])
            once(way, key)
            return
        left = [None] * int(place)

        def dying(name: str) -> None:
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left.pop()

        base.step = dying
        once(way, key)

    ended = base.ended(base.forked(killed))
    # The last steps of an undo depend on the files that earlier rounds have left.
    assert ended in (0, -signal.SIGKILL), ended
    return (ended != 0) + recover(key)


def kill_at_random(rounds: int) -> int:
    killed = 0

    def timed(key: str, way: str, lifetime: float | None) -> float:
        receiving, sending = os.pipe()
        child = base.forked(lambda: once(way, key, lambda: os.write(sending, b"x")))  # type: ignore[arg-type, func-returns-value, return-value]
        os.close(sending)
        os.read(receiving, 1)
        started = time.perf_counter()
        if lifetime is not None:
            time.sleep(random.uniform(0, lifetime))
            os.kill(child, signal.SIGKILL)
        nonlocal killed
        killed += base.ended(child) == -signal.SIGKILL
        os.close(receiving)
        return time.perf_counter() - started

    lifetimes = {way: min(timed(f"{way[:4]}{n}", way, None) for n in "12") for way in WAYS}
    for number in range(rounds):
        way = WAYS[number % len(WAYS)]
        timed(f"round-{number}", way, lifetimes[way])
        killed += recover(f"round-{number}")
    return killed


def main() -> None:
    what, *given = sys.argv[1:]
    if what == "steps":
        sys.stdout.write(json.dumps(steps(given[0])))
        return
    if what == "at":
        kills = sum(kill_at(given[0], place) for place in given[1:])
    else:
        kills = kill_at_random(int(given[0]))
    sys.stdout.write(json.dumps({"kills": kills}) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        base.folder = Path(folder)
        (base.folder / "work").mkdir()
        main()
