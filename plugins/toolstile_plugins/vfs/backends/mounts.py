"""Mounts: read-only files of anything that fsspec opens, in the tree of a workspace."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import re
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final

from toolstile_hookspecs import Deadline, ResourceError, Secret, ToolstileError, hide, secrets_in
from toolstile_hookspecs.services.workspace import WorkspaceLayers
from toolstile_hookspecs.support.text import extra_remedy, for_model
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
from toolstile_plugins.vfs.nodes import (
    Content,
    Kind,
    Node,
    directory_node,
    file_node,
    moment,
    unusable,
)
from toolstile_plugins.vfs.paths import Pattern
from toolstile_plugins.vfs.settings import Mount
from toolstile_plugins.vfs.tools.models import size_of

# --- Sources


_LOGIN: Final = re.compile(r"//[^/@\s]*@")
_QUERY: Final = re.compile(r"\?\S*")


class Source(Base):
    """The files of one mount. A directory is listed once and keeps that listing.

    A `ResourceError` names a mount that cannot be opened, the cause and the remedy.
    """

    def __init__(self, mount: Mount) -> None:
        self.mount = mount
        self.label = f"The mount {mount.target!r}"
        self._include = [Pattern(glob) for glob in mount.include]
        self._exclude = [Pattern(glob) for glob in mount.exclude]
        self._lock = threading.RLock()
        self._listed: dict[str, dict[str, Node]] = {}
        self._hidden: dict[str, dict[str, str]] = {}
        self._files, self._root, self._node = self._open()
        self._archive = not _PROTOCOLS.isdisjoint(protocols(self._files))
        self._special: dict[str, str] = {}
        if self._archive:
            with self._explained(""):
                self._special = special(self._files)
                self._hidden = unreachable(self._files, self._root)

    @property
    def directory(self) -> str | None:
        """The directory of this machine that it shows unfiltered; None for other sources."""
        source = self.mount.source.removeprefix("file://")
        filtered = self.mount.include != ("**",) or self.mount.exclude
        return None if filtered or not os.path.isdir(source) else os.path.realpath(source)  # noqa: PTH112 - may be a URL

    def look(self, path: str) -> Node | None:
        if not path:
            return self._node
        directory, name = paths.split(path)
        return self._entries(directory).get(name)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        names: dict[str, Kind] = {name: node.kind for name, node in self._entries(path).items()}
        return names, self._hidden.get(path, {})

    def read(self, path: str) -> bytes:
        """Return a file's content; raises `OSError` that names the mount."""
        most = self.mount.max_file_size
        with self._explained(path):
            where = self._where(path)
            self._refuse_links(where)
            with self._files.open(where, "rb") as stream:
                data: bytes = stream.read(most + 1)
        if len(data) > most:
            raise OSError(f"{self.label} gives no more than {size_of(most)} of a file: {path}.")
        return data

    def close(self) -> None:
        _close(self._files)

    def _open(self) -> tuple[Any, str, Node]:
        try:
            # Late, because fsspec is an extra that only mounts need.
            fsspec: Any = importlib.import_module("fsspec.core")
        except ImportError:
            raise ResourceError(
                f"{self.label} needs fsspec. {extra_remedy('workspace')}; or remove the mount."
            ) from None
        url = _url(self.mount.source)
        files: Any = None
        try:
            # Because fsspec shares one object among all openers of a source, and the first of them
            # to close it would close it for all.
            options = {**self.mount.storage_options, "skip_instance_cache": True}
            files, root = fsspec.url_to_fs(url, **options)
            info: dict[str, Any] = files.info(root)
        except Exception as error:
            _close(files)
            cause = _cause(error)
            raise ResourceError(
                f"{self.label} (from {_masked(self.mount.source)}) cannot be opened: "
                f"{self._shown(cause)}. Fix its source in plugins.vfs.mounts, or remove it."
            ) from error
        if info.get("type") == "directory":
            return files, str(root), directory_node()
        return files, str(root), self._file("", info)

    def _entries(self, directory: str) -> dict[str, Node]:
        with self._lock:
            if directory not in self._listed:
                node = self.look(directory)
                is_directory = node is not None and node.kind == "directory"
                self._listed[directory] = self._list(directory) if is_directory else {}
            return self._listed[directory]

    def _list(self, directory: str) -> dict[str, Node]:
        with self._explained(directory):
            where = self._where(directory)
            self._refuse_links(where)
            found: list[dict[str, Any]] = list(self._files.ls(where, detail=True))
        entries: dict[str, Node] = {}
        for info in found:
            given = str(info["name"]).rstrip("/")
            name = given.rpartition("/")[2]
            if name in paths.NO_NAMES or (self._archive and given != paths.join(where, name)):
                continue
            if paths.is_usable(name):
                node = self._entry(paths.join(directory, name), info)
                if node is not None:
                    entries[name] = node
            elif not self._archive:
                hidden = self._hidden.setdefault(directory, {})
                hidden[name] = paths.why_unusable(name)
        return entries

    def _entry(self, path: str, info: Mapping[str, Any]) -> Node | None:
        if any(pattern.matches(path) for pattern in self._exclude):
            return None
        is_link = info.get("islink") or info.get("type") == "link"
        special = LINK if is_link else self._special.get(str(info["name"]))
        if special is not None:
            return Node("other", object(), special=special)
        if info.get("type") == "directory":
            return directory_node(_modified(info))
        if not any(pattern.matches(path) for pattern in self._include):
            return None
        if info.get("type") != "file":
            return Node("other", object(), special=OTHER)
        return self._file(path, info)

    def _file(self, path: str, info: Mapping[str, Any]) -> Node:
        size, most = int(info.get("size") or 0), self.mount.max_file_size
        if size > most:
            special = (
                f"a file of {size_of(size)}, more than the {size_of(most)} that the mount "
                f"{self.mount.target!r} gives"
            )
            return Node("other", object(), special=special)
        return file_node(_Remote(self, path, size), _modified(info))

    def _where(self, path: str) -> str:
        both = f"{self._root.rstrip('/')}/{path}".strip()
        return both if path and self._root else path or self._root

    def _refuse_links(self, where: str) -> None:
        # Because a file may become a link after its directory was listed.
        if "file" not in protocols(self._files):
            return
        root = os.path.realpath(self._root)
        if os.path.realpath(where) != os.path.normpath(where.replace(self._root, root, 1)):
            raise PermissionError("a link is on the way, and mounts do not follow links")

    def _shown(self, text: str) -> str:
        # The options may hold credentials.
        return hide(_masked(text), secrets_in(Secret(self.mount.storage_options)))

    @contextlib.contextmanager
    def _explained(self, path: str) -> Generator[None]:
        try:
            yield
        except ToolstileError:
            raise
        except Exception as error:
            where, cause = f" at {path}" if path else "", self._shown(_cause(error))
            raise unusable(
                f"{self.label} cannot be read{where}: {for_model(cause)}. Retry later; if that "
                "does not help, it requires human intervention.",
                f"{_masked(self.mount.source)} cannot be read{where}: {cause}.",
            ) from error


