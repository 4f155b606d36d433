"""Kills processes that ask what became of a call, and has several ask at once.

A program of its own, since it forks. `boundaries FINDING WAY` kills one process at each boundary of
one way of asking, which comes to one finding; `random ROUNDS` kills at random instants.
`race PLACE KEYS PEERS` has processes ask about all keys of a store at once. Prints lines of JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolstile import Host, Settings
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    MarkdownSection,
    Reconciled,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, LedgerStore
from toolstile_plugins.ledger.reconcile import reconcile_pass
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

BOUNDARIES = (
    "before the hold",
    "after the hold",
    "while it asks",
    "before the finding",
    "after the finding",
)
WAYS = ("look", "call")

Step = Callable[[str], None]
step: Step = lambda name: None  # noqa: E731 - what each step of a question does
says = "happened"
folder = Path(tempfile.mkdtemp(prefix="toolstile-reconcile-"))


class Stepping(SqliteStore):
    """A ledger's store that tells of its steps."""

    def hold(self, *args: Any, **kwargs: Any) -> Any:
        step("before the hold")
        held = super().hold(*args, **kwargs)
        step("after the hold")
        return held

    def defer(self, *args: Any, **kwargs: Any) -> Any:
        step("before the finding")
        kept = super().defer(*args, **kwargs)
        step("after the finding")
        return kept

    def settle(self, *args: Any, **kwargs: Any) -> Any:
        step("before the finding")
        kept = super().settle(*args, **kwargs)
        step("after the finding")
        return kept


def note(name: str, text: str) -> None:
    """Write a line that is never torn."""
    number = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(number, f"{text}\n".encode())
    os.close(number)


def notes(name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def find(params: Any, key: str, context: ToolContext) -> Reconciled:
    note("asked", params.key)
    step("while it asks")
    match says:
        case "happened":
            return Reconciled.happened(f"{params.key}, found by {os.getpid()}")
        case "did_not":
            return Reconciled.did_not()
        case _:
            return Reconciled.cannot_tell("Nobody knows.")


@tool(idempotency=IdempotencyConfig(scope="global", reconcile=find), timeout=None)
def act(key: str) -> str:
    """Have an effect outside."""
    note("effects", key)
    return f"{key}, done"


class Shop:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="t", title="T", tools=[act])]


@contextmanager
def opened(store: LedgerStore) -> Iterator[tuple[Host, LedgerSettings, Any]]:
    """Open a host over a store, with an executor."""
    bound = Binding[LedgerStore](LedgerStore, lambda resources: store)  # type: ignore[type-abstract]
    table = {"reconcile_every": 0, "backoff": 0.05}
    with (
        Host(
            discover=["ledger"],
            plugins=[Shop()],
            resources=[bound],
            settings=Settings(plugins={"ledger": table}),
        ) as host,
        host.executor() as tools,
    ):
        yield host, host.settings("ledger"), tools


def leave_unknown(store: LedgerStore, keys: list[str]) -> None:
    """Leave an unknown effect of each key, as a process that was killed does."""
    with opened(store) as (_, _, tools):
        for key in keys:
            outcome = tools.dispatch(ToolCall("act", {"key": key}))
            (entry,) = [
                each
                for each in store.entries()
                if each.claim.key == outcome.event.attributes["ledger.key"]
            ]
            claim: Claim = entry.claim._replace(params=json.dumps({"key": key}).encode())
            store.release(claim.key, claim.effect_id)
            store.claim(claim, now=datetime.now(UTC))
            store.mark_unknown(claim.key, claim.effect_id, "It was cut off.")
    (folder / "effects").unlink()


def ask(key: str, way: str) -> None:
    """Ask about all unknown effects, as a host in the background does, or by a call."""
    with opened(Stepping(folder / "ledger.db")) as (host, settings, tools):
        if way == "call":
            tools.dispatch(ToolCall("act", {"key": key}))
        else:
            for _ in reconcile_pass(host, settings, at_once=True):
                pass


