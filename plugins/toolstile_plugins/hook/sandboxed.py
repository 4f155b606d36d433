"""Commands of an agent in our sandbox, on a branch of the workspace: only a success lands."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import HostHandle, Severity, ToolstileError
from toolstile_hookspecs.execution.undo import UndoNote
from toolstile_plugins.hook.protection import Protection
from toolstile_plugins.hook.settings import HookSettings
from toolstile_plugins.hook.watch import land
from toolstile_plugins.sandbox import SandboxSettings
from toolstile_plugins.sandbox.backend import Command, SandboxUnavailable, ShellParams, backend_of
from toolstile_plugins.sandbox.layout import HarvestError
from toolstile_plugins.sandbox.shell import CommandRun, Shell
from toolstile_plugins.undo import UndoStore
from toolstile_plugins.vfs.workspace import VirtualFilesystem

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.backend import Backend

_MOST: Final = 64 * 1024 * 1024
"""The bytes of each output; the agent itself shortens it."""
_FAILED: Final = 1
_LOST: Final = "The command failed, so none of its changes were kept."
_GOVERNS: Final = "The command changed {}, which is protected, so none of its changes were kept."
_MISSING: Final = "Commands run in a sandbox alone, and none can be made: {} Tell the user."


def sandboxed(
    arguments: Mapping[str, Any], workspace: Path, folder: str, note: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a command with a line that runs it in the sandbox."""
    ours = [sys.executable, "-I", "-m", "toolstile", "hook", "sandbox", folder, json.dumps(note)]
    line = f"cd {shlex.quote(str(workspace))} && exec {shlex.join([*ours, arguments['command']])}"
    return {**arguments, "command": f"({line})"}


def fault_of(host: HostHandle) -> str:
    """Return why no command can run in a sandbox here, with the remedy; empty if it can."""
    _, backend = _sandbox(host)
    worst = Severity.ERROR if backend.contained else Severity.WARNING
    wrong = next((each for each in backend.findings() if each.severity is worst), None)
    return _MISSING.format(f"{wrong.text} {wrong.remedy}") if wrong else ""


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Run a command in the sandbox; return its exit code, after its changes have landed."""
    root, (settings, backend) = Path.cwd(), _sandbox(host)
    params = ShellParams(("bash", "-c", args.line))
    folder, seconds = os.path.relpath(args.folder, root), settings.max_seconds
    command = Command(
        params.command, folder, settings.environment, b"", seconds, settings, str(root)
    )
    branch = VirtualFilesystem.on_disk(root).own_branch()
    why = ""
    try:
        shell = Shell(settings, backend, lambda _: None)
        result = shell.over(params, CommandRun(command, backend), branch.resource)
        code = getattr(result.value, "exit_code", _FAILED)
        sys.stdout.write(getattr(result.value, "stdout", ""))
        sys.stdout.flush()
        sys.stderr.write(getattr(result.value, "stderr", result.message))
        protected = HookSettings.model_validate(host.settings("hook") or {}).protected
        if code:
            why = _LOST
        elif governs := [*_governing(Protection(host, root, protected), branch.resource, root)]:
            code, why = _FAILED, _GOVERNS.format(", ".join(governs))
        else:
            undo, at = UndoStore(host.settings("undo")), datetime.now(UTC)
            until = at + timedelta(seconds=undo.settings.keep)
            land(branch, undo, UndoNote(**json.loads(args.note), at=at, until=until))
    except (HarvestError, OSError, SandboxUnavailable, ToolstileError) as error:
        code, why = _FAILED, f"Nothing of the command was kept: {error}"
    if why:
        branch.rollback()
        sys.stderr.write(f"{why}\n")
    return int(code)


def _sandbox(host: HostHandle) -> tuple[SandboxSettings, Backend]:
    found: SandboxSettings = host.settings("sandbox") or SandboxSettings()
    # The branch of a failed command is dropped here.
    settings = found.model_copy(update={"on_exit": "keep", "output": _MOST})
    return settings, backend_of(settings)


def _governing(protection: Protection, files: Any, root: Path) -> Iterator[str]:
    """Yield the protected paths that a branch changes, removed directories and all in them."""
    for path, is_whole in files.layers().changed.items():
        place = root / path
        beneath = place.rglob("*") if is_whole and not place.is_symlink() else ()
        if protection.names(place) or any(map(protection.names, beneath)):
            yield path
