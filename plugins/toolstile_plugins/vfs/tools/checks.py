"""Checks before a file tool acts, which report all faults at once."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Generator
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from toolstile_hookspecs import (
    FileStat,
    Filesystem,
    SupportsNotes,
    ToolContext,
    ToolstileError,
    ToolValidationError,
)
from toolstile_hookspecs.codecs import as_sentence
from toolstile_hookspecs.support.text import counted, looks_like, near
from toolstile_plugins.vfs.nodes import is_attached
from toolstile_plugins.vfs.paths import ALIAS
from toolstile_plugins.vfs.tools.models import size_of

ROOT: Final = "the root of the workspace"
"""The name of the root in messages."""

_COMPARED_NAMES: Final = 2_000
_COMPARED_NEAR: Final = 10
_ALIKE: Final = 0.6
_SAYS_WHETHER_TO_RETRY: Final = re.compile("retry|human intervention|cannot be edited")


@contextlib.contextmanager
def checking(context: ToolContext, what: str) -> Generator[Checks]:
    """Give the checks of a call, and turn errors of the file system into messages for models.

    Messages begin with `what`, such as `Cannot read a.txt`.
    """
    files = context.filesystem
    if files is None:
        raise ToolValidationError(
            "There is no workspace here, so this tool cannot work. It requires human "
            "intervention: bind a Filesystem."
        )
    try:
        yield Checks(files, what)
    except ToolstileError:
        raise
    except (OSError, ValueError) as error:
        raise ToolValidationError(f"{what}: {_with_retry(reason_of(error))}") from error


def _with_retry(fault: str) -> str:
    says_all = _SAYS_WHETHER_TO_RETRY.search(fault) is not None
    return fault if says_all or ". " not in fault else f"{fault} Then retry."


def reason_of(error: OSError | ValueError) -> str:
    """Return the message of a file system's error as a sentence."""
    if isinstance(error, UnicodeError):
        return "its text is not UTF-8."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror.lower()}. This requires human intervention."
    return as_sentence(str(error) or "the workspace refuses it")


class Checks:
    """Collects the faults of a call."""

    def __init__(self, files: Filesystem, what: str) -> None:
        self.files = files
        self._what = what
        self._faults: list[str] = []
        self._readonly: list[str] = []
        self._cause: Exception | None = None

    def add(self, fault: str) -> None:
        if fault not in self._faults:
            self._faults.append(fault)

    def pass_or_refuse(self) -> None:
        """Return if no fault was added, or raise a `ToolValidationError` that names all faults."""
        if not self._faults:
            return
        faults = [*self._faults, *self._readonly]
        if len(faults) == 1:
            raise ToolValidationError(f"{self._what}: {_with_retry(faults[0])}") from self._cause
        lines = "\n".join(f"  - {fault}" for fault in faults)
        told = f"{self._what}:\n{lines}\nFix all of these, then retry."
        raise ToolValidationError(told) from self._cause

    def stat(self, path: str) -> FileStat | None:
        """Return the facts about a path; an impossible path is a fault."""
        with self._adding(), contextlib.suppress(FileNotFoundError):
            return self.files.stat(path)
        return None

    def existing(self, path: str) -> FileStat | None:
        """Return the facts about a path that must exist."""
        before = len(self._faults)
        stat = self.stat(path)
        if stat is None and len(self._faults) == before:
            self.add(missing(self.files, path))
        return stat

    def file(self, path: str) -> FileStat | None:
        """Return the facts about a path that must be a file."""
        instead = "is a directory. Use list_directory to see its entries."
        return self._of_kind(path, "file", instead)

    def directory(self, path: str) -> FileStat | None:
        """Return the facts about a path that must be a directory."""
        instead = "is a file, not a directory. Use read_file to see it."
        return self._of_kind(path, "directory", instead)

    def _of_kind(self, path: str, kind: str, instead: str) -> FileStat | None:
        stat = self.existing(path)
        if stat is None or stat.kind == kind:
            return stat
        is_other = stat.kind in {"link", "other"}
        self.add(_why_closed(self.files, path) if is_other else f"{shown(path)} {instead}")
        return None

    def target(self, path: str, *, overwrite: bool) -> FileStat | None:
        """Return the facts about a path to write a file to, None if it is free."""
        stat = self.stat(path)
        if stat is None:
            return None
        if stat.kind == "directory":
            self.add(
                f"{shown(path)} is a directory that already exists. Give the whole path of "
                f"the file, such as {path.rstrip('/')}/name."
            )
        elif stat.kind != "file":
            self.add(_why_closed(self.files, path))
        elif not overwrite:
            self.add(
                f"{shown(path)} already exists ({size_of(stat.size)}). To replace it, retry with "
                "overwrite=true; otherwise choose another path."
            )
        return stat

    def writable(self, path: str) -> None:
        """Check that a path can be changed.

        A read-only path alone does not fail here. The file system says why it refuses the change.
        """
        with self._adding():
            if not self.files.is_readonly(path):
                return
            if self.files.is_readonly(""):
                fault = "Nothing in the workspace can be changed. That requires human intervention."
            else:
                fault = f"{shown(path)} is read-only. Choose another path."
            if fault not in self._readonly:
                self._readonly.append(fault)

    def noted(self, message: str) -> str:
        """Return a message with the notes of the workspace."""
        notes = self.files.notes() if isinstance(self.files, SupportsNotes) else ()
        return "\n".join([message, *(f"Note: {note}" for note in notes)])

    @contextlib.contextmanager
    def _adding(self) -> Generator[None]:
        try:
            yield
        except ToolstileError:
            raise
        except (OSError, ValueError) as error:
            self._cause = error
            self.add(reason_of(error))

    def size(self, path: str, size: int, most: int, remedy: str) -> None:
        if size > most:
            self.add(f"{shown(path)} {too_large(size, most)} {remedy}")


