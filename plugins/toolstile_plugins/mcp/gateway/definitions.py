"""A tool as its server defines it, and the hash by which a change is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Schema = Mapping[str, Any]

PARTS: Final = ("title", "description", "input_schema", "output_schema", "annotations")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a server says of one of its tools, as it says it.

    Args:
        name: The server's name for it.
        title: Its name for people.
        description: What it does.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of what is structured in its results.
        annotations: What it is said to do to the world.
        digest: The SHA-256 over all of it, in hex.
    """

    name: str
    title: str | None
    description: str
    input_schema: Schema = field(repr=False)
    output_schema: Schema | None = field(repr=False)
    annotations: Mapping[str, Any]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Take the hash."""
        text = json.dumps(self.plain(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"name": self.name, **{part: getattr(self, part) for part in PARTS}}

    def changes_from(self, other: Definition) -> tuple[str, ...]:
        """Return which parts are not as they are in another definition of the tool."""
        return tuple(
            part.replace("_", " ")
            for part in PARTS
            if json.dumps(getattr(self, part), sort_keys=True)
            != json.dumps(getattr(other, part), sort_keys=True)
        )


def from_plain(values: Mapping[str, Any]) -> Definition:
    """Return the definition that `Definition.plain` gave.

    Raises:
        KeyError: When a part is missing.
        TypeError: When it is none.
    """
    return Definition(**{name: values[name] for name in ("name", *PARTS)})
