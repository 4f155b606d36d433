"""Git repositories in and beside a workspace, and the files that their configuration names."""

# ruff: noqa: PTH111, PTH112, PTH113, PTH118, PTH120 - texts: many names are looked up

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Final

from toolstile_hookspecs import Diagnostic
from toolstile_hookspecs.services.workspace import FileChanges
from toolstile_plugins.vfs import paths, protected_globs as globs

Entry = tuple[str, str, str, str]
"""Section, subsection, key and value of a configuration."""

_SECTION: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?: "([^"\\\n]*)")?\]')
_ENTRY: Final = re.compile(r"[\t ]*([A-Za-z][A-Za-z0-9-]*)[\t ]*(?:=[\t ]*([^\\\n]*))?")
_PLAIN: Final = re.compile(r"[\w./@+-]+", re.ASCII)
_LINE: Final = re.compile(
    r'^[\t ]*(?:\[[\w.-]+(?:[\t ]+"(?:\\.|[^"\\\n])*")?\])?[\t ]*([\w-]+)[\t ]*=(.*)', re.MULTILINE
)
_PIECE: Final = re.compile(r'[;#].*|"((?:\\.|[^"\\])*)"?|(\\.)|([^"\\;#]+)')
_TREES: Final = frozenset({"hookspath", "templatedir"})
_FILES: Final = re.compile(
    r"path|attributesfile|fsmonitor|askpass|external|clean|smudge|process|textconv|driver|vcs|"
    r"\w*(?:command|cmd|pager|editor|filter|program|helper|hook|proxy|pack)"
)
_BETWEEN: Final = re.compile(r"[\s;&|(){}<>'\"`=]+")
_MOST_FILES: Final = 64
_MOST_FOLDERS: Final = 50_000


# --- Repositories


def obeyed_by_git(changes: FileChanges, path: str) -> bool:
    """Tell whether a change makes a directory a repository, or is of a file that one obeys.

    These are repositories whose directory is not called `.git`: bare ones, those of submodules and
    linked worktrees, or any that a command has renamed.
    """

    def is_repository(directory: str, *, before: bool) -> bool:
        def has(name: str) -> bool:
            return changes.stat(paths.join(directory, name), before) is not None

        return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))

    after = changes.stat(path, False)  # noqa: FBT003 - the contract's
    obeyed = globs.obeyed_by_git(is_link=after is not None and after.kind == "link")
    directory, name = paths.split(path)
    if name in {"HEAD", "commondir", "objects", "refs"} and (
        is_repository(directory, before=False) and not is_repository(directory, before=True)
    ):
        return True
    names = path.split("/")
    places = [at for at in range(len(names)) if obeyed.fullmatch("/".join(names[at:]))]
    return any(
        is_repository("/".join(names[:at]), before=before)
        for at in places
        for before in (True, False)
    )


def named_by_git(directory: str) -> Iterator[str]:
    """Yield the files and folders that the configuration of a repository names.

    These are the hooks folder, included files, and programs such as those of a filter.
    """
    git, common = _directories_of(directory)
    if not os.path.isdir(git):
        git = common = directory
    if not os.path.isfile(f"{git}/HEAD"):
        return
    home = os.path.expanduser("~")
    ours = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = [f"{common}/config", f"{git}/config.worktree", "/etc/gitconfig"]
    files += [f"{ours}/git/config", f"{home}/.gitconfig"]
    for file in files:
        for key, value in _settings(file):
            is_included = key == "path"
            beside = os.path.dirname(file) if is_included else directory
            named = os.path.join(beside, os.path.expanduser(value))
            if is_included and named not in files and len(files) < _MOST_FILES:
                files.append(named)
            if key in _TREES:
                yield named
            elif key != "merge":
                words = _BETWEEN.split(value.removeprefix("!"))
                whole = [value, words[0]] if _FILES.fullmatch(key) else []
                names = [*whole, *(each for each in words if "/" in each)]
                paths_of = (os.path.join(beside, os.path.expanduser(each)) for each in names)
                # A command may name a directory, whose files it does not run.
                yield from (each for each in paths_of if not os.path.isdir(each))


