"""The text of a digest that is made without a model: bounded, and the same for the same files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from toolstile_hookspecs import FileStat
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.nodes import shown_target
from toolstile_plugins.vfs.paths import join, split
from toolstile_plugins.vfs.tools.models import size_of
from toolstile_plugins.workspace_digest.manifests import READERS, WORKFLOWS, Facts, facts_of
from toolstile_plugins.workspace_digest.model import Source
from toolstile_plugins.workspace_digest.settings import DigestConfig
from toolstile_plugins.workspace_digest.survey import Survey

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
    """Return the digest of a directory.

    Args:
        survey: A look at the workspace.
        config: The bounds.
        top: The directory.
        depth: Directories of this many levels are shown; 0 for those of the bounds.
    """
    tree = _Tree(top, dict(survey.walk(top)))
    tree.choose(config, depth or config.depth)
    manifests = dict(_manifests(survey, tree))
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


def _manifests(survey: Survey, tree: _Tree) -> Iterator[tuple[str, Facts]]:
    names = [join(tree.top, name) for name in READERS]
    names += [entry.path for entry in tree.found.get(join(tree.top, WORKFLOWS), ())][:_FEW]
    present = {entry.path for entries in tree.found.values() for entry in entries}
    for path in names:
        if path in present and (text := survey.text(path)) is not None:
            yield path, facts_of(split(path)[1], text)


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
    """Return a text from a file as a part of a line: bounded, and without what cannot be seen."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: _LINE + 1]).strip()
    return shown if len(text) <= _LINE else f"{shown[: _LINE - 3]}..."


def _within(lines: Iterable[str], most: int) -> str:
    """Return lines, cut at a line where they have too many characters."""
    kept: list[str] = []
    room = most - len(_CUT) - 1
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*(kept or [line[: most - len(_CUT) - 1]]), _CUT])
        kept.append(line)
    return "\n".join(kept)