def too_large(size: int, most: int) -> str:
    """Return the fault of a size, in bytes if both sizes look the same otherwise."""
    shown_size, allowed = size_of(size), size_of(most)
    if shown_size == allowed:
        shown_size, allowed = counted(size, "byte"), counted(most, "byte")
    return f"has {shown_size}, more than the {allowed} that are allowed here."


def shown(path: str) -> str:
    """Return the name of a path in messages."""
    if path == ALIAS or path.startswith(f"{ALIAS}/"):
        path = path.removeprefix(ALIAS)
    text = path.strip("/")
    return ROOT if text in {"", "."} else text


def missing(files: Filesystem, path: str) -> str:
    """Return the fault of a missing path, with similar names and the next step."""
    directory = ""
    for name in path.removeprefix(ALIAS).split("/"):
        if name in {"", "."}:
            continue
        here = f"{directory}/{name}" if directory else name
        with contextlib.suppress(OSError, ValueError):
            if files.stat(here).kind == "directory":
                directory = here
                continue
        break
    else:
        name = path
    other = _near(files, directory, name)
    guess = f" Did you mean {other}?" if other else ""
    if other and looks_like(name, other.rpartition("/")[2]):
        guess = f" {other} looks the same, but is written in another Unicode form: {other!a}."
    if is_attached(shown(path)):
        return f"There is no {shown(path)} any more. Call the tool that has written it again."
    where = f"list_directory on {directory}" if directory else "list_directory"
    return f"There is no {shown(path)}.{guess} Use {where} to see all entries, then retry."


def twin_of(files: Filesystem, path: str) -> str:
    """Return a note if a new file's neighbour has its name in another Unicode form."""
    directory, _, name = path.removeprefix(ALIAS).rpartition("/")
    other = None if name.isascii() else _near(files, directory, name, but=name)
    if other is None or not looks_like(name, other.rpartition("/")[2]):
        return ""
    return f" Beside it is {other!a}, which looks the same in another Unicode form."


def _why_closed(files: Filesystem, path: str) -> str:
    try:
        files.open(path, "rb").close()
    except ToolstileError:
        raise
    except (OSError, ValueError) as error:
        return reason_of(error)
    return f"{shown(path)} is neither a file nor a directory and cannot be opened."


def _near(files: Filesystem, directory: str, name: str, *, but: str = "") -> str | None:
    with contextlib.suppress(OSError, ValueError):
        paths = {
            last.lower(): stat.path
            for stat in islice(files.list(directory), _COMPARED_NAMES)
            if (last := stat.path.rpartition("/")[2]) != but
        }
        wanted = name.lower()[:200]
        found = near(wanted, paths, _COMPARED_NEAR)
        return next((paths[match] for match in found if _is_near(wanted, match)), None)
    return None


def _is_near(name: str, other: str) -> bool:
    """Return whether names are similar without their suffixes, which many files share."""
    if looks_like(name, other):
        return True
    one, another = PurePosixPath(name).stem, PurePosixPath(other).stem
    return difflib.SequenceMatcher(None, one, another).ratio() >= _ALIKE