class Repositories:
    """The working trees and bare repositories in a directory, at any depth.

    The search takes one percent of the time, so a new one may be found some seconds late.
    """

    def __init__(self) -> None:
        self._found: list[str] = []
        self._until = 0.0

    def __call__(self, root: str) -> list[str]:
        """Return their directories."""
        if (started := monotonic()) >= self._until:
            found: list[str] = []
            for place, folders, names in islice(os.walk(root), _MOST_FOLDERS):
                if ".git" in folders or ".git" in names or ("HEAD" in names and "refs" in folders):
                    found.append(place)
                folders[:] = [each for each in folders if each != ".git"]
            self._found, self._until = found, monotonic() + 99 * (monotonic() - started)
        return self._found


def _settings(file: str) -> Iterator[tuple[str, str]]:
    text = _text(file)
    # Git does not continue a comment, so that a joined line may hide the next one.
    for each in (text, text.replace("\\\n", "")) if "\\\n" in text else (text,):
        for key, value in _LINE.findall(each):
            pieces = "".join("".join(piece) for piece in _PIECE.findall(value))
            yield key.lower(), re.sub(r"\\(.)", r"\1", pieces).strip()


def _directories_of(directory: str) -> tuple[str, str]:
    """Return the git directory of a working tree, and the one of its whole repository."""
    git = f"{directory}/.git"
    if (link := _text(git)).startswith("gitdir:"):
        git = os.path.join(directory, link.removeprefix("gitdir:").strip())
    return git, os.path.join(git, _text(f"{git}/commondir").strip())


def _text(file: str) -> str:
    with suppress(OSError):
        # A FIFO would never end.
        return Path(file).read_text("utf-8", "replace") if os.path.isfile(file) else ""
    return ""


# --- Configuration


def is_harmless(before: bytes, after: bytes) -> bool:
    """Tell whether a configuration changed only in the branches that follow known remotes.

    Every line that could be read in another way than the one in which git writes it is a change.
    """
    old, new = _entries(before), _entries(after)
    if old is None or new is None:
        return False
    remotes = {name for section, name, key, _ in old if (section, key) == ("remote", "url")}
    return [each for each in old if not _follows(each)] == [
        each for each in new if not _follows(each) or not (each in old or _is_known(each, remotes))
    ]


def _follows(entry: Entry) -> bool:
    section, name, key, _ = entry
    return section == "branch" and name != "" and key in {"remote", "merge"}


def _is_known(entry: Entry, remotes: set[str]) -> bool:
    *_, key, value = entry
    if _PLAIN.fullmatch(value) is None:
        return False
    return value in remotes if key == "remote" else value.startswith("refs/heads/")


def _entries(content: bytes) -> list[Entry] | None:
    """Return the entries in order; None unless every line is as git writes it."""
    found: list[Entry] = []
    section = name = ""
    for line in content.decode("latin-1").split("\n"):
        if not line.strip("\t ") or line.lstrip("\t ").startswith(("#", ";")):
            if line.endswith("\\"):
                return None
            continue
        if (head := _SECTION.fullmatch(line)) is not None:
            section, name = head[1].lower(), head[2] or ""
        elif (entry := _ENTRY.fullmatch(line)) is not None and section:
            # Without a value it is true, with an empty one false.
            value = "\n" if entry[2] is None else entry[2].rstrip("\t ")
            found.append((section, name, entry[1].lower(), value))
        else:
            return None
    return found


def outside_repository(root: Path) -> Path | None:
    """Return the git directory that a workspace needs and does not contain, None if there is none.

    For a linked worktree it is the directory of the whole repository, which has the commits.

    Args:
        root: The directory of the workspace.
    """
    with suppress(OSError, ValueError):
        found = Path(_directories_of(str(root))[1]).resolve()
        return None if found.is_relative_to(root.resolve()) else found
    return None


def diagnose_repository(root: Path) -> Diagnostic | None:
    """Return how far git works for commands in a sandbox, None if nothing limits it."""
    repository = outside_repository(root)
    if repository is None:
        return None
    remedy = "To let them commit, use a clone as the workspace, or the repository of a submodule."
    # A relative pointer leads to another place in a sandbox, where the workspace is `/workspace`.
    if _text(f"{root}/.git").startswith("gitdir: /"):
        remedy = f'With readable = ["{repository}"] in [plugins.sandbox] they read it. {remedy}'
    return Diagnostic.note(
        f"git in {root}",
        "The workspace is a linked git worktree or a submodule: its repository lies in "
        f"{repository}, so commands in a sandbox can neither read it nor commit.",
        remedy,
    )
