"""The tool `shell_execute`, and the section that offers it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from toolstile_hookspecs import (
    Filesystem,
    MarkdownSection,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
)
from toolstile_hookspecs.services.watches import SupportsWatch
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.sandbox.backend import Backend, SandboxUnavailable, backend_of
from toolstile_plugins.sandbox.command import Command, Ended, Limits
from toolstile_plugins.sandbox.entries import Entry, entries_of, entries_since, known_of
from toolstile_plugins.sandbox.harvest import Harvest, HarvestError
from toolstile_plugins.sandbox.layout import Layout, lay_out_copy, lay_out_layers
from toolstile_plugins.sandbox.limits import cgroups_of, remove_cgroups
from toolstile_plugins.sandbox.process import CommandRun
from toolstile_plugins.sandbox.result import CommandResult, ShellParams
from toolstile_plugins.sandbox.scratch import Scratch, base_of, sweep
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.sandbox.uncontained import NOT_CONTAINED

Steps = Callable[[str], None]

_CONTAINED: Final = "Run a command in the workspace, in a sandbox without network."
_UNCONTAINED: Final = "Run a command in a copy of the workspace; nothing else contains it."
_GUIDANCE: Final = """\
`shell_execute` runs a command in the workspace, which it sees at `/workspace`.

- `command` is a list of words, which no shell reads. For pipes, variables or several commands run \
a shell: `["sh", "-c", "grep -rn TODO src | head"]`.
- What a command changes becomes a change of the call: it is kept as a whole, or not at all.
- An exit code other than 0 {exit}.
- Processes end with their command: nothing goes on in the background.
- Of long outputs the middle is left out. Write them to a file and read the part you need.
"""
_SANDBOXED: Final = """\
- There is no network, and outside of the workspace nothing can be changed but `/tmp`, which is \
empty at each command.
"""


class ShellSection(MarkdownSection):
    """The tool for commands, with guidance on how to use it.

    Args:
        session: Unused; other suites keep their state in it.
        config: The settings of the sandbox.
        accepts_overrides: Whether the tool's description may be overridden.

    Example:
        >>> [tool.name for tool in ShellSection().tools]
        ['shell_execute']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,  # noqa: ARG002 - the shape of all suites
        *,
        config: SandboxSettings | None = None,
        accepts_overrides: bool = True,
    ) -> None:
        config = config or SandboxSettings()
        backend = backend_of(config)
        kept = "is no failure, and its changes are kept"
        if config.on_exit == "fail":
            kept = "fails the call, and nothing of it is kept"
        rest = _SANDBOXED if backend.contained else f"- {NOT_CONTAINED}\n"
        super().__init__(
            key="shell",
            title="Commands",
            template=_GUIDANCE.format(exit=kept) + rest,
            tools=(shell_tool(config, backend, accepts_overrides=accepts_overrides),),
            accepts_overrides=accepts_overrides,
        )


def shell_tool(
    settings: SandboxSettings,
    backend: Backend,
    *,
    accepts_overrides: bool = True,
    steps: Steps = lambda step: None,  # noqa: ARG005 - does nothing
) -> Tool[ShellParams, CommandResult]:
    """Return `shell_execute` over a backend.

    Args:
        settings: The settings of the sandbox.
        backend: What runs the commands.
        accepts_overrides: Whether its description may be overridden.
        steps: Called before each step of a command; for tests that end the process there.
    """
    return Tool[ShellParams, CommandResult](
        name="shell_execute",
        description=_CONTAINED if backend.contained else _UNCONTAINED,
        handler=Shell(settings, backend, steps).execute,
        category="side_effect",
        consequence="high",
        contained=backend.contained,
        timeout=None,
        tags=("shell",),
        accepts_overrides=accepts_overrides,
        examples=(
            ToolExample(
                "Run the tests of one directory",
                ShellParams(("python3", "-m", "pytest", "-q", "tests")),
                CommandResult(
                    ("python3", "-m", "pytest", "-q", "tests"), "", 0, "3 passed", "", 840
                ),
            ),
        ),
    )


