"""Diffs of a branch, for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Final

from toolstile_plugins.vfs.backends.base import Change
from toolstile_plugins.vfs.nodes import Content, Node
from toolstile_plugins.vfs.text_files import encoding_of, lines_of, looks_binary, text_of
from toolstile_plugins.vfs.write_set import Layer

#: Comparing takes longer than the product of the lengths in the worst case.
_MAX_BYTES: Final = 512 * 1024
_MAX_LINES: Final = 5_000


def diff(layer: Layer) -> str:
    """Return a unified diff of text files; of everything else one line each."""
    changes = [change for change in layer.changes().made if not change.only_empties]
    moved = dict(_moves(layer, changes))
    origins = set(moved.values())
    parts: list[str] = []
    for change in changes:
        before = layer.before(change.path)
        if change.path in moved:
            parts.append(f"moved {moved[change.path]} to {change.path}\n")
        elif change.path not in origins:
            parts.append(_one(change.path, before, change.after))
    return "".join(parts)


def _moves(layer: Layer, changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """Yield target and source of the files whose content only changed its place."""
    gone: dict[Content, str] = {}
    for change in changes:
        before = layer.before(change.path)
        if change.after is None and before is not None and before.content is not None:
            gone[before.content] = change.path
    for change in changes:
        content = change.after.content if change.after is not None else None
        if content is not None and content in gone and change.kind is None:
            yield change.path, gone.pop(content)


def _one(path: str, before: Node | None, after: Node | None) -> str:
    old = before.content if before is not None else None
    new = after.content if after is not None else None
    if after is None:
        slash = "/" if before is not None and before.kind == "directory" else ""
        size = f" ({old.size} bytes)" if old is not None else ""
        return f"deleted {path}{slash}{size}\n"
    if new is None:
        return f"created {path}/\n"
    texts = _lines(old), _lines(new)
    if texts[0] is None or texts[1] is None:
        verb = "created" if old is None else "changed"
        sizes = f"{new.size} bytes" if old is None else f"{old.size} to {new.size} bytes"
        form = "binary" if _is_binary(old) or _is_binary(new) else "large"
        return f"{verb} {path} ({form}, {sizes})\n"
    if old is None and not texts[1]:
        return f"created {path} (empty)\n"
    source = "/dev/null" if old is None else f"a/{path}"
    lines = difflib.unified_diff(texts[0], texts[1], source, f"b/{path}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _is_binary(content: Content | None) -> bool:
    if content is None:
        return False
    if content.size <= _MAX_BYTES:
        return encoding_of(content.read()) is None
    with content.open() as stream:
        return looks_binary(stream.read(8192))


def _lines(content: Content | None) -> list[str] | None:
    """Return a text's lines; None for what is binary or too large to compare."""
    if content is None:
        return []
    if content.size > _MAX_BYTES:
        return None
    data = content.read()
    encoding = encoding_of(data)
    lines = [] if encoding is None else lines_of(text_of(data, encoding))
    return None if encoding is None or len(lines) > _MAX_LINES else lines
