"""The policy that a file can only be overwritten after its current content was read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator

from toolstile_hookspecs import (
    ConflictError,
    DefinitionError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
    ToolSelector,
)
from toolstile_hookspecs.codecs import as_sentence
from toolstile_hookspecs.selectors import fits
from toolstile_plugins.policies.checks import check_fields, entries_for, refuse_none
from toolstile_plugins.policies.governed_files import DirectoryFiles, Files, WorkspaceFiles
from toolstile_plugins.policies.path_arguments import (
    NAMES,
    PathArgument,
    PathNames,
    ends_with,
    names_declared_by,
    paths_in,
)

NEEDS_PERSON: Final = "This requires human intervention."
READ_TOOLS: Final = frozenset({"read_file"})
WRITE_TOOLS: Final = frozenset({"write_file", "edit_file", "delete_file", "copy_file", "move_file"})
SOURCES: Final = ("source", "sources", "src", "source_path", "source_file", "src_path", "old_path")
"""The names of properties with a path that a tool moves or copies from."""

ANY_TOOL: Final = ""
"""The key in `paths` of names that are given as a list."""


def _under_tools(paths: object) -> object:
    if not isinstance(paths, (list, tuple)):
        return paths
    return {ANY_TOOL: tuple(cast("Iterable[object]", paths))}


Paths = Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(_under_tools)]


@dataclass(frozen=True, kw_only=True)
class ReadBeforeWritePolicy:
    """Lets an existing file be changed only after its current content was read.

    New files can be created freely. A file that has changed since it was read must be read again. A
    successful write counts as reading. Deleting counts as writing, and so does moving or copying
    onto a file. A moved or copied file counts as read if the original did.

    The paths are the properties that the schema of the tool declares with the format `path`,
    `file-path` or `directory-path`, or with one of the names in `path_fields`. All of them count,
    and so do undeclared arguments with such a name. A call is denied if the files that it changes
    are unknown.

    The success of a reading tool counts as reading. Some lines are enough, and so is the
    description of a binary file. A file that cannot be inspected is not changed. Directories are
    not governed, even when they are deleted as a whole.

    Args:
        read_tools: Tools that show a file's content, also as globs.
        write_tools: Tools that change, replace or remove a file, also as globs. A glob does not
            include the `read_tools`.
        path_fields: Names of properties that are paths, alone or at the end of a name.
        source_fields: Names of properties with a path that a tool moves or copies from.
        paths: For single tools, all the properties with a path that they show or change:
            `{"rename": ("old", "new")}`. Or a list: further names beside the `path_fields`.
        root: The directory that paths are relative to, for tools that do not use the workspace.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When `root` is not a directory, or a field has another type.
    """

    read_tools: AbstractSet[str] = READ_TOOLS
    write_tools: AbstractSet[str] = WRITE_TOOLS
    path_fields: tuple[str, ...] = NAMES
    source_fields: tuple[str, ...] = SOURCES
    paths: Paths = field(default_factory=dict[str, tuple[str, ...]])
    root: Path | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_none(self, "write_tools", "path_fields")
        object.__setattr__(self, "paths", _under_tools(self.paths))
        if self.root is None:
            return
        root = Path(self.root).absolute()
        if not root.is_dir():
            raise DefinitionError(
                f"ReadBeforeWritePolicy: root: {root} is not a directory. Make it, or name the "
                "directory of the tools."
            )
        object.__setattr__(self, "root", root)

    @property
    def governed(self) -> AbstractSet[str]:
        """The names of tools it rules by, without the default ones."""
        named = frozenset(self._own_paths) - READ_TOOLS - WRITE_TOOLS
        for names, usual in ((self.read_tools, READ_TOOLS), (self.write_tools, WRITE_TOOLS)):
            named |= names if names != usual else frozenset()
        return named

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return faults of its names: properties that no tool has, or other tools."""
        written = [tool for tool in tools if self.checks(tool)]
        ruled = [*written, *(tool for tool in tools if self._reads(tool))]
        found: list[str] = []
        for pattern, names in self._own_paths.items():
            meant = [tool for tool in ruled if fits(tool, pattern)]
            known = frozenset[str]().union(*map(names_declared_by, meant))
            if not meant:
                found.append(f"names paths of {pattern!r}, which it lets neither read nor write")
            found += [
                f"names {name!r} in paths, which {pattern!r} does not have"
                for name in sorted(set(names) - known if meant else ())
            ]
        if not any(map(may_come, self.read_tools | self.write_tools)):
            known = frozenset[str]().union(*map(names_declared_by, ruled))
            given = {
                "path_fields": self.path_fields,
                "source_fields": self.source_fields,
                "paths": self.paths.get(ANY_TOOL, ()),
            }
            found += [
                f"names {name!r} in {place}, which none of its tools has"
                for place, names in given.items()
                for name in names
                if names not in {NAMES, SOURCES}
                and not any(ends_with(own, [name]) for own in known)
            ]
            if not written and (self.root is not None or self.write_tools != WRITE_TOOLS):
                found.append("rules no tool that writes: its write_tools do not exist, or read")
        foreign = sorted({tool.label for tool in ruled if tool.origin is not None})
        if foreign and self.root is None:
            found.append(
                f"governs {', '.join(foreign)} of servers, whose files are not in the workspace, "
                "and has no root"
            )
        return found

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny a change of files whose current content was not read, naming all of them."""
        if not self.checks(tool):
            return PolicyDecision.allow()
        files = self._files(tool, context)
        if files is None:
            return PolicyDecision.deny(
                f"Cannot call {tool.label}: the directory of its files is unknown, and so are the "
                "files that were read. A person must name it. Continue without the tool."
            )
        names = self._names_for(tool)
        found = paths_in(tool, params, names) or []
        if not any(each.is_declared for each in found):
            return PolicyDecision.deny(
                f"Cannot call {tool.label}: none of its arguments is the path of a file, so the "
                f"files it changes are unknown. Give the path, then retry {tool.label}; if it "
                "takes none, continue without it."
            )
        known = PolicyState.of(context, self.name).data
        unread, unknown = _objections(files, *_parted(found, names), known)
        if not unread and not unknown:
            return PolicyDecision.allow()
        return PolicyDecision.deny(self._reason(tool, unread, unknown))

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the contents that were read or written."""
        writes, reads = self.checks(tool), self._reads(tool)
        if not writes and not reads:
            return
        files = self._files(tool, context)
        if files is None:
            return
        names = self._names_for(tool)
        found = [each for each in paths_in(tool, params, names) or () if each.is_declared]
        targets, sources = _parted(found, names)
        if not writes and not names.own and len({each.place for each in found}) > 1:
            # It is unknown which of them was shown.
            return
        now = _settled(files, _texts(targets))
        if not now:
            return
        state = PolicyState.of(context, self.name)
        if writes:
            now |= _carried(files, _texts(sources)[:1], now, state)
        keys = {(tool.name, path) for path, digest in now.items() if reads and digest is not None}
        known = all(state.data.get(path) == digest for path, digest in now.items())
        if known and keys <= state.invoked_keys:
            return
        data = {
            path: digest for path, digest in {**state.data, **now}.items() if digest is not None
        }
        replace(state, invoked_keys=state.invoked_keys | keys, data=data).save(context)

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the tool writes."""
        if not self.write_tools.isdisjoint(tool.policy_names):
            return True
        return self._writing.selects(tool) and not self._reads(tool)

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the tool reads or writes."""
        return self.checks(tool) or self._reads(tool)

    def _reads(self, tool: Tool[Any, Any]) -> bool:
        return self._reading is not None and self._reading.selects(tool)

    @cached_property
    def _reading(self) -> ToolSelector | None:
        return ToolSelector(tools=self.read_tools) if self.read_tools else None

    @cached_property
    def _writing(self) -> ToolSelector:
        return ToolSelector(tools=self.write_tools)

    @property
    def _own_paths(self) -> Mapping[str, tuple[str, ...]]:
        return {tool: names for tool, names in self.paths.items() if tool != ANY_TOOL}

    def _files(self, tool: Tool[Any, Any], context: ToolContext) -> Files | None:
        if self.root is not None:
            return DirectoryFiles(self.root)
        # A server's files are not in the workspace.
        workspace = context.filesystem if tool.origin is None else None
        return None if workspace is None else WorkspaceFiles(workspace)

    def _names_for(self, tool: Tool[Any, Any]) -> PathNames:
        own = [name for names in entries_for(tool, self._own_paths) for name in names]
        listed = (*self.path_fields, *self.paths.get(ANY_TOOL, ()))
        return PathNames(listed, tuple(own), self.source_fields)

    def _reason(self, tool: Tool[Any, Any], unread: list[str], unknown: list[str]) -> str:
        """Return the objections to the call, and the remedy."""
        parts = unknown
        if unread:
            readers = " or ".join(sorted(self.read_tools))
            them = "each of them" if len(unread) > 1 else "it"
            parts = [
                *unknown,
                f"{'; '.join(unread)}. Call {readers} on {them} first, then retry {tool.label}.",
            ]
        told = f"Cannot call {tool.label}: {' Also, '.join(parts)}"
        is_settled = f"retry {tool.label}" in told or NEEDS_PERSON in told
        return told if is_settled else f"{told} Correct that, then retry {tool.label}."