class Shell:
    """Runs the commands of one tool.

    Args:
        settings: The settings of the sandbox.
        backend: What runs them.
        steps: Called before each step of a command.
    """

    def __init__(self, settings: SandboxSettings, backend: Backend, steps: Steps) -> None:
        self._settings = settings
        self._backend = backend
        self._steps = steps

    def execute(self, params: ShellParams, *, context: ToolContext) -> ToolResult[CommandResult]:
        """Run a command over the workspace of a call, and take over what it changed."""
        files = context.filesystem
        if files is None:
            return ToolResult.error(
                "There is no workspace for commands to run in. This requires human intervention: "
                "[plugins.vfs] in the configuration."
            )
        cwd = (params.cwd or "").strip("/").removeprefix("./")
        if fault := _fault_of_directory(files, cwd):
            return ToolResult.error(fault)
        run = CommandRun(self._command(params, cwd, context), self._backend)
        forget = context.on_abandoned(run.kill)
        context.set_attribute("sandbox.backend", self._backend.name)
        try:
            return self._run(params, run, files)
        except SandboxUnavailable as error:
            return ToolResult.error(f"{error} This requires human intervention.")
        except HarvestError as error:
            return ToolResult.error(str(error))
        finally:
            forget()

    def _run(
        self, params: ShellParams, run: CommandRun, files: Filesystem
    ) -> ToolResult[CommandResult]:
        self._steps("laying out")
        if isinstance(files, SupportsWatch):
            # Before anything is laid out: what the command reads is not seen.
            files.watch()
        layout, entries = self._lay_out(files)
        self._steps("starting")
        ended = run.run(layout, self._steps)
        self._steps("harvesting")
        harvest = Harvest(files, layout)
        if ended.exit_code and self._settings.on_exit == "fail":
            return ToolResult.error(self._result(params, ended, harvest).render())
        harvest.take(entries())
        self._steps("harvested")
        result = self._result(params, ended, harvest)
        return ToolResult.ok(result, message=f"{shlex.join(params.command)} has run.")

    def _lay_out(self, files: Filesystem) -> tuple[Layout, Callable[[], Iterator[Entry]]]:
        """Return the workspace laid out, and what finds the changes in it."""
        scratch = Scratch(base_of(self._settings.scratch, self._settings.disk))
        if self._backend.mounts:
            layout = lay_out_layers(files, scratch, self._settings.hidden)
            return layout, partial(entries_of, layout.upper)
        layout = lay_out_copy(files, scratch, self._settings.hidden)
        return layout, partial(entries_since, layout.upper, known_of(layout.upper))

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
            Limits.of(self._settings),
        )

    def _result(self, params: ShellParams, ended: Ended, harvest: Harvest) -> CommandResult:
        notes = list(ended.notes)
        if ended.timed_out:
            notes.append(
                f"It was killed after {counted(round(ended.seconds, 1), 'second')}, with all that "
                "it had started. Give it more time with timeout_seconds, or less to do."
            )
        if harvest.left_out:
            named = ", ".join(f"{path!a} ({what})" for path, what in harvest.left_out.items())
            notes.append(f"Left out, as only processes that run need it: {named}.")
        captured = params.capture_output
        return CommandResult(
            params.command,
            (params.cwd or ""),
            ended.exit_code,
            ended.stdout.text() if captured else "",
            ended.stderr.text() if captured else "",
            round(ended.seconds * 1000),
            ended.timed_out,
            tuple(harvest.changed),
            harvest.count,
            self._backend.name,
            tuple(notes),
            captured,
        )


def clear_up(settings: SandboxSettings) -> None:
    """Remove what hosts have left that were killed: directories and cgroups."""
    with suppress(OSError):
        for name in sweep(base_of(settings.scratch, settings.disk)):
            remove_cgroups(cgroups_of(name))


def _fault_of_directory(files: Filesystem, cwd: str) -> str | None:
    try:
        kind: Any = files.stat(cwd).kind if cwd else "directory"
    except (OSError, ValueError) as error:
        return f"cwd: {error}"
    if kind != "directory":
        return f"cwd: {cwd} is no directory of the workspace. Choose one, then retry."
    return None