class _Remote(Content):
    """A file of a source, read when it is asked for."""

    __slots__ = ("_path", "_source", "size")

    def __init__(self, source: Source, path: str, size: int) -> None:
        self._source = source
        self._path = path
        self.size = size

    def read(self) -> bytes:
        return self._source.read(self._path)


def _close(files: Any) -> None:
    # An archive leaves its own file (`of`) open until the garbage collector closes it.
    for opened in (files, getattr(files, "of", None)):
        close = getattr(opened, "close", None)
        if close is not None:
            close()


def _url(source: str) -> str:
    # By a chained URL, because fsspec would show an archive as one file.
    if "::" in source:
        return source
    name = source.lower()
    for ending, protocol in ENDINGS.items():
        if name.endswith(ending) and not os.path.isdir(source):  # noqa: PTH112 - may be a URL
            return f"{protocol}://::{source}"
    return source


def _modified(info: Mapping[str, Any]) -> datetime | None:
    for key in ("mtime", "LastModified", "last_modified", "modified", "created"):
        value = info.get(key)
        if isinstance(value, datetime):
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        if isinstance(value, (int, float)):
            return moment(value)
    return None


def _cause(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is nothing at its source"
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300].rstrip(".")


def _masked(text: str) -> str:
    # URLs may hold logins and signatures.
    return _QUERY.sub("?***", _LOGIN.sub("//***@", text))


# --- Archives


ENDINGS: Final = {".zip": "zip", ".tar": "tar", ".tar.gz": "tar", ".tgz": "tar"}
"""The suffixes of archives, and fsspec's protocol for each."""

LINK: Final = "a link, which mounts do not follow"
"""The word for a link in messages."""

OTHER: Final = "neither file nor directory"
"""The word for other kinds, such as a device, in messages."""

_PROTOCOLS: Final = frozenset(ENDINGS.values())


def protocols(files: Any) -> tuple[str, ...]:
    """Return the protocols of one of fsspec's file systems."""
    protocol: str | tuple[str, ...] = files.protocol
    return (protocol,) if isinstance(protocol, str) else protocol


def special(files: Any) -> dict[str, str]:
    """Return the special entries of an archive by name, because fsspec calls all of them files.

    A hard link in a tar archive is a file.
    """
    if "zip" in protocols(files):
        entries = files.zip.infolist()
        return {
            entry.filename: LINK for entry in entries if stat.S_ISLNK(entry.external_attr >> 16)
        }
    # Of several members of one name, fsspec reads the last.
    members = {re.sub("/+", "/", member.name): member for member in files.tar}
    return {
        name: LINK if member.issym() else OTHER
        for name, member in members.items()
        if not (member.isfile() or member.isdir() or member.islnk())
    }


def unreachable(files: Any, root: str) -> dict[str, dict[str, str]]:
    """Return, by directory, the names in an archive that no path can name, with the reasons."""
    files.ls("", detail=False)
    kinds = {str(name): str(info.get("type")) for name, info in files.dir_cache.items()}
    found: dict[str, dict[str, str]] = {}
    for name, kind in kinds.items():
        if kind != "directory" and paths.is_within(name, root):
            inside = name[len(root) :].removeprefix("/") if root else name
            lost = _lost(inside, root, kinds)
            if lost is not None:
                directory, rest, reason = lost
                found.setdefault(directory, {})[rest] = reason
    return found