def _parted(
    found: Sequence[PathArgument], names: PathNames
) -> tuple[Sequence[PathArgument], Sequence[PathArgument]]:
    """Return the paths that a tool changes, and the paths that it only moves or copies from."""
    sources = [each for each in found if names.is_source(each.name, is_declared=each.is_declared)]
    targets = [each for each in found if each not in sources]
    return (targets, sources) if any(each.is_declared for each in targets) else (found, ())


def _objections(
    files: Files,
    targets: Iterable[PathArgument],
    sources: Iterable[PathArgument],
    known: Mapping[str, str],
) -> tuple[list[str], list[str]]:
    """Return why files may not be changed: not read yet, or unknown."""
    unread: dict[str, None] = {}
    unknown = [
        f"its argument {each.name} may hold paths, in a way that is not known: "
        "give a plain path, or leave it out."
        for each in (*targets, *sources)
        if each.path is None
    ]
    moved = [posixpath.basename(each.rstrip("/")) for each in _texts(sources)]
    for given in _texts(targets):
        try:
            for path in _changed(files, files.canonical(given), moved):
                if fault := _fault(files, path, known.get(path)):
                    unread[f"the file {path} {fault}"] = None
        except (OSError, ValueError) as error:
            shown = given if given.isprintable() else repr(given)
            reason = as_sentence(str(error) or "the cause is unknown; name another file")
            if isinstance(error, OSError) and error.strerror:
                reason = f"{error.strerror.lower()}. {NEEDS_PERSON}"
            unknown.append(f"the file {shown} cannot be looked at: {reason}")
    return [*unread], unknown


