"""Ctrl-C at any line that a call passes: the call is kept whole or not at all; nothing is held."""

from __future__ import annotations

import dis
import linecache
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from toolstile import Executor, Host, MarkdownSection, Prompt, Session, Settings, ToolCall, tool
from toolstile_hookspecs import IdempotencyConfig, ToolContext

PATIENCE = 5.0
"""Seconds after which a call hangs."""


@dataclass(frozen=True)
class Mark:
    """A trace that a call leaves in the session."""

    text: str


class Hung(BaseException):
    """A call waits for what never comes."""


@tool(timeout=None)
def mark(text: str, *, context: ToolContext) -> str:
    """Leave a mark in the session, and in a file."""
    context.session[Mark].append(Mark(text))
    if context.filesystem is not None:
        context.filesystem.write(f"{text}.txt", text)
    return text


@tool(timeout=None)
def outer(text: str, *, context: ToolContext) -> str:
    """Leave a mark, and another one within."""
    context.session[Mark].append(Mark(f"{text}-outer"))
    context.call("mark", {"text": f"{text}-inner"})
    return text


@tool(timeout=None, idempotency=IdempotencyConfig(scope="global"))
def charge(text: str, *, context: ToolContext) -> str:
    """Leave a mark, once."""
    context.session[Mark].append(Mark(text))
    return text


TOOLS = [mark, outer, charge]
PROMPT = Prompt.of("t", "t", [MarkdownSection(key="s", title="S", tools=TOOLS)])
WAYS: dict[str, Callable[[Executor], object]] = {
    "plain": lambda tools: tools.dispatch(ToolCall("mark", {"text": "x"})),
    "nested": lambda tools: tools.dispatch(ToolCall("outer", {"text": "x"})),
    "batch": lambda tools: tools.dispatch_all(
        [ToolCall("mark", {"text": "a"}), ToolCall("mark", {"text": "b"})]
    ),
}
CHARGE = ToolCall("charge", {"text": "x"})
WHOLE = {
    "plain": [{"x"}, set()],
    "nested": [{"x-outer", "x-inner"}, set()],
    # Each call of a batch is a whole of its own.
    "batch": [{"a", "b"}, {"a"}, {"b"}, set()],
}
"""All that a way leaves behind, then the other ends that it may come to."""


class Interruption:
    """Sends SIGINT at the line of ours that has a number, counted from a call's first."""

    def __init__(self, line: int) -> None:
        self.left = line
        self.place: str | None = None

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "/toolstile" not in frame.f_code.co_filename:
            return None
        if event == "line" and self.place is None and handles_signals(frame):
            self.left -= 1
            if self.left == 0:
                name = frame.f_code.co_filename.rpartition("/toolstile")[2]
                self.place = f"{name}:{frame.f_lineno} {frame.f_code.co_qualname}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self


def handles_signals(frame: FrameType) -> bool:
    """Return whether Python may handle a signal here.

    It does not at the beginning of a `try`, and between the end of a `with` block and `__exit__`,
    and an exception there would pass by both.
    """
    following = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    leaves = following in {"LOAD_CONST", "SWAP", "PUSH_EXC_INFO"}
    return following != "NOP" and not (leaves and line.lstrip().startswith("with "))


def hang(*_: object) -> None:
    raise Hung


@contextmanager
def patience() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(tools: Executor, way: str, line: int) -> str | None:
    """Interrupt a call at a line; return the place, None where it has fewer lines."""
    interruption = Interruption(line)
    # A measurement of coverage watches every line, too.
    watching = sys.gettrace()
    with patience():
        sys.settrace(interruption)
        try:
            tools.dispatch(CHARGE) if way == "recorded" else WAYS[way](tools)
        except KeyboardInterrupt:
            pass
        else:
            assert interruption.place is None, f"lost at {interruption.place}"
        finally:
            sys.settrace(watching)
    return interruption.place


def marks_of(tools: Executor) -> set[str]:
    return {mark.text for mark in tools.session[Mark].all()}


def check_whole(tools: Executor, way: str, place: str, folder: Path | None) -> None:
    marks = marks_of(tools)
    assert marks in WHOLE[way], place
    if folder is not None:
        files = {file.stem for file in folder.glob("*.txt")}
        assert files == {text for text in marks if not text.endswith("-outer")}, place
    assert len(tools.runtime.inflight) == 0, place
    with patience():
        assert tools.dispatch(ToolCall("mark", {"text": "after"})).success, place


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="nothing ends a call that hangs"),
]


@pytest.mark.long_if(way="nested")
@pytest.mark.long_if(way="batch")
@pytest.mark.parametrize("way", WAYS)
def test_a_call_is_kept_whole_or_not_at_all(way: str) -> None:
    for line in count(1):
        with (
            Host(discover=False) as host,
            host.executor(prompt=PROMPT, session=Session()) as tools,
        ):
            place = interrupted(tools, way, line)
            if place is None:
                assert marks_of(tools) == WHOLE[way][0]
                break
            check_whole(tools, way, place, None)
    assert line > 100


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_so_are_the_files_of_a_workspace(way: str, tmp_path: Path) -> None:
    for line in count(1):
        folder = tmp_path / str(line)
        folder.mkdir()
        settings = Settings(plugins={"vfs": {"root": str(folder)}})
        with (
            Host(discover=["vfs"], settings=settings) as host,
            host.executor(prompt=PROMPT, session=Session()) as tools,
        ):
            place = interrupted(tools, way, line)
            if place is None:
                assert marks_of(tools) == WHOLE[way][0]
                break
            check_whole(tools, way, place, folder)
    assert line > 500


@pytest.mark.long
# A connection that is interrupted while it opens is closed when it is collected.
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_recorded_call_is_made_once_though_it_was_interrupted(store: str, tmp_path: Path) -> None:
    for line in count(1):
        path = {"path": str(tmp_path / f"{line}.db")}
        plugins = {"database": {"memory": True}} if store == "memory" else {"ledger": path}
        with (
            Host(discover=["ledger", "database"], settings=Settings(plugins=plugins)) as host,
            host.executor(prompt=PROMPT, session=Session()) as tools,
        ):
            place = interrupted(tools, "recorded", line)
            if place is None:
                break
            before = marks_of(tools)
            with patience():
                again = tools.dispatch(CHARGE)
            if again.success:
                assert (again.event.replayed, marks_of(tools)) == (before == {"x"}, {"x"}), place
            else:
                # The handler had begun: nobody knows whether it has charged.
                assert "its effect may" in again.text, place
    assert line > 500
