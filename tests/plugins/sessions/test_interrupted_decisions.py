"""Ctrl-C at any instruction of a decision or a claim: session, files, ledger and record agree."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from toolstile import Executor, Host, Settings, ToolCall
from toolstile.state.branch import Branch
from toolstile.state.journal import Journal
from toolstile_hookspecs import IdempotencyConfig, ToolContext, hookimpl, tool
from toolstile_hookspecs.stored_names import stored_as
from toolstile_hookspecs.support import process
from toolstile_plugins.ledger import claim
from toolstile_plugins.ledger.lease import Lease
from toolstile_plugins.record import verify
from toolstile_plugins.sqlite_file import _Writer

MONITORING: Any = getattr(sys, "monitoring", None)
TOOL_ID = 4
"""An id of `sys.monitoring` that no debugger or profiler uses."""
PATIENCE = 60.0
"""Seconds after which a call hangs."""

pytestmark = [
    pytest.mark.slow,
    # A third Ctrl-C may come before a file is closed, or while an object is finalized.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(MONITORING is None, reason="sys.monitoring is new in Python 3.12"),
]


@stored_as("tests.interrupted.Paid")
@dataclass(frozen=True)
class Paid:
    """A trace that a call leaves in the session."""

    key: str


class Hung(BaseException):
    """A call waits for an event that never comes."""


effects: Counter[str] = Counter()


def leave_traces(key: str, context: ToolContext) -> str:
    effects[key] += 1
    assert context.filesystem is not None
    for name in "ab":
        context.filesystem.write(f"{key}/{name}", key)
    context.session[Paid].append(Paid(key))
    return key


@tool(timeout=None, idempotency=IdempotencyConfig(scope="global"))
def pay(key: str, *, context: ToolContext) -> str:
    """Leave two files and an item, once."""
    return leave_traces(key, context)


@tool(timeout=None, idempotency=IdempotencyConfig(scope="global"))
async def apay(key: str, *, context: ToolContext) -> str:
    """Leave two files and an item, once."""
    return leave_traces(key, context)


@tool(timeout=None, category="write", contained=True)
def write(key: str, *, context: ToolContext) -> str:
    """Leave two files and an item."""
    return leave_traces(key, context)


def call(tools: Executor, name: str, key: str) -> Any:
    return tools.dispatch(ToolCall(name, {"key": key}))


def acall(tools: Executor, name: str, key: str) -> Any:
    """Call as an application with an event loop does, until its loop ends."""
    return asyncio.run(tools.adispatch(ToolCall(name, {"key": key})))


WAYS: dict[str, Callable[[Executor, str], Any]] = {
    "sync": lambda tools, key: call(tools, "pay", key),
    "async": lambda tools, key: acall(tools, "apay", key),
    "contained": lambda tools, key: call(tools, "write", key),
}


DECIDING: dict[object, set[str]] = {
    Journal: {"moving", "_ask", "_show", "_read_back", "_resolve", "was_kept"},
    Branch: {"commit", "end_commit"},
    Lease: {"take", "settle"},
    _Writer: {"_begin", "_undo", "_commit", "_end"},
}


LOCKED = (process.unshared,)
"""Left out: between a block and the end of its `with` a callback may raise, but no signal."""


def codes() -> Iterator[CodeType]:
    """Yield the code of all that decides, claims and defers."""
    for module in (process, claim):
        found, name = vars(module).values(), module.__name__
        own = [each for each in found if getattr(each, "__module__", "") == name]
        methods = [vars(each).values() for each in own if isinstance(each, type)]
        yield from code_of(chain(own, *methods))
    for owner, names in DECIDING.items():
        yield from code_of(vars(owner)[name] for name in names)


def code_of(found: Iterable[Any]) -> Iterator[CodeType]:
    functions = (getattr(each, "__wrapped__", each) for each in found if each not in LOCKED)
    return (each.__code__ for each in functions if isinstance(each, FunctionType))


class Interruption:
    """Sends SIGINT so many times at the one of the watched instructions that has a number."""

    def __init__(self, at: int, times: int) -> None:
        self.left = at
        self.times = times
        self.place: str | None = None

    def __call__(self, code: CodeType, where: int) -> None:
        self.left -= 1
        if self.left == 0:
            self.place = f"{code.co_qualname} at {where}"
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)

    @contextmanager
    def watching(self, kind: str) -> Generator[None]:
        monitoring = MONITORING
        event = getattr(monitoring.events, kind)
        watched = {*codes()}
        assert len(watched) > 10
        monitoring.use_tool_id(TOOL_ID, "interruptions")
        monitoring.register_callback(TOOL_ID, event, self)
        try:
            for code in watched:
                monitoring.set_local_events(TOOL_ID, code, event)
            yield
        finally:
            for code in watched:
                monitoring.set_local_events(TOOL_ID, code, 0)
            monitoring.register_callback(TOOL_ID, event, None)
            monitoring.free_tool_id(TOOL_ID)


def hang(*_: object) -> None:
    raise Hung


@contextmanager
def patience() -> Generator[None]:
    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Shop:
    """A host with a stored session, a workspace, a ledger and a record."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.files = folder / "work"
        self.files.mkdir(parents=True)
        state = {"path": str(folder / "state.db")}
        stored = {"sessions": state, "ledger": state} if url is None else {"database": {"url": url}}
        self.settings = Settings.model_validate(
            {
                "durability": "process",
                "plugins": {
                    "vfs": {"root": str(self.files)},
                    "record": {"file": str(folder / "record.jsonl")},
                    **stored,
                },
            }
        )
        self._stack = ExitStack()
        self.reopen()

    def reopen(self) -> None:
        self.close()
        host = self._stack.enter_context(Host(settings=self.settings, tools=[pay, apay, write]))
        self.tools = self._stack.enter_context(host.executor(session_id="s"))

    def close(self) -> None:
        self._stack.close()

    def check(self, told: dict[str, str]) -> None:
        """Check that session and files agree; `told` has the place of the interruption by key."""
        items = Counter(paid.key for paid in self.tools.session[Paid].all())
        files = Counter(file.parent.name for file in self.files.glob("[!.]*/*"))
        assert set(items.values()) <= {1}, items
        assert set(files.values()) <= {2}, files
        wrong = {key: told.get(key) for key in items.keys() ^ files.keys()}
        assert not wrong, wrong
        twice = {key: told.get(key) for key, times in effects.items() if times > 1}
        assert not twice


