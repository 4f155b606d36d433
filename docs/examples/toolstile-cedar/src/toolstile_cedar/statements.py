"""The policies in Cedar files, each with its place, so that people can be told of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cedarpy

ASK: Final = "ask"
"""The annotation of policies that hold only when a person agrees."""
ADVICE: Final = "advice"
"""The annotation that says what to do instead."""

_PIECE: Final = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|;|\s+|.', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """One policy of a file.

    Args:
        key: What Cedar knows it by here; unique.
        name: Its `@id`, None where it has none.
        place: Where it stands.
        forbids: Whether it forbids rather than permits.
        ask: The reason to ask a person, None where nobody is asked.
        advice: What to do instead, None where it does not say.
        tree: The policy as Cedar writes it in JSON.
    """

    key: str
    name: str | None
    place: str
    forbids: bool
    ask: str | None
    advice: str | None
    tree: Any

    def __str__(self) -> str:
        """Return its name and place."""
        return f"{self.name!r} ({self.place})" if self.name else self.place


def read_statements(files: Iterable[Path], schema: cedarpy.Schema | None) -> list[Statement]:
    """Return the policies of files.

    Args:
        files: The files.
        schema: What the policies have to fit, if anything.

    Raises:
        ValueError: Naming every fault of every file, with its line.
    """
    faults: list[str] = []
    found: list[Statement] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}.")
            continue
        for line, source in split(text):
            try:
                found += _parsed(file, line, source, len(found))
                faults += _misfits(f"{file}, line {line}", source, schema)
            except ValueError as error:
                fault = f"the policy that begins here is no Cedar policy: {error}"
                faults.append(f"{file}, line {line}: {fault}.")
    faults += _twice(found)
    if faults:
        raise ValueError(" ".join(faults))
    return found


def split(text: str) -> Iterator[tuple[int, str]]:
    """Yield the statements of a policy file, each with the line in which it begins.

    Cedar tells what is wrong with a policy, but not where.
    """
    line, begin, parts = 1, 1, list[str]()
    for piece in _PIECE.findall(text):
        blank = piece.isspace() or piece.startswith("//")
        if parts or not blank:
            begin = begin if parts else line
            parts.append(piece)
        if piece == ";":
            yield begin, "".join(parts)
            parts = []
        line += piece.count("\n")
    if parts:
        yield begin, "".join(parts)


def policy_set(statements: Sequence[Statement]) -> cedarpy.PolicySet:
    """Return policies as Cedar evaluates them, known by their keys."""
    static = {each.key: each.tree for each in statements}
    whole = {"staticPolicies": static, "templates": {}, "templateLinks": []}
    return cedarpy.PolicySet.from_json_str(json.dumps(whole))


def _parsed(file: Path, line: int, source: str, number: int) -> list[Statement]:
    parsed = json.loads(cedarpy.policies_to_json_str(source))
    if parsed["templates"]:
        raise ValueError("it is a template, and nothing links it; name a principal and resource")
    statements: list[Statement] = []
    for tree in parsed["staticPolicies"].values():
        notes: dict[str, str | None] = tree.get("annotations", {})
        statements.append(
            Statement(
                key=f"policy{number}",
                name=notes.get("id") or None,
                place=f"{file.name}, line {line}",
                forbids=tree["effect"] == "forbid",
                ask=(notes[ASK] or "") if ASK in notes else None,
                advice=notes.get(ADVICE) or None,
                tree=tree,
            )
        )
    return statements


def _misfits(place: str, source: str, schema: cedarpy.Schema | None) -> list[str]:
    if schema is None:
        return []
    checked = cedarpy.validate_policies(source, schema)
    return [f"{place}: {each.error}." for each in checked.errors]


def _twice(statements: Iterable[Statement]) -> list[str]:
    places: dict[str, str] = {}
    faults: list[str] = []
    for each in statements:
        if each.name is None:
            continue
        if each.name in places:
            first = places[each.name]
            faults.append(f"{each.place}: the @id {each.name!r} is that of {first} already.")
        places.setdefault(each.name, each.place)
    return faults
