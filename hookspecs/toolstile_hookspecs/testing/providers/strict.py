"""The faults of a history of calls that providers refuse, and lenient servers let pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class CallsInOrder:
    """The calls of a request's history: each has an id of its own, and one result after it.

    Args:
        ids: The ids that the provider takes.
    """

    def __init__(self, ids: str = r"(?s).+") -> None:
        self._ids = re.compile(ids)
        self._made: set[str] = set()
        self._waiting: list[str] = []

    def call(self, id_: Any, name: Any, arguments: Any) -> Iterator[str]:
        """Note a call; yield its faults."""
        if not isinstance(id_, str) or not self._ids.fullmatch(id_):
            yield f"{id_!r} is no id of a call"
        if id_ in self._made:
            yield f"{id_!r} is the id of two calls"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"{name!r} is no name of a function"
        try:
            read = json.loads(arguments) if isinstance(arguments, str) else arguments
            json.dumps(read, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            yield f"the arguments of {name} are not JSON"
        else:
            if not isinstance(read, dict):
                yield f"the arguments of {name} are no object"
        self._made.add(id_)
        self._waiting.append(id_)

    def result(self, id_: Any) -> Iterator[str]:
        """Note a result; yield its fault."""
        if not self._waiting or self._waiting.pop(0) != id_:
            yield f"{id_!r} is not the id of the next call without a result"

    def others(self) -> Iterator[str]:
        """Yield the fault of anything else at this place: a call before it without a result."""
        if self._waiting:
            yield f"{self._waiting[0]!r} has no result"
