"""Forks at each line of a commit, and makes the next calls while the child lives.

A program of its own, since it forks. `lives FOLDER` lets the process go on that has forked,
`killed FOLDER` kills it with SIGKILL.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from toolstile import (
    Executor,
    Host,
    MarkdownSection,
    Prompt,
    Settings,
    StateError,
    ToolCall,
    ToolContext,
    tool,
)

COMMIT = "toolstile/pipeline/commit.py"
NO_SUCH_LINE = 7


@tool
def mark(name: str, *, context: ToolContext) -> str:
    """Leave a file."""
    assert context.filesystem is not None
    context.filesystem.write(name, name)
    return name


PROMPT = Prompt.of("t", "t", [MarkdownSection(key="s", title="S", tools=[mark])])


class AtLine:
    """Calls a function at a line of ours, counted from the first one of a commit."""

    def __init__(self, line: int, act: Callable[[], None]) -> None:
        self.left = line
        self.began = False
        self.act = act

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if "/toolstile" not in file:
            return None
        self.began = self.began or file.endswith(COMMIT)
        if event == "line" and self.began and self.left:
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                self.act()
        return self


def opened(folder: Path) -> Host:
    return Host(discover=["vfs"], settings=Settings(plugins={"vfs": {"root": str(folder)}})).open()


def call(tools: Executor, name: str) -> None:
    outcome = tools.dispatch(ToolCall("mark", {"name": name}))
    assert outcome.success, outcome.text


def wait_as_child(tools: Executor, until: int, done: int) -> None:
    """Wait beside the others, then say whether the parent's host is refused."""
    os.read(until, 1)
    try:
        call(tools, "child")
    except StateError:
        os.write(done, b"y")
    os._exit(0)


def call_and_fork(folder: Path, line: int, way: str, until: int, done: int) -> int:
    def fork() -> None:
        if os.fork() == 0:
            wait_as_child(tools, until, done)
        if way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

    at_line = AtLine(line, fork)
    tools = opened(folder).executor(prompt=PROMPT)
    sys.settrace(at_line)
    call(tools, "x")
    sys.settrace(None)
    if at_line.left:
        return NO_SUCH_LINE
    call(tools, "next")
    return 0


def check_line(folder: Path, line: int, way: str) -> bool:
    """Fork at a line, and call beside the child; tell whether there is such a line."""
    until, release = os.pipe()
    said, done = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(release)
        code = 1
        try:
            code = call_and_fork(folder, line, way, until, done)
        finally:
            os._exit(code)
    os.close(done)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code == NO_SUCH_LINE:
        return False
    assert code == (-signal.SIGKILL if way == "killed" else 0), (line, code)
    with opened(folder) as host, host.executor(prompt=PROMPT) as tools:
        call(tools, "after")
    files = {file.name for file in folder.iterdir()} - {".toolstile"}
    assert files - {"x"} == ({"after"} if way == "killed" else {"after", "next"}), (line, files)
    os.write(release, b".")
    assert os.read(said, 1) == b"y", line
    for descriptor in (until, release, said):
        os.close(descriptor)
    return True


def main(way: str, base: Path) -> None:
    signal.alarm(500)
    for line in count(1):
        folder = base / str(line)
        folder.mkdir()
        if not check_line(folder, line, way):
            break
    assert line > 100, line


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
