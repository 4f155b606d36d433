"""One of several processes that make calls on one stored session and one workspace.

Prints a line of JSON: how many calls conflicted and were made again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from toolstile import Host, Settings
from toolstile_hookspecs import (
    Binding,
    Filesystem,
    IdempotencyConfig,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.vfs.workspace import VirtualFilesystem


@stored_as("racing.Note")
@dataclass(frozen=True)
class Note:
    """An item that a call leaves in the session."""

    text: str


@tool(category="write", contained=True)
def count(text: str, *, context: ToolContext) -> str:
    """Count in a file that all processes read and write, and take a note."""
    files = context.filesystem
    assert files is not None
    number = int(files.read("count.txt")) + 1
    files.write("count.txt", str(number))
    context.session[Note].append(Note(text))
    return text


@tool(category="write", idempotency=IdempotencyConfig(scope="global"))
def add(text: str, *, context: ToolContext) -> str:
    """Write a file of its own, and take a note."""
    assert context.filesystem is not None
    context.filesystem.write(f"own/{text}.txt", text)
    context.session[Note].append(Note(text))
    return text


def main(folder: Path, name: str, calls: int) -> None:
    """Make the calls, each again as long as it conflicts."""
    file = folder / "state.db"
    tables = {"plugins": {"sessions": {"path": file}, "ledger": {"path": file}}}
    workspace = Binding[Filesystem](
        Filesystem,  # type: ignore[type-abstract]
        lambda resources: VirtualFilesystem.on_disk(folder / "work"),
    )
    conflicts = 0
    with (
        Host(
            settings=Settings.model_validate(tables),
            discover=["sessions", "ledger"],
            tools=[count, add],
            resources=[workspace],
        ) as host,
        host.executor(session_id="s") as tools,
    ):
        for number in range(calls):
            called = ToolCall("count" if number % 2 else "add", {"text": f"{name}-{number}"})
            while not (outcome := tools.dispatch(called)).success:
                assert outcome.status == Status.CONFLICT, outcome.text
                conflicts += 1
    sys.stdout.write(json.dumps(conflicts) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
