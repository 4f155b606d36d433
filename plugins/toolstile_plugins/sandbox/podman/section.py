"""Files, commands and Python in containers, as one section."""

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
    ToolPolicy,
    ToolResult,
)
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.sandbox.podman.settings import PodmanConfig
from toolstile_plugins.sandbox.result import CommandResult, ShellParams, Text
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.sandbox.tool import ShellSection

if TYPE_CHECKING:
    from toolstile_plugins.vfs.settings import VfsConfig

Part = Literal["files", "shell", "python"]

PARTS: Final[tuple[Part, ...]] = ("files", "shell", "python")
_OUTPUT: Final = 4096
_ABOUT: Final = "Run a Python script in the workspace, in a container without network."
_GUIDANCE: Final = """\
Commands and scripts run in a container, one for each call, which sees the workspace at \
`/workspace`; the file tools work on the same files.
"""
_GUIDANCE_OF_PYTHON: Final = """
`container_python` runs a short script with the Python of the container. Print what you want to \
know. A script that fails changes nothing.
"""


@dataclass(frozen=True, slots=True)
class ContainerPython:
    """Run a Python script in the container."""

    code: Annotated[Text, Field(min_length=1, max_length=20_000)]
    """The script; print what is to be known."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 5
    """Seconds after which it is killed."""


class PodmanSandboxSection(MarkdownSection):
    """Tools for files, commands and Python, over one workspace, in containers.

    Args:
        session: Unused; other suites keep their state in it.
        config: The settings of containers.
        sandbox: The limits of commands, and the other settings of the sandbox.
        workspace: The settings of the workspace and of the file tools, whose rule is
            `ReadBeforeWritePolicy`.
        policies: The rules over all of the tools; None for `ReadBeforeWritePolicy` over the files.
        parts: The parts to offer: without `files` it fits beside a `VfsToolsSection`, without
            `shell` beside a `ShellSection`.

    Raises:
        ConfigurationError: When the settings do not fit together.

    Example:
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
            # Late: beside other file tools nobody waits for these.
            from toolstile_plugins.vfs.section import VfsToolsSection

            children.append(VfsToolsSection(config=workspace, policies=policies))
        if "shell" in parts:
            children.append(ShellSection(config=settings, policies=policies or ()))
        python = "python" in parts
        super().__init__(
            key="container",
            title="Container",
            template=_GUIDANCE + (_GUIDANCE_OF_PYTHON if python else ""),
            tools=(python_tool(settings),) if python else (),
            policies=tuple(policies or ()),
            children=tuple(children),
        )


def python_tool(settings: SandboxSettings) -> Tool[ContainerPython, CommandResult]:
    """Return `container_python` over the backend of some settings."""
    settings = settings.model_copy(update={"on_exit": "fail", "output": _OUTPUT})
    backend = backend_of(settings)

    def execute(params: ContainerPython, *, context: ToolContext) -> ToolResult[CommandResult]:
        # Late: whoever lists tools has no use for the workspace.
        from toolstile_plugins.sandbox.shell import Shell

        words = ("python3", "-c", params.code)
        command = ShellParams(words, timeout_seconds=params.timeout_seconds)
        result = Shell(settings, backend, lambda step: None).execute(command, context=context)  # noqa: ARG005 - does nothing
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
