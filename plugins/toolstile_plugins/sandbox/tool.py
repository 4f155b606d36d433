"""The tool `shell_execute`, and the section that offers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from toolstile_hookspecs import (
    MarkdownSection,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolPolicy,
    ToolResult,
)
from toolstile_plugins.sandbox.backend import Backend, backend_of
from toolstile_plugins.sandbox.result import CommandResult, ShellParams
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
- Of long outputs the middle is left out. The path at which the file tools read it stands there; \
it can be read until the session ends.
"""
_SANDBOXED: Final = """\
- There is no network, and outside of the workspace nothing can be changed but `/tmp`, which is \
empty at each command.
- Move directories with `mv`, which copies those that an earlier command has left. Programs that \
can only rename say `Invalid cross-device link`; for `git mv a b` write `mv a b && git add -A`.
"""


class ShellSection(MarkdownSection):
    """The tool for commands, with guidance on how to use it.

    Args:
        session: Unused; other suites keep their state in it.
        config: The settings of the sandbox.
        accepts_overrides: Whether the tool's description may be overridden.
        policies: The rules over the tool.

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
        policies: Sequence[ToolPolicy] = (),
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
            policies=tuple(policies),
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

    def execute(params: ShellParams, *, context: ToolContext) -> ToolResult[CommandResult]:
        # Late: whoever lists tools has no use for the workspace.
        from toolstile_plugins.sandbox.shell import Shell

        return Shell(settings, backend, steps).execute(params, context=context)

    return Tool[ShellParams, CommandResult](
        name="shell_execute",
        description=_CONTAINED if backend.contained else _UNCONTAINED,
        handler=execute,
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
