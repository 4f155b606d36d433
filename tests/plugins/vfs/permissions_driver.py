"""Calls tools on a directory and prints, as JSON, what a model reads of each.

A program of its own, since a test that runs as root has to be started without root's powers.
"""

from __future__ import annotations

import json
import logging
import sys

from toolstile import Host
from toolstile_hookspecs import MarkdownSection, Prompt, ToolCall, ToolContext, tool
from toolstile_plugins.vfs import VfsConfig, VfsToolsSection, VirtualFilesystem


@tool(contained=True)
def stranger(method: str, arguments: list[str], *, context: ToolContext) -> str:
    """Use the workspace as a tool that knows nothing of it."""
    files = context.filesystem
    assert files is not None
    return str(getattr(files, method)(*arguments))


def main() -> None:
    """Do what standard input says."""
    logging.disable()
    files = VirtualFilesystem.on_disk(sys.argv[1])
    section = VfsToolsSection(
        filesystem=files, policies=(), config=VfsConfig(confirm_deletes=False)
    )
    others = MarkdownSection(key="others", title="Others", tools=[stranger])
    with (
        Host(discover=False) as host,
        host.executor(prompt=Prompt.of("tests", "modes", (section, others))) as tools,
    ):
        told = [tools.dispatch(ToolCall(*each)).text for each in json.load(sys.stdin)]
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
