"""The findings of `toolstile doctor` on the files of the inbox."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.directories import file_finding


def diagnosed(path: Path | None, key: Path | None) -> Iterator[Diagnostic]:
    """Yield findings on the files of the inbox."""
    if key is None:
        yield Diagnostic.note("inbox", "No questions are kept: no path is in [plugins.inbox].")
        return
    if find_spec("cryptography") is None:
        yield Diagnostic.error(
            "inbox",
            "cryptography is not installed, so no question can be sealed.",
            "Run: pip install 'toolstile[inbox]'",
        )
    if path is not None:
        yield file_finding(path, "inbox")
    found = file_finding(key, "key of the inbox")
    if key.exists() and key.stat().st_mode & 0o077:
        found = Diagnostic.warning(
            found.subject,
            "Other users can read it, so they can answer in a person's place.",
            f"Run: chmod 600 {key}",
        )
    yield found
    yield Diagnostic.note(
        found.subject,
        "Who reads it can answer: an agent's shell under this user can, outside of a sandbox.",
    )
