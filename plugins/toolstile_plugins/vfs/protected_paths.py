"""The policy that asks a person before a call changes files that other programs run or obey."""

# ruff: noqa: PTH114, PTH118 - texts: many names are looked up in each folder

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from toolstile_hookspecs import PolicyDecision, Tool, ToolContext
from toolstile_hookspecs.services.workspace import FileChange, FileChanges
from toolstile_plugins.vfs import paths, protected_globs as globs
from toolstile_plugins.vfs.git_repositories import (
    Repositories,
    is_harmless,
    named_by_git,
    obeyed_by_git,
)
from toolstile_plugins.vfs.glob import Pattern

_MOST_SHOWN: Final = 20
_MOST_FILES: Final = 50_000
_MANY: Final = 1000
_FILTER: Final = re.compile(rb"[ \t\r\]]filter(?:[ \t\r=]|$)")
_ENVIRONMENTS: Final = (".venv", "venv", "node_modules")
_ENVIRONMENT: Final = re.compile(r"(?is)(?:.*?/)?(?:\.venv|venv|node_modules)(?=/|$)")
_STARTS: Final = re.compile(
    r"(?is)(?:.*/)?(?:[^/]*\.pth|(?:site|user)customize\.py|pyvenv\.cfg|(?:bin|Scripts|\.bin)/[^/]*)",
)
_FOLDERS: Final = (None, "directory")
_READ: Final = ("pyproject.toml", ".gitattributes")


