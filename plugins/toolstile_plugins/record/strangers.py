"""What a file seems to be that is no record, and what can be done with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

CALL: Final = frozenset({"id", "name", "arguments"})
"""The fields of a line that `toolstile run` reads."""


def what_it_seems(path: Path, first: bytes) -> str:
    """Return what a file seems to be, and what to do, for the end of a message.

    Args:
        path: The file.
        first: Its first line that is not blank.
    """
    try:
        text = first.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        text = "\0"
    if _is_call(text):
        return (
            f"it seems to hold calls that are still to be made. Make them with `toolstile run "
            f"{path}`; `--record FILE` makes a record of them."
        )
    if text.startswith(("{", "[")):
        return (
            "it seems to be JSON of another kind. Name a file that `--record` has written; the "
            f"calls of a recorded conversation are made with `toolstile run {path}`."
        )
    kind = "text" if text.replace("\t", "").isprintable() else "no text at all"
    return f"it seems to be {kind}. Name a file that `--record` has written."


def _is_call(text: str) -> bool:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "name" in value and value.keys() <= CALL
