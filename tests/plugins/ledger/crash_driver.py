"""Kills processes whose calls commit to a workspace and a ledger, and calls again in others.

A program of its own, since it forks. `at STEP TOOL AGAIN` kills one process at a step of its one
call of TOOL, and calls AGAIN; `random ROUNDS` kills many at random instants. Prints a line of JSON
for each call that was made again: how often its effect happened before and after, what it was
told, what is in the workspace.
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import toolstile_plugins.ledger as ledger_plugin
from toolstile import Executor, Host, Session
from toolstile_hookspecs import (
    Binding,
    Filesystem,
    IdempotencyConfig,
    MarkdownSection,
    Prompt,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.vfs import DiskStore
from toolstile_plugins.vfs.workspace import VirtualFilesystem

CALLS = 3

Step = Callable[[str], None]
step: Step = lambda name: None  # noqa: E731 - what each step of a call does


class Stepping(SqliteStore):
    """A ledger's store that tells of its steps."""

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        step("before the claim")
        standing = super().claim(*args, **kwargs)
        step("after the claim")
        return standing

    def finish(self, *args: Any, **kwargs: Any) -> Any:
        step("before the record")
        kept = super().finish(*args, **kwargs)
        step("after the record")
        return kept


@tool(idempotency=IdempotencyConfig(scope="global"), timeout=None)
def act(key: str, *, context: ToolContext) -> str:
    """Write two files, and have an effect outside."""
    step("inside the handler")
    files = context.filesystem
    assert files is not None
    for name in ("one", "two"):
        files.write(f"{key}/{name}.txt", "done")
    with (folder / "effects.txt").open("ab", buffering=0) as stream:
        stream.write(f"{key}\n".encode())
    step("after the effect")
    return key


@tool(idempotency=IdempotencyConfig(scope="global"), timeout=None, contained=True)
def put(key: str, *, context: ToolContext) -> str:
    """Write two files, and have no effect outside."""
    files = context.filesystem
    assert files is not None
    for name in ("one", "two"):
        files.write(f"{key}/{name}.txt", "done")
    return key


@tool(timeout=None, contained=True)
def put_within(key: str, *, context: ToolContext) -> str:
    """Have the files written by another call."""
    text = context.call("put", {"key": key}).text
    step("before the caller ends")
    return text


@tool(category="read")
def look(key: str, *, context: ToolContext) -> list[str]:
    """List the files that a call has written."""
    files = context.filesystem
    assert files is not None
    return sorted(each.path for each in files.list(key)) if files.exists(key) else []


def opened(stack: ExitStack) -> Executor:
    """Return an executor over the ledger and the workspace in the folder."""
    ledger = EffectLedger(Stepping(folder / "ledger.db"))
    stack.callback(ledger.shut)
    host = stack.enter_context(Host(discover=False, plugins=[ledger_plugin]))
    prompt = Prompt.of(
        "t", "t", (MarkdownSection(key="t", title="T", tools=[act, put, put_within, look]),)
    )
    workspace = Binding(
        Filesystem,
        lambda resources: VirtualFilesystem(DiskStore(folder / "work", steps=step)),
    )
    bindings = (Binding.instance(EffectLedger, ledger), workspace)
    return stack.enter_context(host.executor(session=Session(), prompt=prompt, resources=bindings))


def effects_of(key: str) -> int:
    """Return how often the effect of a key has happened."""
    path = folder / "effects.txt"
    return path.read_text().splitlines().count(key) if path.exists() else 0


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
    """Call what a killed process may have called, and tell what came of it."""
    with ExitStack() as stack:
        tools = opened(stack)
        for key in keys:
            before = effects_of(key)
            outcome = tools.dispatch(ToolCall(name, {"key": key}))
            line = {
                "key": key,
                "before": before,
                "after": effects_of(key),
                "success": outcome.success,
                "replayed": outcome.event.replayed,
                "text": outcome.text,
                "on disk": len([*(folder / "work" / key).glob("*.txt")]),
                "files": len(tools.dispatch(ToolCall("look", {"key": key})).result.value or ()),
                "twice": tools.dispatch(ToolCall(name, {"key": key})).text == outcome.text,
                "at the end": effects_of(key),
            }
            sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def kill_at(wanted: str, name: str, again: str) -> None:
    def killed() -> None:
        global step  # noqa: PLW0603 - of this program

        def dying(reached: str) -> None:
            if reached == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

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
        os.read(receiving, 1)
        started = time.perf_counter()
        if lifetime is not None:
            time.sleep(random.uniform(0, lifetime))
            os.kill(child, signal.SIGKILL)
        ended(child)
        taken = time.perf_counter() - started
        os.close(receiving)
        os.close(sending)
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
