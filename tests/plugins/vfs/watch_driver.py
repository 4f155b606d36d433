"""Watches a workspace, or makes calls on one, in a process of its own.

`FOLDER watch`, `FOLDER call`, or `FOLDER count TIMES SECONDS`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from toolstile import Host, Settings, ToolCall, ToolContext, tool
from toolstile_hookspecs import ConflictError
from toolstile_plugins.vfs.workspace import VirtualFilesystem


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def watch(root: Path) -> None:
    branch = VirtualFilesystem.on_disk(root).branch(ToolContext(session=None), None)
    mark = branch.resource.watch()
    say("watching")
    sys.stdin.readline()
    told = "marked" if mark.marked else "not marked"
    try:
        branch.prepare()
    except ConflictError as error:
        told += f", then {type(error).__name__}"
    say(told)


@tool(contained=True)
def count(*, context: ToolContext) -> int:
    """Add one to the number, slowly."""
    files = context.filesystem
    assert files is not None
    number = int(files.read("n"))
    if "call" in sys.argv:
        say(f"read {number}")
        sys.stdin.readline()
    else:
        time.sleep(float(sys.argv[4]))
    files.write("n", str(number + 1))
    return number


def call(root: Path, times: int) -> None:
    settings = Settings(plugins={"vfs": {"root": str(root)}})
    with (
        Host(discover=["vfs"], settings=settings, tools=[count]) as host,
        host.executor() as executor,
    ):
        outcomes = [executor.dispatch(ToolCall("count")) for _ in range(times)]
    failed = [each.text for each in outcomes if not each.success]
    say("; ".join(failed) or "succeeded")


if __name__ == "__main__":
    folder, mode, *rest = sys.argv[1:]
    if mode == "watch":
        watch(Path(folder))
    else:
        call(Path(folder), int(rest[0]) if rest else 1)
