"""The file tools as a section."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Final

from toolstile_hookspecs import (
    Binding,
    Filesystem,
    MarkdownSection,
    ResourceError,
    SessionProtocol,
    ToolPolicy,
)
from toolstile_plugins.policies import ReadBeforeWritePolicy
from toolstile_plugins.vfs.backends.base import MemoryStore, Store
from toolstile_plugins.vfs.backends.mounts import MountedStore, Source
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.tools import file_tools
from toolstile_plugins.vfs.tools.models import size_of
from toolstile_plugins.vfs.workspace import VirtualFilesystem

_GUIDANCE: Final = """\
Use these tools to look at and change the files of the workspace.

**Paths** are relative to its root and written with `/`, such as `src/main.py`.

**Looking**

- `list_directory` shows a directory, `glob_files` finds files by their paths, `grep_files` finds \
lines by their text.
- `read_file` shows a text file; of a long one, read the lines you need with `offset` and `limit`.
- Long answers are cut at a line and say how to get the rest.

**Changing**

- Read a file before you change, replace or delete it, and again when it has changed since.
- For a change within a file use `edit_file`. `old_text` must match exactly; give enough of it to \
be there once.
- `write_file` writes a whole file. To replace an existing file, set `overwrite=true`.
- A call that fails changes nothing. Follow its message, then retry.
"""


def open_workspace(config: VfsConfig) -> VirtualFilesystem:
    """Return the workspace of a configuration, for the caller to close.

    Raises:
        ResourceError: Its directory or a mount cannot be opened; names the remedy.

    Example:
        >>> open_workspace(VfsConfig()).list()
        []
    """
    store: Store = MemoryStore()
    if config.root is not None:
        # Late: a platform without directory descriptors has workspaces in memory.
        from toolstile_plugins.vfs.backends.disk.store import DiskStore

        try:
            store = DiskStore(config.root, durability=config.durability)
        except OSError as error:
            raise ResourceError(
                f"The workspace cannot be opened: {str(error).rstrip('.')}. It is named with "
                "plugins.vfs.root or --workspace."
            ) from error
    if config.mounts or config.readonly:
        # Nothing stays open on a failure.
        with ExitStack() as opened:
            opened.callback(store.close)
            sources = [opened.enter_context(closing(Source(mount))) for mount in config.mounts]
            store = MountedStore(store, sources, readonly=config.readonly)
            opened.pop_all()
    return VirtualFilesystem(store, config.protected, config.unprotected)


def workspace_binding(
    config: VfsConfig, filesystem: Filesystem | None = None
) -> Binding[Filesystem]:
    """Return the binding that gives handlers their workspace; an existing one stays open."""
    # A protocol serves as the key, which mypy does not foresee for type[T].
    if filesystem is not None:
        return Binding[Filesystem].instance(Filesystem, filesystem)  # type: ignore[type-abstract]
    return Binding[Filesystem](
        Filesystem,  # type: ignore[type-abstract]
        lambda resources: open_workspace(config),  # noqa: ARG005 - needs no other
    )


class VfsToolsSection(MarkdownSection):
    """Tools for the files of a workspace, with guidance on how to use them.

    Args:
        session: Unused; other sections keep their state in it.
        config: The settings of the workspace, and the limits of the tools.
        filesystem: An existing workspace, instead of a new one.
        policies: The rules over the tools; None for `ReadBeforeWritePolicy`, `()` for none.
        accepts_overrides: Whether the tools' descriptions may be overridden.

    Example:
        >>> [tool.name for tool in VfsToolsSection().tools][:2]
        ['list_directory', 'read_file']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,  # noqa: ARG002 - the shape of all suites
        *,
        config: VfsConfig | None = None,
        filesystem: Filesystem | None = None,
        policies: Sequence[ToolPolicy] | None = None,
        accepts_overrides: bool = True,
    ) -> None:
        config = config or VfsConfig()
        super().__init__(
            key="workspace",
            title="Workspace",
            template=guidance(config),
            tools=file_tools(config, accepts_overrides=accepts_overrides),
            policies=(ReadBeforeWritePolicy(),) if policies is None else tuple(policies),
            resources=(workspace_binding(config, filesystem),),
        )


def guidance(config: VfsConfig) -> str:
    """Return the section's text, with the limits of this workspace."""
    notes = [f"- Files of up to {size_of(config.max_file_size)} can be read and written."]
    notes += [f"- `{mount.target}` can only be read." for mount in config.mounts]
    if config.readonly:
        notes.append("- The whole workspace can only be read.")
    if config.confirm_deletes:
        notes.append("- Each deletion is shown to a person, who can refuse it.")
    text = "\n".join([_GUIDANCE, "**Here**", "", *notes])
    return text.replace("$", "$$")
