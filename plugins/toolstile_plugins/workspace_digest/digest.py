"""Digests: kept by sessions, made from looks at a workspace, and shown by a section with tools."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from toolstile_hookspecs import (
    Binding,
    DefinitionError,
    FileStat,
    Filesystem,
    MarkdownSection,
    ResourceResolver,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
    ToolstileError,
    Visibility,
    tool,
)
from toolstile_hookspecs.execution.prompt_parts import SectionText
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.nodes import shown_target
from toolstile_plugins.vfs.paths import ancestors, join, split
from toolstile_plugins.vfs.tools.checks import ROOT, checking, shown
from toolstile_plugins.vfs.tools.models import size_of
from toolstile_plugins.workspace_digest.settings import DigestConfig

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# --- Digests that sessions keep


KEY = "workspace-digest"
"""The key of a digest's section, unless another is given."""


@dataclass(frozen=True, slots=True)
class Source:
    """The state of a path that a digest was made from."""

    path: str  # empty for the root
    # A hash of the names in a directory, the size of a listed file, or the hash of a read file.
    state: str


@dataclass(frozen=True, slots=True)
class WorkspaceDigest:
    """The digest of a section; one slice of the session holds one for each key.

    Args:
        section_key: The key of the section.
        body: The text, whose first line is its summary.
        made_at: When it was made.
        of: The hash of its sources; empty for a text that was made elsewhere.
        sources: The states that it was made from.
    """

    section_key: str
    body: str
    made_at: datetime
    of: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryDigest:
    """The last shown state of a directory, one for each path in a slice, with its `sources`."""

    path: str
    sources: tuple[Source, ...]


def register_reducers(session: SessionProtocol) -> None:
    """Let a dispatched digest replace the digest of the same key."""
    session[WorkspaceDigest].register(WorkspaceDigest, _put_digest)
    session[DirectoryDigest].register(DirectoryDigest, _put_directory)


def _put_directory(shown: Sequence[Any], event: DirectoryDigest) -> Sequence[Any]:
    return [*(before for before in shown if before.path != event.path), event]


def _put_digest(digests: Sequence[Any], event: WorkspaceDigest) -> Sequence[Any]:
    return [*(digest for digest in digests if digest.section_key != event.section_key), event]


def set_workspace_digest(session: SessionProtocol, digest: WorkspaceDigest) -> WorkspaceDigest:
    """Set the digest of a section in a session, and return the stored digest.

    Spaces around its key and text, and at the ends of lines, are dropped.

    Raises:
        DefinitionError: Its key or its text is empty.
    """
    key = _key(digest.section_key)
    body = "\n".join(line.rstrip() for line in digest.body.strip().splitlines())
    if not body:
        raise DefinitionError(f"The digest of {key!r} is empty; clear it, or give it a text.")
    kept = WorkspaceDigest(key, body, digest.made_at, digest.of, digest.sources)
    session[WorkspaceDigest].replace(*_put_digest(session[WorkspaceDigest].all(), kept))
    return kept


def latest_workspace_digest(
    session: SessionProtocol, section_key: str = KEY
) -> WorkspaceDigest | None:
    """Return the digest of a section in a session, or None."""
    key = _key(section_key)
    found = session[WorkspaceDigest].where(lambda digest: digest.section_key == key)
    return found[-1] if found else None


def clear_workspace_digest(session: SessionProtocol, section_key: str = KEY) -> None:
    """Remove the digest of a section from a session."""
    key = _key(section_key)
    session[WorkspaceDigest].clear(lambda digest: digest.section_key == key)


def _key(section_key: str) -> str:
    if key := section_key.strip():
        return key
    raise DefinitionError("A digest belongs to a section; give the section's key.")


# --- Looks at a workspace


_IGNORE_FILE: Final = ".gitignore"
_MOST_NAMES: Final = 100
"""Larger directories are not listed again to detect changes."""

_SETTLED: Final = timedelta(seconds=2)
"""The age of a file from which on another change certainly changes its time."""

Texts = dict[str, tuple[FileStat, str | None]]
"""Texts that were read, None for a binary file, with the facts about the files."""


