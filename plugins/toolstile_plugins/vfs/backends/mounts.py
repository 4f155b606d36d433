"""Mounts in the tree of a workspace, and workspaces that cannot be changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import Deadline
from toolstile_hookspecs.services.workspace import WorkspaceLayers
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import (
    Base,
    Change,
    Changes,
    Lock,
    Store,
    Transaction,
    WatchMark,
)
from toolstile_plugins.vfs.nodes import Kind, Node, directory_node

if TYPE_CHECKING:
    from toolstile_plugins.vfs.backends.fsspec_source import Source

_READONLY: Final = (
    "The whole workspace is read-only, so nothing in it can be changed. That requires human "
    "intervention."
)


class MountedStore(Store):
    """A tree with sources in it, each at its target; what the tree has there is hidden.

    The directories above a target are there, too, and are made when something else is
    written into them. Programs that are started in the directory see no mounts.

    Args:
        store: The tree.
        sources: What is placed into it, at targets apart from one another.
        readonly: Whether all of it takes no changes.
    """

    def __init__(
        self, store: Store, sources: Sequence[Source] = (), *, readonly: bool = False
    ) -> None:
        self._store = store
        self._sources = {source.mount.target: source for source in sources}
        self._is_readonly = readonly
        mounted = [source.mount.source.removeprefix("file://") for source in sources]
        self.root = getattr(store, "root", None)
        self.directories = (*store.directories, *(each for each in mounted if "://" not in each))
        # Directories above a target, each with what has to be seen in it.
        self._above: dict[str, dict[str, Kind]] = {}
        for target, source in self._sources.items():
            root = source.look("")
            kind: Kind = root.kind if root is not None else "directory"
            for path in (target, *paths.ancestors(target)):
                directory, name = paths.split(path)
                self._above.setdefault(directory, {})[name] = kind
                kind = "directory"

    def look(self, path: str) -> Node | None:
        """Return what is at a path."""
        tree, inside = self._at(path)
        node = tree.look(inside)
        if path in self._above and (node is None or node.kind != "directory"):
            return directory_node()
        return node

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds."""
        tree, inside = self._at(path)
        return {**tree.names(inside), **self._above.get(path, {})}

    def hidden(self, path: str) -> Mapping[str, str]:
        """Return the names in a directory that no path here can hold, each with the reason."""
        tree, inside = self._at(path)
        return tree.hidden(inside)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        """Return both, `names` and `hidden`."""
        tree, inside = self._at(path)
        names, hidden = tree.contents(inside)
        return {**names, **self._above.get(path, {})}, hidden

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield what is at names of a directory."""
        (tree, inside), ours = self._at(path), self._above.get(path, {})
        wanted = list(names)
        yield from super().nodes(path, [name for name in wanted if name in ours])
        yield from tree.nodes(inside, [name for name in wanted if name not in ours])

    def readonly(self, path: str) -> str | None:
        """Return why a path cannot be changed here, or None when it can."""
        if self._is_readonly:
            return _READONLY
        mounted = self._mounted(path)
        if mounted is not None:
            source, _ = mounted
            return (
                f"{path} lies in the mount {source.mount.target!r}, which is read-only. It stays "
                "as it is; a copy of it, at a path outside of the mount, can be changed."
            )
        if path and path in self._above:
            return (
                f"{path} holds the mount {self._target_in(path)!r}, so it can be neither deleted "
                "nor moved as a whole. Change what it holds besides."
            )
        return self._store.readonly(path)

    def check_changeable(self, directory: str) -> None:
        """Check that what a directory holds can be changed; of one not there, what is above it."""
        for path in (directory, *paths.ancestors(directory)):
            if path in self._above and self._hides(path):
                raise PermissionError(
                    f"{path} is a directory only for the mount {self._target_in(path)!r}: the "
                    "workspace has something else there, so nothing can be put into it. Choose "
                    "another path."
                )
        self._store.check_changeable(directory)

    def unchanged(self, path: str, version: object | None) -> bool:
        """Tell whether a path is still in the state of a version."""
        if self._is_ours(path):
            return super().unchanged(path, version)
        return self._store.unchanged(path, version)

    def try_hold(self) -> Lock | None:
        """Keep all others from committing; None while another one does."""
        return self._store.try_hold()

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        """Set a watch; None while another commit holds the workspace."""
        return self._store.watch(hold)

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting.

        Raises:
            PermissionError: When a mount was to be changed, or anything of a read-only tree.
        """
        for change in changes.made:
            if self._is_readonly or self._mounted(change.path) is not None:
                raise PermissionError(self.readonly(change.path))
        made = sorted((*self._missing(changes), *changes.made), key=lambda change: change.path)
        seen = {path: version for path, version in changes.seen.items() if not self._is_ours(path)}
        return self._store.begin(dataclasses.replace(changes, seen=seen, made=made), hold)

    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> AbstractContextManager[str]:
        """Give the real directory, alone.

        Raises:
            PermissionError: When the tree is read-only: a program could change the directory.
        """
        if self._is_readonly:
            raise PermissionError(_READONLY)
        return self._store.exclusive_path(hold, deadline)

    def layers(self) -> WorkspaceLayers:
        """Return those of the tree, with the mounts."""
        mounts = {target: source.directory for target, source in self._sources.items()}
        return dataclasses.replace(self._store.layers(), mounts=mounts)

    def notice(self) -> str | None:
        """Return a notice for users of this tree, such as a commit that is stuck."""
        return self._store.notice()

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Finish after a crash what was decided, drop what was not."""
        self._store.recover(decided)

    def close(self) -> None:
        """Give back what tree and sources hold."""
        for source in self._sources.values():
            source.close()
        self._store.close()

    def _mounted(self, path: str) -> tuple[Source, str] | None:
        """Return the source that a path lies in, and the path in there."""
        for target, source in self._sources.items():
            if paths.is_within(path, target):
                return source, path[len(target) + 1 :]
        return None

    def _at(self, path: str) -> tuple[Base, str]:
        return self._mounted(path) or (self._store, path)

    def _target_in(self, path: str) -> str:
        return next(target for target in self._sources if paths.is_within(target, path))

    def _is_ours(self, path: str) -> bool:
        if self._mounted(path) is not None:
            return True
        return path in self._above and (self._store.look(path) is None or self._hides(path))

    def _hides(self, path: str) -> bool:
        node = self._store.look(path)
        return node is not None and node.kind != "directory"

    def _missing(self, changes: Changes) -> Iterator[Change]:
        """Yield the directories that are only here for a mount and now hold something else."""
        for path in self._above:
            wanted = any(
                change.after is not None and paths.is_within(change.path, path)
                for change in changes.made
            )
            if path and wanted and self._store.look(path) is None:
                yield Change(path, None, None, directory_node())
