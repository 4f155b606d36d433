"""The changes of an entry as text: a line of JSON, and long lists of items each in another line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from toolstile.state.persistent_list import Items


class JsonItems(Items):
    """The values of a JSON array, which is read when somebody first looks at one of them.

    Args:
        text: The array.
        length: The number of its values.
    """

    __slots__ = ("text",)

    def __init__(self, text: str, length: int) -> None:
        # Not `tail`: as long as it is missing, `__getattr__` is asked for it.
        self.below, self.start, self.owner = None, 0, None
        self.text, self.length = text, length

    def __getattr__(self, name: str) -> Any:
        if name != "tail":
            raise AttributeError(name)
        self.tail = json.loads(self.text)
        return self.tail


def written(changes: dict[str, Any]) -> str:
    """Return changes as text. The items of a whole state stand in lines of their own."""
    apart: list[list[Any]] = []
    if changes.get("whole"):
        slices, logs = changes["slices"], changes["logs"]
        apart = [*(change["items"] for change in slices.values()), *logs.values()]
        slices = {
            name: {**change, "items": len(change["items"])} for name, change in slices.items()
        }
        logs = {name: len(items) for name, items in logs.items()}
        changes = {**changes, "slices": slices, "logs": logs}
    # No line of JSON holds a line break: within texts it is escaped.
    return "\n".join(
        json.dumps(part, ensure_ascii=False, allow_nan=False) for part in (changes, *apart)
    )


def read(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return the changes of several entries; the items of a whole state are not read yet."""
    split = [text.split("\n") for text in texts]
    # All at once: hundreds of short texts take several times as long one by one.
    found: list[dict[str, Any]] = json.loads(f"[{','.join(first for first, *_ in split)}]")
    for changes, (_, *apart) in zip(found, split, strict=True):
        if apart:
            lines = iter(apart)
            for change in changes["slices"].values():
                change["items"] = JsonItems(next(lines), change["items"])
            logs = changes["logs"]
            changes["logs"] = {name: JsonItems(next(lines), logs[name]) for name in logs}
    return found