class Survey:
    """One look at a workspace; `sources` returns the states it has seen."""

    def __init__(self, files: Filesystem, config: DigestConfig, texts: Texts | None = None) -> None:
        self._files = files
        self._config = config
        self._always = _spec_of(config.exclude)
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        # Texts of earlier looks are not read again.
        self._texts: Texts = {} if texts is None else texts
        self._read: dict[str, str] = {}

    def walk(self, top: str) -> Iterator[tuple[str, list[FileStat]]]:
        """Yield directories, the nearest first, with their entries: directories first, by name."""
        waiting, room = deque([top]), self._config.max_files
        while waiting and room > 0:
            directory = waiting.popleft()
            entries = self.entries(directory, room)
            room -= len(entries)
            waiting += (entry.path for entry in entries if entry.kind == "directory")
            yield directory, entries

    def entries(self, directory: str, most: int) -> list[FileStat]:
        """Return the entries of a directory that are not ignored; nothing if it cannot be read."""
        return self._kept(self._found(directory, most))

    def _found(self, directory: str, most: int) -> list[FileStat]:
        try:
            return list(islice(self._files.glob("*", directory), most))
        except (OSError, ValueError):
            return []

    def _kept(self, found: list[FileStat]) -> list[FileStat]:
        kept = [entry for entry in found if not self._is_ignored(entry)]
        return sorted(kept, key=lambda entry: (entry.kind != "directory", entry.path))

    def text(self, path: str) -> str | None:
        """Return a text file; None if it is missing, too large or binary."""
        try:
            stat = self._files.stat(path)
            if stat.kind != "file" or stat.size > self._config.max_file_size:
                return None
            known, content = self._texts.get(path, (None, None))
            if known != stat:
                now = datetime.now(UTC)
                try:
                    content = self._files.read(stat.path)
                except ValueError:  # binary
                    content = None
                if stat.digest is not None or (stat.modified and now - stat.modified > _SETTLED):
                    self._texts[stat.path] = stat, content
        except (OSError, ValueError):
            return None
        if content is not None:
            encoded = content.encode("utf-8", "surrogatepass")
            self._read[path] = hashlib.sha256(encoded).hexdigest()
        return content

    def sources(self, shown: Iterable[FileStat], directories: Iterable[str]) -> tuple[Source, ...]:
        """Return the states of entries, of directories, and of files that were read.

        Of ignore files, only those in the directories count.
        """
        states = {entry.path: _state_of(entry) for entry in shown}
        within = {*directories}
        states |= {path: names for path in within if (names := self._names(path)) is not None}
        read = {
            path: hash_
            for path, hash_ in self._read.items()
            if split(path)[1] != _IGNORE_FILE or split(path)[0] in within
        }
        return tuple(Source(path, state) for path, state in sorted({**states, **read}.items()))

    def changed(self, sources: Iterable[Source]) -> list[str]:
        """Return the paths whose states have changed, and new files in shown directories."""
        known = {source.path: source.state for source in sources}
        changed: dict[str, None] = {}
        for path, state in known.items():
            if state.startswith("names:"):
                if (names := self._names(path)) != state:
                    changed |= dict.fromkeys(self._others(path, known, is_listed=names is not None))
            elif self._state(path, is_read=":" not in state) != state:
                changed[path] = None
        return sorted(changed)

    def _state(self, path: str, *, is_read: bool) -> str | None:
        if is_read:
            return None if self.text(path) is None else self._read[path]
        try:
            return _state_of(self._files.stat(path))
        except (OSError, ValueError):
            return None

    def _names(self, directory: str) -> str | None:
        """Return the hash of the names in a directory; None if it is large or missing."""
        there = self._state(directory, is_read=False) or ""
        if directory and not there.startswith("directory:"):
            return None
        found = self._found(directory, _MOST_NAMES + 1)
        if len(found) > _MOST_NAMES:
            return None
        return _hash_of_names(entry.path for entry in self._kept(found))

    def _others(self, directory: str, known: dict[str, str], *, is_listed: bool) -> Iterator[str]:
        """Yield the new entries of a directory that was shown whole, else the directory."""
        within = [path for path in known if path and split(path)[0] == directory]
        now = self.entries(directory, _MOST_NAMES) if is_listed else []
        if known[directory] != _hash_of_names(within) or not is_listed:
            yield f"{directory}/"
        else:
            yield from (entry.path for entry in now if entry.path not in known)

    def _is_ignored(self, entry: FileStat) -> bool:
        path = f"{entry.path}/" if entry.kind == "directory" else entry.path
        for directory in (*ancestors(entry.path), ""):
            if directory not in self._specs:
                text = self.text(join(directory, _IGNORE_FILE))
                self._specs[directory] = None if text is None else _spec_of(text.splitlines())
            spec = self._specs[directory]
            if spec is not None:
                decided = spec.check_file(path[len(directory) + 1 :] if directory else path).include
                if decided is not None:
                    return decided
        return self._always.check_file(path).include is True