def tell_after(key: str, told: dict[str, Any]) -> None:
    """Write what a process that was killed has left, and what comes of going on."""
    store = SqliteStore(folder / "ledger.db")
    (left,) = [each for each in store.entries() if each.claim.tool_name == "act"]
    told |= {"left": str(left.state), "reason": left.reason, "over": left.expires_at is not None}
    with opened(store) as (host, settings, tools):
        told["found"] = [look.found for look in reconcile_pass(host, settings, at_once=True)]
        outcomes = [tools.dispatch(ToolCall("act", {"key": key})) for _ in range(2)]
        told["texts"] = [outcome.text for outcome in outcomes]
        told["replayed"] = [outcome.event.replayed for outcome in outcomes]
    store.close()
    told |= {"asked": len(notes("asked")), "effects": len(notes("effects"))}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


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


def begin(key: str) -> None:
    for path in folder.iterdir():
        path.unlink()

    def leave() -> None:
        store = SqliteStore(folder / "ledger.db")
        leave_unknown(store, [key])
        store.close()

    assert ended(forked(leave)) == 0


def kill_at(wanted: str, finding: str, way: str) -> None:
    global says  # noqa: PLW0603 - of this program
    begin("k")
    says = finding

    def killed() -> None:
        global step  # noqa: PLW0603 - of this program

        def dying(reached: str) -> None:
            if reached == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

        step = dying
        ask("k", way)

    if ended(forked(killed)) != -signal.SIGKILL:
        raise AssertionError(f"the question never came to {wanted}")
    told = {"boundary": wanted, "says": finding, "way": way}
    assert ended(forked(lambda: tell_after("k", told))) == 0


def kill_at_random(rounds: int) -> None:
    global says  # noqa: PLW0603 - of this program
    longest = 0.1
    for number in range(rounds):
        begin("k")
        says = random.choice(["happened", "did_not", "cannot_tell"])
        # A call that may run may also be killed with an effect of its own.
        way = "look" if says == "did_not" else random.choice(WAYS)
        started = time.perf_counter()
        child = forked(lambda way=way: ask("k", way))
        if number:
            time.sleep(random.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
            ended(child)
        else:
            ended(child)
            longest = time.perf_counter() - started
        told = {"says": says, "way": way}
        assert ended(forked(lambda told=told: tell_after("k", told))) == 0


def race(place: str, keys: int, peers: int) -> None:
    """Have processes ask about the same effects; each finds something that names itself."""
    make = PostgresStore if place.startswith("postgresql:") else SqliteStore

    def leave() -> None:
        store: LedgerStore = make(place)
        leave_unknown(store, [f"k{number}" for number in range(keys)])
        store.close()

    def peer() -> None:
        global says  # noqa: PLW0603 - of this program
        says = random.Random(os.getpid()).choice(["happened", "did_not"])
        store: Any = make(place)
        found: dict[str, str] = {}
        with opened(store) as (host, settings, _):
            until = time.monotonic() + 60
            while list(store.unsettled()) and time.monotonic() < until:
                for look in reconcile_pass(host, settings):
                    if look.found is not None:
                        found[look.entry.claim.key] = look.found
        note("found", json.dumps(found))
        store.close()

    assert ended(forked(leave)) == 0
    assert [ended(number) for number in [forked(peer) for _ in range(peers)]] == [0] * peers
    store: Any = make(place)
    states = [str(entry.state) for entry in store.entries()]
    store.close()
    told = {"found": [json.loads(line) for line in notes("found")], "asked": notes("asked")}
    sys.stdout.write(json.dumps(told | {"states": states}) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["boundaries", finding, way]:
            for boundary in BOUNDARIES:
                kill_at(boundary, finding, way)
        case ["random", rounds]:
            kill_at_random(int(rounds))
        case ["race", place, keys, peers]:
            race(place, int(keys), int(peers))
