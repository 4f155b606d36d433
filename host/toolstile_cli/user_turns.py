"""The turns of a recorded conversation: what the user says, and the calls that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from toolstile_cli.transcripts import calls_within, dialect_of
from toolstile_hookspecs import Dialect, ToolCall

LISTS: Final = ("messages", "input", "contents")
"""The keys of the messages in a document; an `input` may be a text of the user as well."""
TEXTS: Final = (None, "text", "input_text")
"""The types of the parts of a message in which the user says something."""


class UserTurn(NamedTuple):
    """A part of a conversation, or calls that stand in none.

    Args:
        said: The texts of the user.
        calls: The calls of the model after them.
    """

    said: tuple[str, ...]
    calls: Sequence[ToolCall]


def turns_of(document: object, dialects: Sequence[Dialect]) -> list[UserTurn]:
    """Return the turns of a document; one alone, in which nobody says anything, for other forms.

    Args:
        document: What was read from JSON.
        dialects: Those that know the calls and messages of providers.

    Raises:
        UnreadCallError: When it holds what looks like a call, and is not one that can be read.
    """
    dialect = dialect_of(document, dialects)
    if dialect is None:
        return [UserTurn((), calls_within(document, dialects))]
    calls = dialect.recorded(document) or []
    turns = [UserTurn(said, dialect.recorded(part) or []) for said, part in _parts_of(document)]
    # Where the parts do not have the calls of the whole, nobody knows who asked for which.
    is_whole = sum(len(turn.calls) for turn in turns) == len(calls)
    return turns if is_whole else [UserTurn((), calls)]


def _parts_of(document: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the parts of a document, each with the text of the user that it begins with."""
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    key = next((key for key in LISTS if fields.get(key)), None)
    entries = cast("object", document if key is None else fields[key])
    if isinstance(entries, str):
        yield (entries,), document
        return
    said: tuple[str, ...] = ()
    part: list[Any] = []
    for entry in _items(entries):
        text = _said_in(entry)
        if text:
            if part:
                yield said, part if key is None else {key: part}
            said, part = (text,), []
        part.append(entry)
    # What stands beside the messages is the reply to them.
    yield said, part or document if key is None else {**fields, key: part}


def _said_in(entry: object) -> str:
    """Return the text of a message of the user, an empty one for anything else."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    if fields.get("role") != "user":
        return ""
    content = fields.get("content") or fields.get("parts")
    if isinstance(content, str):
        return content.strip()
    return "\n".join(_texts_of(content)).strip()


def _texts_of(content: object) -> Iterator[str]:
    """Yield the texts among parts, but for results of tools, which stand among them."""
    for part in _items(content):
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {"text": part}
        if fields.get("type") in TEXTS and isinstance(fields.get("text"), str):
            yield fields["text"]


def _items(value: object) -> list[Any]:
    return [*cast("Iterable[Any]", value)] if isinstance(value, list) else []