def _spec_of(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return the rules of lines; invalid lines are left out, as in git."""
    # Late, because most hosts show no digest.
    from pathspec import GitIgnoreSpec

    usable: list[str] = []
    for line in lines:
        with suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            usable.append(line)
    return GitIgnoreSpec.from_lines(usable)


def _state_of(entry: FileStat) -> str:
    leads = "" if entry.target is None else ascii(entry.target)
    return f"{entry.kind}:{entry.size}{leads}"


def _hash_of_names(paths: Iterable[str]) -> str:
    return "names:" + hashlib.sha256("\0".join(sorted(paths)).encode()).hexdigest()


# --- Manifests: files that say how a project is built, tested and started


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a manifest states."""

    about: str = ""  # the name and the description of the project
    commands: tuple[str, ...] = ()  # that build, test or check it
    entry_points: tuple[str, ...] = ()  # its programs


_TARGET: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)\s*:(?![=:])", re.MULTILINE)
_ENVIRONMENT: Final = re.compile(r"^\[testenv:([\w.-]+)\]", re.MULTILINE)
_RUN: Final = re.compile(r"^\s*(?:- )?run:[ \t]+([^|>\s].*)$", re.MULTILINE)


def _pyproject(text: str) -> Facts:
    table = tomllib.loads(text)
    project, tools = _table(table, "project"), _table(table, "tool")
    commands = ["python -m build"] if "build-system" in table else []
    commands += [name for name in ("pytest", "tox") if name in tools]
    scripts = {**_table(project, "scripts"), **_table(_table(tools, "poetry"), "scripts")}
    points = tuple(f"{name} = {target}" for name, target in scripts.items())
    return Facts(_title(project), tuple(commands), points)


def _package_json(text: str) -> Facts:
    package: dict[str, Any] = json.loads(text)
    points = tuple(f"{name} = {target}" for name, target in _table(package, "bin").items())
    commands = tuple(f"npm run {script}" for script in _table(package, "scripts"))
    return Facts(_title(package), commands, points)


READERS: Final[Mapping[str, Callable[[str], Facts]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Makefile": lambda text: Facts(
        commands=tuple(f"make {name}" for name in dict.fromkeys(_TARGET.findall(text)))
    ),
    "tox.ini": lambda text: Facts(
        commands=("tox", *(f"tox -e {name}" for name in _ENVIRONMENT.findall(text)))
    ),
}
"""The reader of each manifest, by its name."""

WORKFLOWS: Final = ".github/workflows"
"""The directory of the workflows that CI runs."""


def facts_of(name: str, text: str) -> Facts:
    """Return the facts that a manifest of a name states; no facts if it is malformed."""
    try:
        if name in READERS:
            return READERS[name](text)
        return Facts(commands=tuple(dict.fromkeys(run.strip() for run in _RUN.findall(text))))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Facts()


