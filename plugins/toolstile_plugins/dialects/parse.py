"""Parsing of providers' replies: a client's objects or plain dicts, valid or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic import PydanticUserError

from toolstile_hookspecs import DefinitionError, Prompt, Tool, ToolCall


def field(thing: object, *names: str) -> Any:
    """Return the first of the keys or attributes that is there and not None, or None."""
    for name in names:
        if isinstance(thing, Mapping):
            value = cast("Mapping[str, object]", thing).get(name)
        else:
            value = getattr(thing, name, None)
        if value is not None:
            return value
    return None


def items(thing: object) -> list[Any]:
    """Return the items of a list or tuple; nothing for anything else."""
    return list(cast("Iterable[Any]", thing)) if isinstance(thing, (list, tuple)) else []


def listed(thing: object, name: str) -> list[Any]:
    """Return the items of a list, or of the list that a key or attribute holds."""
    return items(thing) or items(field(thing, name))


def mapping(thing: object) -> Mapping[str, Any]:
    """Return a mapping, or a client's object as one; an empty one for anything else."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing)
    dump = getattr(thing, "model_dump", None)
    dumped: object = dump(by_alias=True, exclude_none=True) if callable(dump) else None
    return cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else {}


def arguments(value: object) -> str | bytes | Mapping[str, Any]:
    """Return a call's arguments: text and objects as they are, nothing and `""` as `{}`.

    Anything else becomes its JSON text, so that parsing tells the model what is wrong.
    """
    if value is None:
        return "{}"
    if isinstance(value, (str, bytes)):
        return value or "{}"
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return "[]"


def call(
    name: object, given: object, call_id: object, meta: Mapping[str, Any] | None = None
) -> ToolCall:
    """Return a call; a name that is no text is empty, so that lookup says what is wrong."""
    wanted = name if isinstance(name, str) else ""
    if isinstance(call_id, (str, int)) and call_id != "":
        return ToolCall(wanted, arguments(given), id=str(call_id), meta=meta or {})
    return ToolCall(wanted, arguments(given), meta=meta or {})


def joined(
    said: list[Any], reply: list[Any], calls_in: Callable[[list[Any]], list[ToolCall]]
) -> list[ToolCall]:
    """Return the calls of a conversation and of the reply to it, each once.

    A recording may hold the reply among what was said as well. It is known there by the ids of
    its calls; where they have none, by being the last entry: a conversation that the model was
    sent ends with no calls.

    Args:
        said: What the conversation consists of.
        reply: What the model said to it.
        calls_in: Returns the calls of such entries.
    """
    calls = calls_in(said)
    if said[-len(reply) :] == reply:
        return calls
    return [*calls, *(call for call in calls_in(reply) if call not in calls)]


def known(
    calls: list[ToolCall], entries: list[Any], *marks: str, each_holds: type = str
) -> list[ToolCall] | None:
    """Return a conversation's calls; none at all for entries that are no conversation.

    Args:
        calls: The calls that were found; where there are any, it is one.
        entries: What it consists of.
        marks: Keys of which every entry of a conversation holds one.
        each_holds: The type of what they hold.
    """
    marked = all(isinstance(field(each, *marks), each_holds) for each in entries)
    return calls if calls or (entries and marked) else None


def tools_of(tools: Prompt | Iterable[Tool[Any, Any]]) -> list[Tool[Any, Any]]:
    """Return the tools of a prompt's enabled sections, or those given.

    Raises:
        TypeError: When they are neither; callers need not be type-checked.
    """
    if isinstance(tools, Prompt):
        return tools.tools()
    given = cast("object", tools)
    listed = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else [given]
    for each in listed:
        if not isinstance(each, Tool):
            msg = (
                f"Schemas are made of a Prompt or of Tools, not of a {type(each).__name__}. Give "
                "schemas() the prompt itself, or a list of its tools: schemas(prompt.tools())."
            )
            raise TypeError(msg)
    return cast("list[Tool[Any, Any]]", listed)


def params_schema(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of what a tool takes.

    Raises:
        DefinitionError: There is none; of a function, say.
    """
    try:
        return tool.params_codec.schema()
    except PydanticUserError as error:
        reason = error.message.rstrip(".")
        raise DefinitionError(
            f"Tool {tool.name!r}: its params have no JSON Schema ({reason}). Use types that JSON "
            "has, or say with pydantic's WithJsonSchema what is meant."
        ) from error


def description_of(tool: Tool[Any, Any]) -> str:
    """Return what a model is told of a tool."""
    return tool.long_description or tool.description
