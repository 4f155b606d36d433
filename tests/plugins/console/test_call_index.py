"""The index holds each recorded call once, whatever becomes of the index or of the records."""

from __future__ import annotations

import io
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import ToolCall, ToolContext, tool
from toolstile_plugins.console.call_index import CallIndex, Filter
from toolstile_plugins.record import Recorder, RecordFile

ALL = Filter()


@tool(category="read")
def say(text: str) -> str:
    """Say a text."""
    return text


@tool(category="read", depends_on=["say"])
def twice(text: str, *, context: ToolContext) -> str:
    """Say a text twice."""
    return "".join([context.call("say", {"text": text}).text for _ in range(2)])


class Run:
    """A run that records its calls."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.host = stack.enter_context(Host(discover=False, tools=[say, twice]))
        recorder = Recorder(RecordFile(path), self.host.clock)
        self.host.register(recorder)
        stack.callback(recorder.close)
        self.tools = stack.enter_context(self.host.executor(session_id="s"))

    def say(self, *texts: str) -> None:
        for text in texts:
            self.tools.dispatch(ToolCall("say", {"text": text}))


def record(path: Path, *texts: str) -> None:
    with ExitStack() as stack:
        Run(path, stack).say(*texts)


def texts(index: CallIndex) -> list[str]:
    return [row.gist for row in index.page(ALL, 1000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def test_it_lies_beside_the_record_or_where_it_is_told_to(path, tmp_path):
    record(path, "a")
    assert texts(CallIndex([path])) == ["a"]
    assert (tmp_path / ".calls.jsonl.index").exists()
    assert texts(CallIndex([path], tmp_path / "other" / "index.db")) == ["a"]
    assert (tmp_path / "other" / "index.db").exists()


def test_only_what_was_written_since_is_read(path):
    record(path, "a", "b")
    index = CallIndex([path])
    assert texts(index) == ["b", "a"]
    read = path.read_bytes()
    # What was read before could not be read again.
    path.write_bytes(read[:300] + b"?" * (len(read) - 301) + b"\n")
    with path.open("ab") as file:
        file.write(read)
    assert texts(index) == ["b", "b", "a", "a"]


class Growing(io.FileIO):
    """A file that grows once its end was read, as if another process wrote."""

    def __init__(self, path: Path, rest: bytes) -> None:
        super().__init__(path)
        self.path, self.rest = path, rest

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        if not count and self.rest:
            with io.FileIO(self.path, "ab") as file:
                file.write(self.rest)
            self.rest = b""
        return count


def test_a_line_that_is_written_while_it_is_read_is_read_later(path, monkeypatch):
    record(path, "one", "two", "three")
    written = path.read_bytes()
    begun = written.index(b"two") + 3
    path.write_bytes(written[:begun])
    index, growing = CallIndex([path]), Growing(path, written[begun:])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: io.BufferedReader(growing))
        texts(index)
    assert growing.rest == b""
    assert texts(index) == ["three", "two", "one"]


@pytest.mark.parametrize("gone", ["removed", "another version"])
def test_it_is_made_anew_where_it_is_gone(path, tmp_path, gone):
    record(path, "a", "b")
    assert texts(CallIndex([path])) == ["b", "a"]
    file = tmp_path / ".calls.jsonl.index"
    if gone == "removed":
        file.unlink()
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 99")
    assert texts(CallIndex([path])) == ["b", "a"]


def test_a_record_that_was_rotated_is_read_anew(path):
    record(path, "a", "b")
    index = CallIndex([path])
    assert texts(index) == ["b", "a"]
    path.rename(path.with_suffix(".1"))
    assert texts(index) == []
    record(path, "c", "d", "e")
    assert texts(index) == ["e", "d", "c"]


def test_calls_of_a_record_that_is_gone_are_gone(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    for name in ("a", "b", "c"):
        record(folder / f"{name}.jsonl", name)
    index = CallIndex([folder])
    assert texts(index) == ["c", "b", "a"]
    (folder / "a.jsonl").unlink()
    (folder / "c.jsonl").rename(folder / "d.jsonl")
    assert texts(index) == ["c", "b"]
    (found,) = [row for row in index.page(ALL, 9) if row.gist == "c"]
    assert found.path.name == "d.jsonl"


@pytest.mark.parametrize("damage", ["torn", "changed"])
def test_a_line_that_is_none_hides_no_other(path, tmp_path, damage):
    record(path, "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)[:4]
    copy = tmp_path / "copy.jsonl"
    index = CallIndex([copy])
    assert texts(index) == []
    if damage == "torn":
        copy.write_bytes(b"".join(lines)[:-20])
        assert texts(index) == ["b", "a"]
        copy.write_bytes(b"".join(lines))
    else:
        copy.write_bytes(b"".join([*lines[:2], b"{}\n", b"?\n", b'"call"\n', *lines[2:]]))
    assert texts(index) == ["c", "b", "a"]


def test_text_that_is_none_and_depth_without_end_are_listed(path):
    deep = "[" * 2000 + "]" * 2000
    with ExitStack() as stack:
        run = Run(path, stack)
        run.tools.dispatch(ToolCall("say", '{"text": "half \\ud800"}'))
        run.tools.dispatch(ToolCall("say", f'{{"text": {deep}}}'))
        run.say("c")
    rows = CallIndex([path]).page(ALL, 9)
    assert [row.status.value for row in rows] == ["succeeded", "invalid", "invalid"]


def test_nested_calls_are_those_of_their_own_run_though_ids_come_again(path):
    for text in ("a", "b"):
        with ExitStack() as stack:
            run = Run(path, stack)
            run.tools.dispatch(ToolCall("twice", {"text": text}, id="c1"))
    index = CallIndex([path])
    for outer in index.page(Filter(tool="twice"), 9):
        inner = index.nested_in(outer)
        assert [row.gist * 2 for row in inner] == [outer.gist] * 2
        assert [index.parent_of(row) for row in inner] == [outer] * 2
    assert index.last_of("s", "c1").gist == "bb"


LOOK = """
import sys
from pathlib import Path
from toolstile_plugins.console.call_index import CallIndex, Filter
index = CallIndex([Path(sys.argv[1])])
while len(rows := index.page(Filter(), 1000)) < int(sys.argv[2]):
    pass
print(*[row.gist for row in rows])
"""


@pytest.mark.slow
def test_several_consoles_share_it_while_calls_come(path):
    looking = [
        subprocess.Popen([sys.executable, "-c", LOOK, path, "300"], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    expected = [str(number) for number in range(300)]
    record(path, *expected)
    for process in looking:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out.decode().split() == expected[::-1]
