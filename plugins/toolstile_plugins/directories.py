"""The directories of plugins' files: made when needed, checked by `toolstile doctor`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from toolstile_hookspecs import Diagnostic
from toolstile_hookspecs.support.process import make_directory

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
    return _there(subject, file, os.R_OK | os.W_OK, "It cannot be written.")


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
    if folder.exists() and not folder.is_dir():
        return Diagnostic.error(subject, "It is not a directory.", "Configure the path of one.")
    return _there(subject, folder, os.R_OK | os.W_OK | os.X_OK, "Nothing can be made in it.")


def _there(subject: str, path: Path, rights: int, fault: str) -> Diagnostic:
    if path.exists():
        if os.access(path, rights):
            return Diagnostic.ok(subject, "It is there.")
        remedy = "Give this user the right to, or configure another."
        return Diagnostic.error(subject, fault, remedy)
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
