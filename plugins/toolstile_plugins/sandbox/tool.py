"""The tools `shell_execute` and `container_python`, and the sections that offer them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from toolstile_hookspecs import (
    MarkdownSection,
    Section,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolPolicy,
    ToolResult,
)
from toolstile_plugins.sandbox.backend import Backend, CommandResult, ShellParams, Text, backend_of
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.sandbox.uncontained import NOT_CONTAINED

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.podman.container import PodmanConfig
    from toolstile_plugins.sandbox.shell import Steps
    from toolstile_plugins.vfs.settings import VfsConfig


# --- Commands


_CONTAINED: Final = "Run a command in the workspace, in a sandbox without network."
_UNCONTAINED: Final = "Run a command in a copy of the workspace; nothing else contains it."
_GUIDANCE: Final = """\
`shell_execute` runs a command in the workspace, which it sees at `/workspace`.

- `command` is a list of words, which no shell reads. For pipes, variables or several commands run \
a shell: `["sh", "-c", "grep -rn TODO src | head"]`.
- The changes of a command are changes of the call: all are kept, or none.
- An exit code other than 0 {exit}.
- All processes end with their command: nothing runs on in the background.
- Of long outputs the middle is left out. A path in its place shows where to read it until the \
session ends.
"""
_SANDBOXED: Final = """\
- Commands have no network. Outside of the workspace only `/tmp` can be changed, which is empty \
at each command.
- Move directories with `mv`, which can copy directories of earlier commands. Programs that can \
only rename say `Invalid cross-device link`; for `git mv a b` write `mv a b && git add -A`.
"""


class ShellSection(MarkdownSection):
    """The tool for commands, with guidance on how to use it.

    Args:
        session: Unused; other sections keep their state in it.
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
        kept = "does not fail the call, and the changes are kept"
        if config.on_exit == "fail":
            kept = "fails the call, and no change is kept"
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
    """Return `shell_execute` over a backend; `steps` is called before each step of a command."""

    def execute(params: ShellParams, *, context: ToolContext) -> ToolResult[CommandResult]:
        return _run(params, settings, backend, context, steps)

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


def _run(
    params: ShellParams,
    settings: SandboxSettings,
    backend: Backend,
    context: ToolContext,
    steps: Steps = lambda step: None,  # noqa: ARG005 - does nothing
) -> ToolResult[CommandResult]:
    # Late, because listing tools does not need the workspace.
    from toolstile_plugins.sandbox.shell import Shell

    return Shell(settings, backend, steps).execute(params, context=context)


# --- Files, commands and Python in containers


Part = Literal["files", "shell", "python"]

PARTS: Final[tuple[Part, ...]] = ("files", "shell", "python")
_OUTPUT: Final = 4096
_ABOUT: Final = "Run a Python script in the workspace, in a container without network."
_GUIDANCE_OF_CONTAINERS: Final = """\
Commands and scripts run in a container, one for each call, which sees the workspace at \
`/workspace`; the file tools work on the same files.
"""
_GUIDANCE_OF_PYTHON: Final = """
`container_python` runs a short script with the Python of the container. Print the facts that \
you need. A script that fails changes nothing.
"""


@dataclass(frozen=True, slots=True)
class ContainerPython:
    """Run a Python script in the container."""

    code: Annotated[Text, Field(min_length=1, max_length=20_000)]
    """The script; print its results."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 5
    """Seconds after which it is killed."""


class PodmanSandboxSection(MarkdownSection):
    """Tools for files, commands and Python, over one workspace, in containers.

    Args:
        session: Unused; other sections keep their state in it.
        config: The settings of containers.
        sandbox: The limits of commands, and the other settings of the sandbox.
        workspace: The settings of the workspace and of the file tools, whose rule is
            `ReadBeforeWritePolicy`.
        policies: The rules over all of the tools; None for `ReadBeforeWritePolicy` over the files.
        parts: The parts to offer: without `files` it fits beside a `VfsToolsSection`, without
            `shell` beside a `ShellSection`.

    Raises:
        ConfigurationError: The settings do not fit together.

    Example:
        >>> from toolstile_plugins.sandbox import PodmanConfig
        >>> section = PodmanSandboxSection(config=PodmanConfig(image="localhost/tools:1"))
        >>> [child.title for child in section.children], [tool.name for tool in section.tools]
        (['Workspace', 'Commands'], ['container_python'])
    """

    def __init__(  # noqa: PLR0913 - the settings of its three parts
        self,
        session: SessionProtocol | None = None,  # noqa: ARG002 - the shape of all suites
        *,
        config: PodmanConfig,
        sandbox: SandboxSettings | None = None,
        workspace: VfsConfig | None = None,
        policies: Sequence[ToolPolicy] | None = None,
        parts: Collection[Part] = PARTS,
    ) -> None:
        options = {"backend": "podman", "options": config.model_dump()}
        settings = (sandbox or SandboxSettings()).model_copy(update=options)
        children: list[Section] = []
        if "files" in parts:
            # Late, because most sections have no file tools.
            from toolstile_plugins.vfs.section import VfsToolsSection

            children.append(VfsToolsSection(config=workspace, policies=policies))
        if "shell" in parts:
            children.append(ShellSection(config=settings, policies=policies or ()))
        python = "python" in parts
        super().__init__(
            key="container",
            title="Container",
            template=_GUIDANCE_OF_CONTAINERS + (_GUIDANCE_OF_PYTHON if python else ""),
            tools=(python_tool(settings),) if python else (),
            policies=tuple(policies or ()),
            children=tuple(children),
        )


def python_tool(settings: SandboxSettings) -> Tool[ContainerPython, CommandResult]:
    """Return `container_python` over the backend of some settings."""
    settings = settings.model_copy(update={"on_exit": "fail", "output": _OUTPUT})
    backend = backend_of(settings)

    def execute(params: ContainerPython, *, context: ToolContext) -> ToolResult[CommandResult]:
        words = ("python3", "-c", params.code)
        command = ShellParams(words, timeout_seconds=params.timeout_seconds)
        result = _run(command, settings, backend, context)
        return replace(result, message="The script has run.") if result.success else result

    return Tool[ContainerPython, CommandResult](
        name="container_python",
        description=_ABOUT,
        handler=execute,
        category="side_effect",
        consequence="high",
        contained=backend.contained,
        timeout=None,
        tags=("shell",),
    )