def _lost(name: str, root: str, kinds: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the directory that hides a name, the rest of the name, and the reason."""
    directory, rest = "", name
    while rest:
        first, _, further = rest.partition("/")
        if first in paths.NO_NAMES:
            return directory, rest, "it has an empty part, . or .."
        if not paths.is_usable(first):
            return directory, rest, paths.why_unusable(first)
        here = paths.join(directory, first)
        if further and kinds.get(paths.join(root, here)) == "file":
            return directory, rest, f"{first} is a file"
        directory, rest = here, further
    return None


# --- Mounted stores


_READONLY: Final = (
    "The whole workspace is read-only, so nothing in it can be changed. That requires human "
    "intervention."
)


class MountedStore(Store):
    """A tree with sources in it. A source hides the node of the tree at its target.

    The directories above a target exist, too. A commit makes them when something else is
    written into them. Programs that are started in the directory see no mounts.

    With `readonly`, the whole tree takes no changes.
    """

    def __init__(
        self, store: Store, sources: Sequence[Source] = (), *, readonly: bool = False
    ) -> None:
        self._store = store
        self._sources = {source.mount.target: source for source in sources}
        self._is_readonly = readonly
        mounted = [source.mount.source.removeprefix("file://") for source in sources]
        self.root, self.keeps_former = getattr(store, "root", None), store.keeps_former
        self.directories = (*store.directories, *(each for each in mounted if "://" not in each))
        # The directories above targets, each with the entries that lead to a target.
        self._above: dict[str, dict[str, Kind]] = {}
        for target, source in self._sources.items():
            root = source.look("")
            kind: Kind = root.kind if root is not None else "directory"
            for path in (target, *paths.ancestors(target)):
                directory, name = paths.split(path)
                self._above.setdefault(directory, {})[name] = kind
                kind = "directory"

    def look(self, path: str) -> Node | None:
        tree, inside = self._at(path)
        node = tree.look(inside)
        if path in self._above and (node is None or node.kind != "directory"):
            return directory_node()
        return node

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        tree, inside = self._at(path)
        names, hidden = tree.contents(inside)
        return {**names, **self._above.get(path, {})}, hidden

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        (tree, inside), ours = self._at(path), self._above.get(path, {})
        wanted = list(names)
        yield from super().nodes(path, [name for name in wanted if name in ours])
        yield from tree.nodes(inside, [name for name in wanted if name not in ours])

    def readonly(self, path: str) -> str | None:
        if self._is_readonly:
            return _READONLY
        mounted = self._mounted(path)
        if mounted is not None:
            source, _ = mounted
            return (
                f"{path} lies in the mount {source.mount.target!r}, which is read-only. It stays "
                "unchanged; a copy of it, at a path outside of the mount, can be changed."
            )
        if path and path in self._above:
            return (
                f"{path} holds the mount {self._target_in(path)!r}, so it can be neither deleted "
                "nor moved as a whole. Change its other entries."
            )
        return self._store.readonly(path)

    def check_changeable(self, directory: str) -> None:
        for path in (directory, *paths.ancestors(directory)):
            if path in self._above and self._hides(path):
                raise PermissionError(
                    f"{path} is a directory only for the mount {self._target_in(path)!r}: the "
                    "workspace has something else there, so nothing can be put into it. Choose "
                    "another path."
                )
        self._store.check_changeable(directory)

    def unchanged(self, path: str, version: object | None) -> bool:
        if self._is_ours(path):
            return super().unchanged(path, version)
        return self._store.unchanged(path, version)

    def try_hold(self) -> Lock | None:
        return self._store.try_hold()

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        return self._store.watch(hold)

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        for change in changes.made:
            if self._is_readonly or self._mounted(change.path) is not None:
                raise PermissionError(self.readonly(change.path))
        made = sorted((*self._missing(changes), *changes.made), key=lambda change: change.path)
        seen = {path: version for path, version in changes.seen.items() if not self._is_ours(path)}
        return self._store.begin(dataclasses.replace(changes, seen=seen, made=made), hold)

    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> AbstractContextManager[str]:
        if self._is_readonly:
            # Because a program could change the directory.
            raise PermissionError(_READONLY)
        return self._store.exclusive_path(hold, deadline)

    def layers(self) -> WorkspaceLayers:
        mounts = {target: source.directory for target, source in self._sources.items()}
        return dataclasses.replace(self._store.layers(), mounts=mounts)

    def notice(self) -> str | None:
        return self._store.notice()

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        self._store.recover(decided)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._store.close()

    def _mounted(self, path: str) -> tuple[Source, str] | None:
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
        """Yield the directories above targets that the tree needs for the changes in them."""
        for path in self._above:
            wanted = any(
                change.after is not None and paths.is_within(change.path, path)
                for change in changes.made
            )
            if path and wanted and self._store.look(path) is None:
                yield Change(path, None, None, directory_node())