def _changed(files: Files, path: str, moved: Iterable[str]) -> list[str]:
    """Return the files that a change of a path may change."""
    try:
        kind = files.kind(path)
    except ConflictError:
        return [path]
    if kind is None:
        return [files.taken_for(path)]
    # Some tools move or copy into a directory.
    return [posixpath.join(path, name) for name in moved] if kind == "directory" else [path]


def _fault(files: Files, path: str, known: str | None) -> str | None:
    """Return the objection to changing a file, given its remembered content."""
    try:
        if known is None:
            return "exists and was not read" if files.kind(path) == "file" else None
        if files.digest(path) in {None, known}:
            return None
    except ConflictError:
        return "is being changed by another call"
    return "has changed since it was read"


def _settled(files: Files, paths: Iterable[str]) -> dict[str, str | None]:
    """Return the hashes after a success, None for a file that cannot be read."""
    now: dict[str, str | None] = {}
    for given in paths:
        with suppress(ValueError):
            path = files.canonical(given)
            now[path] = None
            with suppress(OSError):
                now[path] = files.digest(path)
    return now


def _carried(
    files: Files, sources: list[str], now: Mapping[str, str | None], state: PolicyState
) -> dict[str, str | None]:
    """Return the known hashes after a move or copy: the target has the hash of the source."""
    changed: dict[str, str | None] = {}
    for given in sources:
        with suppress(OSError, ValueError):
            source = files.canonical(given)
            known = state.data.get(source)
            changed = {path: digest if digest == known else None for path, digest in now.items()}
            if files.kind(source) != "file":
                changed[source] = None
    return changed


def _texts(found: Iterable[PathArgument]) -> list[str]:
    return [each.path for each in found if each.path is not None]
