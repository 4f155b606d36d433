"""Runs a command over a workspace on disk, and kills itself at a step that it is told."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from toolstile import Host
from toolstile_hookspecs import MarkdownSection, Prompt, ToolCall
from toolstile_plugins.sandbox import SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.sandbox.tool import shell_tool
from toolstile_plugins.vfs.backends.disk.store import DiskStore
from toolstile_plugins.vfs.section import workspace_binding
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.workspace import VirtualFilesystem


def main() -> None:
    """Run the script that is given, and tell each step before it is taken."""
    root, scratch, script, fatal = sys.argv[1:]

    def steps(step: str) -> None:
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = SandboxSettings(scratch=Path(scratch))
    files = VirtualFilesystem(DiskStore(root, steps=steps))
    section = MarkdownSection(
        key="shell",
        title="Shell",
        tools=[shell_tool(settings, backend_of(settings), steps=steps)],
        resources=[workspace_binding(VfsConfig(), files)],
    )
    with (
        Host(discover=False) as host,
        host.executor(prompt=Prompt.of("tests", "kills", (section,))) as executor,
    ):
        call = ToolCall("shell_execute", {"command": ["sh", "-c", script]})
        outcome = executor.dispatch(call)
        assert outcome.result.success, outcome.text


if __name__ == "__main__":
    main()
