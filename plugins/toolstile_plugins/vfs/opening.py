"""A workspace as its configuration wants it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing

from toolstile_hookspecs import Binding, Filesystem, ResourceError
from toolstile_plugins.vfs.base import Store
from toolstile_plugins.vfs.memory import MemoryStore
from toolstile_plugins.vfs.mounts import MountedStore, ReadonlyStore
from toolstile_plugins.vfs.settings import Mount, VfsConfig
from toolstile_plugins.vfs.workspace import VirtualFilesystem


def open_workspace(config: VfsConfig) -> VirtualFilesystem:
    """Return the workspace of a configuration, for the caller to close.

    Raises:
        ResourceError: When its directory or a mount cannot be opened; says what to do.

    Example:
        >>> open_workspace(VfsConfig()).list()
        []
    """
    store = _store(config)
    if config.mounts:
        store = _mounted(store, config.mounts)
    return VirtualFilesystem(ReadonlyStore(store) if config.readonly else store)


def workspace_binding(
    config: VfsConfig, filesystem: Filesystem | None = None
) -> Binding[Filesystem]:
    """Return the binding that gives handlers their workspace.

    Args:
        config: How it is made.
        filesystem: One that is there already, which then stays its maker's.
    """
    # A protocol serves as the key, which mypy does not foresee for type[T].
    if filesystem is not None:
        return Binding[Filesystem].instance(Filesystem, filesystem)  # type: ignore[type-abstract]
    return Binding[Filesystem](
        Filesystem,  # type: ignore[type-abstract]
        lambda resources: open_workspace(config),  # noqa: ARG005 - needs no other
    )


def _mounted(store: Store, mounts: Iterable[Mount]) -> Store:
    """Return a store with mounts in it, for the caller to close; nothing stays open on failure."""
    # Late: without mounts nobody waits for what they need.
    from toolstile_plugins.vfs.sources import Source

    with ExitStack() as opened:
        opened.callback(store.close)
        sources = [opened.enter_context(closing(Source(mount))) for mount in mounts]
        mounted = MountedStore(store, sources)
        opened.pop_all()
    return mounted


def _store(config: VfsConfig) -> Store:
    if config.root is None:
        return MemoryStore()
    # Late: a platform without directory descriptors has workspaces in memory.
    from toolstile_plugins.vfs.disk import DiskStore

    try:
        return DiskStore(config.root, fsync=config.fsync)
    except OSError as error:
        raise ResourceError(
            f"The workspace cannot be opened: {str(error).rstrip('.')}. It is named with "
            "plugins.vfs.root or --workspace."
        ) from error
