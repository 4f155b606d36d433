"""The handler of `shell_execute`: lays out, runs, harvests."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from toolstile_hookspecs import Filesystem, ToolContext, ToolError, ToolResult
from toolstile_hookspecs.services.workspace import (
    SupportsAttachments,
    SupportsLayers,
    SupportsWatch,
    WorkspaceLayers,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.sandbox.backend import (
    Backend,
    Command,
    CommandResult,
    Ended,
    SandboxUnavailable,
    ShellParams,
    WholeOutput,
)
from toolstile_plugins.sandbox.layout import (
    Harvest,
    HarvestError,
    entries_of,
    entries_since,
    known_of,
    lay_out_copy,
    lay_out_layers,
)
from toolstile_plugins.sandbox.process import CommandRun
from toolstile_plugins.sandbox.scratch import Scratch, base_of
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import shown
from toolstile_plugins.vfs.protected_paths import outside_repository
from toolstile_plugins.vfs.tools.checks import reason_of
from toolstile_plugins.vfs.tools.models import size_of

RUNS: Final[dict[int, CommandRun]] = {}
"""The running commands, and cancelled ones until their calls are rolled back."""
NOT_RUN: Final = (
    "The command was not run: no sandbox for it can be made on this machine. This requires human "
    "intervention."
)
"""The message for a model whose commands cannot run; the operator reads the reason."""


Steps = Callable[[str], None]
"""Called before each step of a command; tests end the process there."""


@dataclass(frozen=True)
class Shell:
    """Runs the commands of one tool."""

    _settings: SandboxSettings
    _backend: Backend
    _steps: Steps

    def execute(self, params: ShellParams, *, context: ToolContext) -> ToolResult[CommandResult]:
        """Run a command over the workspace of a call, and make its changes the call's."""
        files = context.filesystem
        if files is None:
            raise ToolError(
                "Commands need a workspace, and none is here. This requires human intervention.",
                for_operator="Add [plugins.vfs] to the configuration.",
            )
        try:
            cwd = paths.canonical(params.cwd or "")
            kind = files.stat(cwd).kind if cwd else "directory"
        except (OSError, ValueError) as error:
            raise ToolError(f"cwd: {reason_of(error)}") from error
        if kind != "directory":
            told = f"cwd: {cwd} is not a directory of the workspace. Choose one, then retry."
            return ToolResult.error(told)
        run = RUNS[id(context)] = CommandRun(self._command(params, cwd, context), self._backend)
        forget = context.on_abandoned(run.kill)
        context.set_attribute("sandbox.backend", self._backend.name)
        try:
            return self._run(params, run, files)
        except SandboxUnavailable as error:
            raise ToolError(NOT_RUN, for_operator=str(error)) from error
        except HarvestError as error:
            return ToolResult.error(str(error))
        finally:
            forget()
            if not run.is_killed:
                RUNS.pop(id(context), None)

    def _run(
        self, params: ShellParams, run: CommandRun, files: Filesystem
    ) -> ToolResult[CommandResult]:
        self._steps("laying out")
        if isinstance(files, SupportsWatch):
            # Before the workspace is laid out, because the reads of the command are unknown.
            files.watch()
        settings = self._settings
        layers = files.layers() if isinstance(files, SupportsLayers) else WorkspaceLayers()
        try:
            scratch = Scratch(base_of(settings.scratch, settings.disk, layers.directory))
            if self._backend.mounts:
                layout = lay_out_layers(files, scratch, settings.hidden)
                entries = partial(entries_of, layout.upper)
            else:
                layout = lay_out_copy(files, scratch, settings.hidden)
                entries = partial(entries_since, layout.upper, known_of(layout.upper))
        except OSError as error:
            raise SandboxUnavailable(f"The workspace cannot be laid out: {error}") from error
        self._steps("starting")
        ended = run.run(layout, self._steps)
        self._steps("harvesting")
        harvest = Harvest(files, layout)
        if ended.too_large or (ended.exit_code and settings.on_exit == "fail"):
            return ToolResult.error(self._result(params, ended, harvest, files).render())
        found = list(entries())
        if (written := sum(entry.size for entry in found)) > settings.disk:
            # A command may end before a check of its size, or write more after the last one.
            raise HarvestError(
                f"The command has written {size_of(written)} into the workspace, where "
                f"{size_of(settings.disk)} are allowed, so none of its changes were kept. "
                "Write less in one command, then retry."
            )
        harvest.take(found)
        self._steps("harvested")
        result = self._result(params, ended, harvest, files)
        return ToolResult.ok(result, message=f"{shlex.join(params.command)} has run.")

    def _command(self, params: ShellParams, cwd: str, context: ToolContext) -> Command:
        seconds = min(max(params.timeout_seconds, 1), self._settings.max_seconds)
        if context.deadline is not None:
            seconds = min(seconds, context.deadline.remaining())
        return Command(
            params.command,
            cwd,
            {**self._settings.environment, **params.env},
            (params.stdin or "").encode(),
            seconds,
            self._settings,
        )

    def _result(
        self, params: ShellParams, ended: Ended, harvest: Harvest, files: Filesystem
    ) -> CommandResult:
        notes = list(ended.notes)
        if ended.timed_out:
            notes.append(
                f"It was killed after {counted(round(ended.seconds, 1), 'second')}, with all that "
                "it had started. Give it more time with timeout_seconds, or less to do."
            )
        if harvest.left_out:
            named = ", ".join(f"{path!a} ({what})" for path, what in harvest.left_out.items())
            notes.append(f"Left out, as only processes that run need it: {named}.")
        if harvest.closed:
            named = shown(harvest.closed)
            notes.append(
                f"Shown as empty, and left as they are: {named}: this user cannot read them."
            )
        if _lacks_repository(files, ended):
            notes.append(
                "git failed because this workspace is a linked worktree or a submodule: its "
                "repository is outside, where commands cannot write. Continue without git, and "
                "leave the commit to a person."
            )
        captured = params.capture_output
        texts = dict.fromkeys(("stdout", "stderr"), "")
        whole: list[WholeOutput] = []
        for name in texts if captured else ():
            output, path = getattr(ended, name), ""
            if output.whole and isinstance(files, SupportsAttachments):
                content = output.whole.decode(errors="replace").encode()
                path = files.attach(content, f".{name}.txt")
                whole.append(WholeOutput(name, path, len(content)))
            texts[name] = output.text(path)
        return CommandResult(
            params.command,
            (params.cwd or ""),
            ended.exit_code,
            texts["stdout"],
            texts["stderr"],
            round(ended.seconds * 1000),
            ended.timed_out,
            tuple(harvest.changed),
            harvest.count,
            self._backend.name,
            tuple(notes),
            captured,
            tuple(whole),
        )


def _lacks_repository(files: Filesystem, ended: Ended) -> bool:
    """Return whether a command failed because git's repository is outside of the workspace."""
    directory = files.layers().directory if isinstance(files, SupportsLayers) else None
    if not ended.exit_code or directory is None:
        return False
    repository = outside_repository(Path(directory))
    told = ended.stderr.text()
    return repository is not None and ("not a git repository" in told or str(repository) in told)
