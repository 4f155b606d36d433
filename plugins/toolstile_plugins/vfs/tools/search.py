"""The tools that find files by their paths, and lines by what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from toolstile_hookspecs import FileMatch, Tool, ToolContext, ToolExample, ToolResult
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.tools.checks import ROOT, Checks, explaining, noted, shown, workspace
from toolstile_plugins.vfs.tools.params import GlobFiles, GrepFiles
from toolstile_plugins.vfs.tools.read import Page, cut, entry_of, rest
from toolstile_plugins.vfs.tools.results import Entry, Found, Matches, line_of

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """The handlers, with their limits.

    Args:
        config: The limits.
    """

    config: VfsConfig

    def glob_files(self, params: GlobFiles, *, context: ToolContext) -> ToolResult[Found]:
        """Find files by their paths."""
        files, what = workspace(context), f"Cannot look for {params.pattern}"
        with explaining(what):
            checks = Checks(files, what)
            checks.directory(params.path)
            checks.pass_or_refuse()
            stats = _while_wanted(files.glob(params.pattern, params.path), context)
            entries = [entry_of(stat) for stat in stats]
        page = cut(
            entries,
            lambda entry: entry.path,
            offset=params.offset,
            limit=params.limit,
            max_chars=self.config.max_result_chars,
        )
        message = _told_found(params, page, len(entries))
        found = Found(page.items, page.first, len(entries))
        return ToolResult.ok(found, message=noted(message, files))

    def grep_files(self, params: GrepFiles, *, context: ToolContext) -> ToolResult[Matches]:
        """Find lines by a regular expression."""
        files, what = workspace(context), f"Cannot search for {params.pattern}"
        with explaining(what):
            checks = Checks(files, what)
            checks.existing(params.path)
            checks.pass_or_refuse()
            pattern = f"(?i){params.pattern}" if params.ignore_case else params.pattern
            found = files.search(pattern, params.path, glob=params.glob)
            page = cut(
                _while_wanted(found, context),
                line_of,
                offset=params.offset,
                limit=params.limit,
                max_chars=self.config.max_result_chars,
            )
        message = noted(_told_matches(params, page), files)
        return ToolResult.ok(Matches(page.items, page.first, page.more), message=message)


def _while_wanted(items: Iterable[T], context: ToolContext) -> Iterator[T]:
    """Yield items until the call is cancelled, which the host then says."""
    for item in items:
        if context.cancelled:
            return
        yield item


def _told_found(params: GlobFiles, page: Page[Entry], total: int) -> str:
    where = _where(params.path)
    if total == 0:
        return (
            f"Nothing{where} matches {params.pattern}. ** crosses directories, as in **/*.py; "
            "grep_files looks at what files say."
        )
    if not page.items:
        return f"There is nothing at offset {page.first}: {counted(total, 'path')} match."
    verb = "matches" if total == 1 else "match"
    if page.is_whole:
        return f"{counted(total, 'path')}{where} {verb} {params.pattern}:"
    return (
        f"{counted(total, 'path')}{where} {verb} {params.pattern}; {page.span} are shown."
        f"{rest('glob_files', page)}"
    )


def _told_matches(params: GrepFiles, page: Page[FileMatch]) -> str:
    where = _where(params.path)
    if not page.items and page.first == 1:
        return f"No line{where} matches {params.pattern}. Try a shorter or simpler pattern."
    if not page.items:
        return f"There is nothing at offset {page.first}: fewer lines match."
    held = counted(len({each.path for each in page.items}), "file")
    if page.is_whole:
        verb = "matches" if len(page.items) == 1 else "match"
        return f"{counted(len(page.items), 'line')}{where} {verb} {params.pattern}, in {held}:"
    return f"Matches {page.span}{where} are shown, in {held}.{rest('grep_files', page)}"


def _where(path: str) -> str:
    name = shown(path)
    return f" in {'the workspace' if name == ROOT else name}"


def finding_tools(config: VfsConfig) -> tuple[Tool[Any, Any], ...]:
    """Return the tools that find files and lines."""
    finding = Finding(config)
    return (
        Tool[GlobFiles, Found](
            name="glob_files",
            description="Find files and directories by a pattern of their paths, such as **/*.py.",
            handler=finding.glob_files,
            category="read",
            consequence="low",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "Find all Python files",
                    GlobFiles("**/*.py"),
                    Found((Entry("src/app.py", "file", 840),), 1, 1),
                ),
            ),
        ),
        Tool[GrepFiles, Matches](
            name="grep_files",
            description="Find lines in text files by a regular expression.",
            handler=finding.grep_files,
            category="read",
            consequence="low",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "Find where something is defined",
                    GrepFiles(r"def main\b", glob="**/*.py"),
                    Matches((FileMatch("src/app.py", 12, "def main() -> int:"),), 1, more=False),
                ),
            ),
        ),
    )
