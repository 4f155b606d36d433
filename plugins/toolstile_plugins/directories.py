"""The directories of plugins' files: made when needed, checked by `toolstile doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import Diagnostic, Severity
from toolstile_hookspecs.support.process import make_directory

if TYPE_CHECKING:
    from sqlite3 import Connection

_OURS: Final = ".toolstile"


def make_directory_of(file: Path) -> None:
    """Make the directory of a file, with its parents, if it does not exist.

    A new directory survives a loss of power. A new `.toolstile` is ignored by version control,
    because its files contain calls.
    """
    directory = file.parent
    if directory.is_dir():
        return
    make_directory(directory)
    if directory.name == _OURS:
        with suppress(FileExistsError), (directory / ".gitignore").open("x") as ignore:
            ignore.write("*\n")


def file_finding(file: Path, role: str) -> Diagnostic:
    """Return whether a file with a role, such as `ledger`, can be written or made."""
    subject = f"{role} {file}"
    if file.is_dir():
        return Diagnostic.error(subject, "It is a directory.", "Configure the path of a file.")
    if not file.exists():
        return _to_be_made(subject, file)
    if not os.access(file, os.R_OK | os.W_OK):
        return Diagnostic.error(
            subject, "It cannot be written.", "Give this user the right to, or configure another."
        )
    return Diagnostic.ok(subject, "It is there.")


def database_finding(
    file: Path, role: str, fault_of: Callable[[Connection], tuple[str, str] | None]
) -> Diagnostic:
    """Return whether a SQLite file can be used and written, or made; nothing is changed.

    `fault_of` returns why its content cannot be used, and a remedy; None if it can.
    """
    import sqlite3  # late: only `toolstile doctor` comes here

    found = file_finding(file, role)
    if found.severity is not Severity.OK or not file.exists():
        return found
    try:
        # Only begins to write, because a finding changes nothing.
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=1)) as connection:
            if (fault := fault_of(connection)) is not None:
                return Diagnostic.error(found.subject, *fault)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except sqlite3.OperationalError as error:
        told = f"It cannot be written now ({error})."
        remedy = "Find the process that has it open, and check the room on the disk."
        return Diagnostic.warning(found.subject, told, remedy)
    except sqlite3.DatabaseError as error:
        remedy = "Move it away, or configure another path."
        return Diagnostic.error(found.subject, f"It is not a database ({error}).", remedy)
    return found


def appended_finding(file: Path, role: str, setting: str) -> Diagnostic:
    """Return whether a file can be appended to; its directory must exist."""
    if file.absolute().parent.is_dir():
        return file_finding(file, role)
    return Diagnostic.error(
        f"{role} {file}",
        "The directory of the file is not there.",
        f"Make it, or name another file in {setting}.",
    )


def folder_finding(folder: Path, role: str) -> Diagnostic:
    """Return whether files can be made in a folder, or the folder itself; nothing is changed."""
    subject = f"{role} {folder}"
    if not folder.exists():
        return _to_be_made(subject, folder)
    if not folder.is_dir():
        return Diagnostic.error(subject, "It is not a directory.", "Configure the path of one.")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Diagnostic.error(
            subject,
            "Nothing can be made in it.",
            "Give this user the right to, or configure another.",
        )
    return Diagnostic.ok(subject, "It is there.")


def _to_be_made(subject: str, path: Path) -> Diagnostic:
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        return Diagnostic.error(
            subject, f"{nearest} is not a directory.", "Configure a path within a directory."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Diagnostic.error(
            subject,
            f"It is not there, and nothing can be made in {nearest}.",
            "Give this user the right to, or configure another place.",
        )
    return Diagnostic.ok(subject, "It is not there yet, and is made when it is needed.")