def _table(within: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Any = within.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _title(table: Mapping[str, Any]) -> str:
    name, told = table.get("name"), table.get("description")
    return ": ".join(text for text in (name, told) if isinstance(text, str) and text)


# --- The text


_LINE = 160
_README_LINES = 12
_FEW = 8
_CUT = "(The digest is cut here; digest_directory shows the rest.)"


@dataclass(frozen=True, slots=True)
class Made:
    """A digest that was made: its text, and all that it was made from."""

    body: str
    sources: tuple[Source, ...]

    @property
    def of(self) -> str:
        """The hash of the sources."""
        lines = (f"{source.path}\0{source.state}\n" for source in self.sources)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass
class _Tree:
    top: str
    found: dict[str, list[FileStat]]
    shown: dict[str, list[FileStat]] = field(default_factory=dict[str, list[FileStat]])
    beneath: Counter[str] = field(default_factory=Counter[str])

    def choose(self, config: DigestConfig, depth: int) -> None:
        """Choose the entries to show, the nearest first, and count the files beneath each."""
        room = config.max_entries
        for directory, entries in self.found.items():
            level = directory.removeprefix(self.top).strip("/").count("/") + (directory != self.top)
            if room and level < depth:
                most = room if directory == self.top else config.max_entries // 10 or 1
                some = entries[: min(room, most)]
                self.shown[directory] = some
                room -= len(some)
        for directory in reversed(self.found):
            files = sum(entry.kind == "file" for entry in self.found[directory])
            self.beneath[directory] += files
            if directory != self.top:
                self.beneath[split(directory)[0]] += self.beneath[directory]

    def lines(self, directory: str, indent: str = "") -> Iterator[str]:
        """Yield a line for each entry that is shown, those within it beneath."""
        for entry in self.shown.get(directory, ()):
            name = one_line(split(entry.path)[1])
            if entry.kind == "directory":
                files = counted(self.beneath[entry.path], "file", "files")
                readonly = ", read-only" if entry.readonly else ""
                yield f"{indent}{name}/ ({files}{readonly})"
                yield from self.lines(entry.path, f"{indent}  ")
            else:
                if entry.target is not None:
                    name += f" -> {one_line(shown_target(entry.target))}"
                yield f"{indent}{name}"
        shown = len(self.shown.get(directory, ()))
        if shown and (more := len(self.found[directory]) - shown):
            yield f"{indent}... and {more:,} more"


def make_digest(survey: Survey, config: DigestConfig, top: str = "", depth: int = 0) -> Made:
    """Return the digest of a directory, with `depth` levels; 0 for the number of the config."""
    tree = _Tree(top, dict(survey.walk(top)))
    tree.choose(config, depth or config.depth)
    names = [join(top, name) for name in READERS]
    names += [entry.path for entry in tree.found.get(join(top, WORKFLOWS), ())][:_FEW]
    present = {entry.path for entries in tree.found.values() for entry in entries}
    manifests = {
        path: facts_of(split(path)[1], text)
        for path in names
        if path in present and (text := survey.text(path)) is not None
    }
    files = [entry for entries in tree.found.values() for entry in entries if entry.kind == "file"]
    is_cut = sum(map(len, tree.found.values())) >= config.max_files
    told = counted(len(files), "file", "files") + (" or more" if is_cut else "")
    about = next((facts.about for facts in manifests.values() if facts.about), "")
    where = f"{tree.top}: " if tree.top else ""
    size = size_of(sum(entry.size for entry in files))
    lines = [(f"{where}{told}, {size}{'. ' * bool(about)}{one_line(about)}")]
    lines += _about(manifests)
    lines += _readme(survey, tree)
    lines += _kinds(tree)
    lines += ["", "Files:", *tree.lines(top)] if tree.found[top] else []
    shown = [entry for entries in tree.shown.values() for entry in entries]
    return Made(_within(lines, config.max_chars), survey.sources(shown, tree.shown))


def _about(manifests: dict[str, Facts]) -> Iterator[str]:
    if manifests:
        yield "Build and test, as these files say:"
    for path, facts in manifests.items():
        told = few(facts.commands)
        yield f"- {one_line(path)}{': ' * bool(told)}{told}"
    points = [point for facts in manifests.values() for point in facts.entry_points]
    if points:
        yield f"Entry points: {few(points)}"


def _readme(survey: Survey, tree: _Tree) -> Iterator[str]:
    for entry in tree.found[tree.top]:
        if entry.kind == "file" and split(entry.path)[1].casefold().startswith("readme"):
            text = survey.text(entry.path)
            if text is not None:
                yield f"From {one_line(entry.path)}:"
                said = (f"> {one_line(line)}" for line in text.splitlines() if line.strip())
                yield from islice(said, _README_LINES)
                return


def _kinds(tree: _Tree) -> Iterator[str]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entries in tree.found.values():
        for entry in entries:
            if entry.kind == "file":
                _, dot, ending = split(entry.path)[1].lstrip(".").rpartition(".")
                suffix = f".{ending.lower()}" if dot else "without suffix"
                counts[suffix] += 1
                sizes[suffix] += entry.size
    ordered = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))
    told = [f"{counts[name]:,} {one_line(name)} ({size_of(sizes[name])})" for name in ordered]
    if told:
        yield f"Kinds: {_listed(told)}"


