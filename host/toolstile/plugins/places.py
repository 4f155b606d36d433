"""Finds where in an author's own file something went wrong."""

from __future__ import annotations

import functools
import os
import traceback
from pathlib import Path


def place_of(error: BaseException | None) -> str | None:
    """Return the file and line of an author's own code from which an exception came.

    Args:
        error: The exception; with None there is no place.

    Returns:
        Such as `room.py, line 3`; None where no code of theirs ran.
    """
    if error is None:
        return None
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not _is_machinery(each.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else None


def _is_machinery(filename: str) -> bool:
    return filename.startswith(("<", *_machinery()))


@functools.cache
def _machinery() -> tuple[str, ...]:
    """Return where the code lies that imports, or makes classes of what an author writes."""
    import dataclasses
    import importlib

    import importlib_metadata
    import pydantic

    import toolstile
    import toolstile_hookspecs

    packages = (importlib, importlib_metadata, pydantic, toolstile, toolstile_hookspecs)
    # The packages of plugins may lie beside ours, and have names that begin like it.
    folders = (f"{Path(each.__file__ or '').parent}{os.sep}" for each in packages)
    return (*folders, str(dataclasses.__file__))