def interrupted(shop: Shop, way: str, key: str, interruption: Interruption, kind: str) -> bool:
    """Interrupt a call; return whether it came so far."""
    with patience():
        try:
            with interruption.watching(kind):
                WAYS[way](shop.tools, key)
                time.sleep(0)
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
    return interruption.place is not None


def check_again(shop: Shop, way: str, key: str, place: str) -> None:
    """Check the end of an interrupted call: nothing is held, and its key is free or known."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, place
    before = effects[key]
    with patience():
        assert call(shop.tools, "write", f"after-{key}").success, place
        if way == "contained":
            return
        again = WAYS[way](shop.tools, key)
    assert "under way" not in again.text, (place, again.text)
    if not before:
        assert again.success, (place, again.text)
    elif not again.success:
        assert "its effect may" in again.text, (place, again.text)


def storm(shop: Shop, way: str, times: int, kind: str, step: int) -> None:
    """Interrupt one call after the other, each a few instructions later than the last."""
    told: dict[str, str] = {}
    effects.clear()
    at = 1
    while True:
        key = f"{way}-{times}-{at}"
        interruption = Interruption(at, times)
        if not interrupted(shop, way, key, interruption, kind):
            break
        told[key] = told[f"after-{key}"] = str(interruption.place)
        check_again(shop, way, key, told[key])
        shop.check(told)
        at += step
    assert at > 20
    shop.reopen()
    assert call(shop.tools, "write", "later").success
    shop.check(told)
    shop.close()
    assert verify(shop.folder / "record.jsonl").faults == ()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str | None], Shop]]:
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(closing(Shop(tmp_path / "shop", url)))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_short_storm_leaves_all_in_agreement(make: Any, way: str, times: int) -> None:
    storm(make(None), way, times, "LINE", 5)


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_so_does_a_long_one(make: Any, way: str, times: int) -> None:
    storm(make(None), way, times, "INSTRUCTION", 1)


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_so_does_one_over_a_database(make: Any, way: str, times: int, database: str) -> None:
    storm(make(database), way, times, "INSTRUCTION", 3)


def test_ctrl_c_while_another_plugin_hears_of_a_rollback_leaves_the_key_free(
    tmp_path: Path,
) -> None:
    class Other:
        left = 1

        @hookimpl(tryfirst=True)
        def toolstile_rollback(self) -> None:
            if self.left:
                self.left = 0
                signal.raise_signal(signal.SIGINT)

    @tool(timeout=None, contained=True, idempotency=IdempotencyConfig(scope="global"))
    def fail_once() -> str:
        """Fail the first time."""
        effects["once"] += 1
        assert effects["once"] > 1
        return "done"

    effects.clear()
    settings = Settings(plugins={"ledger": {"path": str(tmp_path / "l.db"), "wait": 1}})
    with (
        Host(discover=["ledger"], settings=settings, tools=[fail_once], plugins=[Other()]) as host,
        host.executor() as tools,
    ):
        with pytest.raises(KeyboardInterrupt):
            tools.dispatch(ToolCall("fail_once", {}))
        again = tools.dispatch(ToolCall("fail_once", {}))
        assert again.success, again.text