def few(texts: Iterable[str]) -> str:
    """Return the first few texts as code, and how many more there are."""
    return _listed([f"`{one_line(text).replace('`', chr(39))}`" for text in texts])


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _FEW:,} more" if len(texts) > _FEW else ""
    return ", ".join(texts[:_FEW]) + more


def one_line(text: str) -> str:
    """Return a text from a file as a part of a line: cut, and without invisible characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: _LINE + 1]).strip()
    return shown if len(text) <= _LINE else f"{shown[: _LINE - 3]}..."


def _within(lines: Iterable[str], most: int) -> str:
    kept: list[str] = []
    room = most - len(_CUT) - 1
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*(kept or [line[: most - len(_CUT) - 1]]), _CUT])
        kept.append(line)
    return "\n".join(kept)


# --- Tools


_LEVEL = "src: 2 files, 12 bytes\nKinds: 2 .py (12 bytes)\n\nFiles:\napp.py\nwire.py"


@cached(64)
def digest_tools(
    key: str, config: DigestConfig, *, accepts_overrides: bool = True
) -> Sequence[Tool[Any, Any]]:
    """Return the tools of the digest of a key."""
    handlers = _Handlers(key, config)
    example = ToolExample("Look at one directory", {"path": "src"}, _LEVEL)
    options: Any = {
        "category": "read",
        "consequence": "low",
        "contained": True,
        "tags": ("files",),
        "accepts_overrides": accepts_overrides,
    }
    return (
        tool(**options, examples=(example,))(handlers.digest_directory),
        tool(**options)(handlers.refresh_digest),
    )


@dataclass(frozen=True)
class _Handlers:
    key: str
    config: DigestConfig

    def digest_directory(
        self,
        path: Annotated[str, "The directory; the root when empty."] = "",
        *,
        context: ToolContext,
    ) -> ToolResult[str]:
        """Show one level of a directory, and its changes since it was shown last."""
        with checking(context, f"Cannot show {shown(path) if path else ROOT}") as checks:
            stat = checks.directory(path)
            checks.pass_or_refuse()
            path = path if stat is None else stat.path
            shown_before = context.session[DirectoryDigest].where(lambda known: known.path == path)
            changed = [
                name
                for before in shown_before[-1:]
                for name in Survey(checks.files, self.config).changed(before.sources)
            ]
            made = make_digest(Survey(checks.files, self.config), self.config, path, depth=1)
        told = "Nothing has changed since it was shown." if shown_before else ""
        if changed:
            told = f"Changed since it was shown: {few(changed)}."
        context.session.dispatch(DirectoryDigest(path, made.sources))
        return ToolResult.ok(made.body, message=told)

    def refresh_digest(self, *, context: ToolContext) -> ToolResult[str]:
        """Make a new digest of the workspace, from its present files."""
        with checking(context, "Cannot make the digest") as checks:
            made = make_digest(Survey(checks.files, self.config), self.config)
        digest = WorkspaceDigest(self.key, made.body, context.clock.now(), made.of, made.sources)
        set_workspace_digest(context.session, digest)
        return ToolResult.ok(made.body, message="The digest is new.")


# --- The section


log = logging.getLogger("toolstile.workspace_digest")

PLACEHOLDER = (
    "The digest of the workspace is not made yet.\n\n"
    "Use `digest_directory` to look at one directory after the other, and `refresh_digest` for a "
    "digest of all of it."
)


class AutomaticDigests:
    """The automatic digests of a workspace, each made once; a resource of the session."""

    def __init__(self, files: Filesystem | None) -> None:
        # The workspace outside of any call.
        self._files = files
        self._lock = threading.Lock()
        self._made: dict[DigestConfig, Made] = {}
        self._texts: Texts = {}

    def digest(self, config: DigestConfig) -> Made | None:
        """Return the digest, made when it is first asked for; None without a workspace."""
        if self._files is None:
            return None
        with self._lock:
            if config not in self._made:
                survey = Survey(self._files, config, self._texts)
                self._made[config] = make_digest(survey, config)
            return self._made[config]

    def changed(self, config: DigestConfig, sources: Sequence[Source]) -> list[str]:
        """Return the paths that have changed; looks at the sources alone."""
        if self._files is None or not sources:
            return []
        return Survey(self._files, config, self._texts).changed(sources)


class WorkspaceDigestSection(MarkdownSection):
    """A digest of the workspace, with tools that show more of it and refresh it.

    Its text is the session's digest, else an overridden text, else an automatic digest, made
    without a model when it is first shown, else a placeholder.

    Args:
        session: Gets the reducers at once; by default each session gets them at its first use.
        config: The limits.
        key: The key of the section and of its digest in the session.
        visibility: Whether the model sees all of it or, at first, its summary.
        accepts_overrides: Whether its text and the tools' descriptions may be overridden.

    Example:
        >>> [tool.name for tool in WorkspaceDigestSection().tools]
        ['digest_directory', 'refresh_digest']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,
        *,
        config: DigestConfig | None = None,
        key: str = KEY,
        visibility: Visibility = Visibility.SUMMARY,
        accepts_overrides: bool = True,
    ) -> None:
        config = config or DigestConfig()
        super().__init__(
            key=key,
            title="Workspace digest",
            template=PLACEHOLDER,
            tools=digest_tools(key, config, accepts_overrides=accepts_overrides),
            resources=(Binding(AutomaticDigests, _automatic),),
            on_session=register_reducers,
            visibility=visibility,
            summary=config.summary or _first_line(PLACEHOLDER),
            accepts_overrides=accepts_overrides,
        )
        object.__setattr__(self, "config", config)
        if session is not None:
            register_reducers(session)

    def text_in(
        self, session: SessionProtocol | None, resources: ResourceResolver | None, body: str
    ) -> SectionText:
        """Return the digest that a session shows, and name the files that have changed since."""
        config: DigestConfig = vars(self)["config"]
        sources: Sequence[Source] = ()
        stale: list[str] = []
        kept = None if session is None else latest_workspace_digest(session, self.key)
        try:
            automatic = None if resources is None else resources.get(AutomaticDigests, None)
            if kept is not None:
                body, sources = kept.body, kept.sources
            elif automatic is not None and body == self.template:
                made = automatic.digest(config)
                if made is None:
                    _tell_once(self.key, "it has no workspace, and no digest was set")
                else:
                    body, sources = made.body, made.sources
            stale = [] if automatic is None else automatic.changed(config, sources)
        except (OSError, ToolstileError) as error:
            _tell_once(self.key, str(error))
        summary = config.summary or _first_line(body)
        told = (
            f"\n\nStale: {few(stale)} changed since this was made. Call refresh_digest."
            if stale
            else ""
        )
        return SectionText(f"{body}{told}", f"{summary}{told}")


def _automatic(resources: ResourceResolver) -> AutomaticDigests:
    # A protocol serves as the key, which mypy does not foresee for type[T].
    return AutomaticDigests(resources.get(Filesystem, None))  # type: ignore[type-abstract]


def _first_line(body: str) -> str:
    return one_line(body.strip().partition("\n")[0])


@cache
def _tell_once(key: str, why: str) -> None:
    log.warning("The section %r shows no digest of the workspace: %s", key, why)