class ProtectedPaths:
    """Asks a person about changes of files that their programs run or obey later.

    Args:
        protected: Globs of more such files.
        unprotected: Globs of files that need no question.
    """

    name: Final = "protected paths"

    def __init__(self, protected: Sequence[str] = (), unprotected: Sequence[str] = ()) -> None:
        self._protected = [Pattern(glob) for glob in protected]
        self._unprotected = [Pattern(glob) for glob in unprotected]
        self._environments: dict[str, set[str]] = {}
        self._repositories = Repositories()
        self._made: tuple[str, set[str]] = ("", set())

    def keep(self) -> None:
        """Note, after the commit, that the environments of the call are its session's own."""
        session, made = self._made
        if made:
            self._environments.setdefault(session, set()).update(made)

    def check_changes(
        self,
        tool: Tool[Any, Any],  # noqa: ARG002 - whatever the tool
        changes: FileChanges,
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        """Ask a person if any change is of a protected path."""
        session = context.session.id
        known = self._environments.get(session, set())
        look = _Look(changes, self._protected, known, self._repositories)
        self._made = session, look.made
        found: dict[str, str] = {}
        counts = Counter[str]()
        for change in changes:
            why = look.why(change)
            if why is None or any(each.matches(change.path) for each in self._unprotected):
                continue
            if why.endswith("/"):
                counts[why] += 1
            else:
                found[change.path] = why
        settings = [f'"{path}"' for path in (*found, *(f"{folder}**" for folder in counts))]
        if not settings:
            return PolicyDecision.allow()
        folded = [
            f"{folder} (executables and start-up files: {counts[folder]})" for folder in counts
        ]
        shown = [*folded, *(f"{path} ({why})" for path, why in found.items())]
        more = f", and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
        return PolicyDecision.ask(
            "It changes files that your programs run or obey without being asked: "
            f"{', '.join(shown[:_MOST_SHOWN])}{more}. To allow that without a question, add to "
            f"[plugins.vfs]: unprotected = [{', '.join(settings[:_MOST_SHOWN])}]",
            by_person=True,
            paths=(*folded, *found),
        )


class _Look:
    """One look at the changes of a call; `made` are the environments that it makes."""

    def __init__(
        self,
        changes: FileChanges,
        protected: Sequence[Pattern],
        known: set[str],
        repositories: Repositories,
    ) -> None:
        self._changes = changes
        self._protected = protected
        self._known = known
        named = dict(_named(changes, repositories))
        self._named = {at: why for at, why in named.items() if not why.endswith("/")}
        self._linked = {at: link for at, link in named.items() if link.endswith("/")}
        self.made: set[str] = set()

    def why(self, change: FileChange) -> str | None:
        """Return who runs or obeys the path, its environment with a slash, or None."""
        path = change.path
        name = paths.split(path)[1].lower()
        before, after = change.before, change.after
        kinds = None if before is None else before.kind, None if after is None else after.kind
        is_link = "link" in kinds
        spellings = (path, f"{path}/-") if is_link else (path,)
        if any(each.matches(spelt) for each in self._protected for spelt in spellings):
            return "protected in [plugins.vfs]"
        if name == "config" and kinds == ("file", "file") and is_harmless(*self._contents(path)):
            return None
        if obeyed_by_git(self._changes, path) or (name == ".git" and kinds[0] != kinds[1]):
            return "git"
        environment = self._environment(change)
        if set(kinds).issubset(_FOLDERS):
            return None
        return (
            self._listed(path, name, is_link=is_link)
            or environment
            or self._by_name(path, is_link=is_link)
            or (self._by_inode(path) if kinds[0] == "file" else None)
        )

    def _listed(self, path: str, name: str, *, is_link: bool) -> str | None:
        if (found := globs.protected_by().search(path)) is not None:
            return [*globs.PROTECTED][(found.lastindex or 1) - 1]
        if is_link and (
            name == ".gitattributes"
            or any(f"/{path.lower()}".endswith(f"/{each}") for each in globs.folders())
        ):
            return "a link to such files"
        before, after = self._contents(path) if name in _READ else (b"", b"")
        if name == "pyproject.toml":
            return "toolstile" if _own_table(before) != _own_table(after) else None
        return "git" if _filters(after) not in ([], _filters(before)) else None

    def _contents(self, path: str) -> tuple[bytes, bytes]:
        before, after = (self._changes.read(path, before) for before in (True, False))
        return before or b"", after or b""

    def _environment(self, change: FileChange) -> str | None:
        """Return the environment whose program or start-up file it is, if it was there before."""
        path = change.path
        for at in paths.ancestors(path):
            if at in self._linked:
                path = f"{self._linked[at]}{path[len(at) + 1 :]}"
        if (found := _ENVIRONMENT.match(path)) is None:
            return None
        root, inside = found[0], path[found.end() + 1 :]
        if self._changes.stat(root, True) is None:  # noqa: FBT003 - the contract's
            self.made.add(root)
            return None
        states = [each for each in (change.before, change.after) if each is not None]
        runs = any(each.kind == "file" and (each.mode or 0) & 0o111 for each in states)
        is_free = root in self._known or (inside and not runs and not _STARTS.fullmatch(inside))
        return None if is_free else f"{root}/"

    def _by_name(self, path: str, *, is_link: bool) -> str | None:
        for at in (path, *paths.ancestors(path), ""):
            if (why := self._named.get(at)) is not None:
                return why
        beneath = self._named.items() if is_link else ()
        return next((why for at, why in beneath if paths.is_within(at, path)), None)

    def _by_inode(self, path: str) -> str | None:
        root = self._changes.root
        with suppress(OSError):
            if root and (status := os.lstat(f"{root}/{path}")).st_nlink > 1:
                return self._inodes.get((status.st_dev, status.st_ino))
        return None

    @cached_property
    def _inodes(self) -> dict[tuple[int, int], str]:
        """The protected files by inode: of a very large tree the first, as links are replaced."""
        root, found = self._changes.root or "", dict[tuple[int, int], str]()
        walk = (f"{place}/{name}" for place, _, names in os.walk(root) for name in names)
        for file in islice(walk, _MOST_FILES):
            if globs.protected_by().search(path := file[len(root) + 1 :]):
                with suppress(OSError):
                    status = os.lstat(file)
                    found[status.st_dev, status.st_ino] = f"the same file as {path}"
        return found


# --- Paths of other names


def _named(changes: FileChanges, repositories: Repositories) -> Iterator[tuple[str, str]]:
    """Yield where links of the list lead to, and what git's and our configuration name.

    For the target of a link to an environment, it is the link with a slash.
    """
    root = changes.root
    if root is None:
        return
    above = {f"{root}/{each}" if each else root: each for each in _folders(changes)}
    for real, directory in above.items():
        with suppress(OSError), os.scandir(real) as entries:
            there = {entry.name for entry in islice(entries, _MANY)}
            for name in (*globs.literal_paths(), *_ENVIRONMENTS):
                # One look at a directory takes less time than one at each name, unless it is large.
                if (name.partition("/")[0] in there or len(there) == _MANY) and os.path.islink(
                    link := f"{real}/{name}"
                ):
                    path = paths.join(directory, name)
                    is_one = name in _ENVIRONMENTS
                    yield from _within(root, link, f"{path}/" if is_one else f"{path} leads to it")
    for place in dict.fromkeys([*above, *repositories(root), *map(str, Path(root).parents)]):
        yield from _configured(root, place)


def _configured(root: str, directory: str) -> Iterator[tuple[str, str]]:
    for named in named_by_git(directory):
        yield from _within(root, named, "git")
    for name in ("toolstile.toml", "pyproject.toml"):
        with suppress(OSError):
            content = Path(directory, name).read_bytes()
            if b"plugin_files" not in content:
                continue
            table = _own_table(content, is_whole=name == "toolstile.toml")
            files = table.get("plugin_files") if isinstance(table, dict) else None
            for file in cast("list[object]", files) if isinstance(files, list) else ():
                yield from _within(root, os.path.join(directory, str(file)), "toolstile")


def _within(root: str, named: str, why: str) -> Iterator[tuple[str, str]]:
    # A link that is removed makes room for other files of its name.
    for each in {os.path.realpath(named), os.path.normpath(named)}:
        if f"{each}/".startswith(f"{root}/"):
            yield each[len(root) + 1 :], why


def _folders(changes: FileChanges) -> set[str]:
    """Return the directories above the changed paths that were there before the call."""
    new = {each.path for each in changes if each.before is None}
    return {"", *(at for each in changes for at in paths.ancestors(each.path))} - new


def _own_table(content: bytes, *, is_whole: bool = False) -> dict[str, Any] | bytes:
    """Return our settings in a file; all of it if it cannot be read."""
    try:
        table = tomllib.loads(content.decode())
        return table if is_whole else table.get("tool", {}).get("toolstile", {})
    except (ValueError, AttributeError):
        return content if b"toolstile" in content else {}


def _filters(content: bytes) -> list[bytes]:
    # To git, a carriage return ends no line: it is a space.
    return [line for line in content.split(b"\n") if _FILTER.search(line)]
