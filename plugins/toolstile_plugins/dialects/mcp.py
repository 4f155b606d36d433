"""MCP: tool definitions, `tools/call` requests and their results.

Written to the revisions 2025-11-25 and 2026-07-28. An output schema has an object at its root, and
structured content is an object, as the older demands. The structure of `Contents` is unchanged,
although only the newer allows a structure other than an object.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import PydanticUserError
from pydantic_core import from_json

from toolstile_hookspecs import (
    AudioContent,
    Content,
    Contents,
    EmbeddedResource,
    ImageContent,
    Outcome,
    Prompt,
    ResourceLink,
    TextContent,
    Tool,
    ToolCall,
)
from toolstile_hookspecs.codecs import SchemaCodec, in_one_line
from toolstile_hookspecs.execution.schemas import params_schema
from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.json_schema import (
    DEFINITIONS,
    Schema,
    dereferenced,
    opened,
    resolve,
    with_keys,
    without_keys,
)
from toolstile_plugins.dialects.parse import Answer, answer

Block = dict[str, Any]

WRAPPED: Final = "result"
"""The property that holds a value other than an object."""


def blocks(contents: Contents, preface: str = "") -> list[Block]:
    """Return the contents as content blocks, after the preface if it is not empty."""
    shapes = [_block(part) for part in contents.parts]
    return [{"type": "text", "text": preface}, *shapes] if preface else shapes


def _block(part: Content) -> Block:
    shape: Block = {"type": part.type}
    match part:
        case TextContent():
            shape["text"] = part.text
        case ImageContent() | AudioContent():
            shape |= {"data": part.data, "mimeType": part.mime_type}
        case EmbeddedResource():
            # A resource that holds nothing is one without a text.
            held = {"blob": part.blob} if part.blob is not None else {"text": part.text or ""}
            shape["resource"] = _known(uri=part.uri, mimeType=part.mime_type, **held)
        case ResourceLink():
            shape |= _known(
                uri=part.uri,
                name=part.name,
                title=part.title,
                description=part.description,
                mimeType=part.mime_type,
                size=part.size,
            )
    if part.annotations is not None:
        shape["annotations"] = dict(part.annotations)
    return shape


def _known(**fields: Any) -> Block:
    return {name: value for name, value in fields.items() if value is not None}


class Mcp:
    """The Model Context Protocol.

    `isError` is set for every call that failed, also where the tool itself said so.

    Example:
        >>> Mcp().calls({"name": "add", "arguments": {"a": 1}})[0].arguments
        {'a': 1}
    """

    name = "mcp"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as the `tools` of a `tools/list` result."""
        return [_definition(tool) for tool in reading.tools_of(tools)]

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a `tools/call` request, its params, or a list of either."""
        entries = cast("list[object]", reply) if isinstance(reply, list) else [reply]
        return [call for entry in entries for call in _requested(entry) or _named(entry)]

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one result of `tools/call` for each outcome."""
        shapes: list[dict[str, Any]] = []
        for each in map(answer, outcomes):
            shape = _result(each)
            if each.feedback:
                shape["content"] = [*shape["content"], {"type": "text", "text": each.feedback}]
            shapes.append(shape)
        return shapes

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the `tools/call` requests of recorded JSON-RPC, None for anything else."""
        entries = reading.listed(document, "messages") or [document]
        calls = [call for entry in entries for call in _requested(entry)]
        return reading.known(calls, entries, lambda entry: reading.field(entry, "jsonrpc") == "2.0")


def _definition(tool: Tool[Any, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "name": tool.name,
        "title": tool.name.replace("_", " ").replace("-", " ").strip().capitalize() or tool.name,
        "description": reading.with_examples(tool),
        "inputSchema": {**dereferenced(params_schema(tool)), "type": "object"},
    }
    # Clients assume the worse if a hint is missing. So no hint says whether a `read` reaches the
    # open world, nor whether a `write` destroys: neither follows from the category.
    hints: dict[str, Any] = {"readOnlyHint": tool.category == "read"}
    if tool.category == "delete":
        hints["destructiveHint"] = True
    if tool.category == "side_effect":
        hints["openWorldHint"] = True
    if tool.category != "read" and tool.idempotency is not None:
        hints["idempotentHint"] = tool.idempotency.strategy != "none"
    definition["annotations"] = hints
    meta = {"toolstile/version": tool.version, "toolstile/tags": list(tool.tags)}
    if known := {name: value for name, value in meta.items() if value}:
        definition["_meta"] = known
    output = _output(tool)
    if output is not None:
        definition["outputSchema"] = copy.deepcopy(output[0])
    return definition


@lru_cache(maxsize=1024)
def _output(tool: Tool[Any, Any]) -> tuple[Schema, bool] | None:
    """Return the schema of structured results and whether it wraps the value, or None without one.

    Contents are the blocks of the result, not a structure, and a value that is never shown needs
    no schema. A success without its value is an empty object, so nothing is required at the root.
    """
    if tool.exclude_value_from_context or tool.signature.result is Contents:
        return None
    try:
        declared = tool.result_codec.schema()
    except PydanticUserError:
        return None
    meant = resolve(declared, declared.get("$ref")) or declared
    if not without_keys(meant, frozenset({"title", "description", "$defs"})):
        return None
    if meant.get("type") == "null":
        return None
    if meant.get("type") == "object":
        schema = without_keys(opened(dereferenced(declared)), frozenset({"required"}))
        return schema, False
    wrapped: Schema = {"type": "object", **with_keys(declared, DEFINITIONS)}
    wrapped["properties"] = {WRAPPED: without_keys(declared, frozenset(DEFINITIONS))}
    return opened(wrapped), True


def _result(result: Answer) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "content": [{"type": "text", "text": result.text}],
        "isError": not result.success,
    }
    if not result.success or result.tool is None:
        return shape
    output = _output(result.tool)
    structured: Any = None
    if result.contents is not None:
        shape["content"] = blocks(result.contents, result.preface)
        structured = result.contents.structured
    elif output is not None:
        value: Any = None if result.data is None else from_json(result.data)
        _, wraps = output
        if wraps and isinstance(value, str) and len(value) > len(result.text) > 0:
            value = result.text  # the host has cut it
        is_object = isinstance(cast("object", value), dict) and not wraps
        structured = value if result.data is None or is_object else {WRAPPED: value}
    if output is not None:
        structured = {} if structured is None else structured
        is_read = result.contents is None
        if (misfit := _misfit(result.tool, structured, is_read=is_read)) is not None:
            return {"content": [{"type": "text", "text": misfit}], "isError": True}
    if structured is not None:
        shape["structuredContent"] = structured
    return shape


def _misfit(tool: Tool[Any, Any], structured: Any, *, is_read: bool) -> str | None:
    """Return a message for a result that its tool does not declare, which clients would refuse."""
    fault = _structures(tool).fits(structured, is_read=is_read)
    if fault is None:
        return None
    return (
        f"{tool.name} ran and what it changed is kept, but it returned something else than it "
        f"declares, which is left out ({in_one_line(ValueError(fault))}). This requires human "
        "intervention."
    )


@lru_cache(maxsize=1024)
def _structures(tool: Tool[Any, Any]) -> SchemaCodec:
    output = _output(tool)
    return SchemaCodec({} if output is None else output[0], owner=f"Tool {tool.name!r}")


def _requested(entry: object) -> list[ToolCall]:
    if reading.field(entry, "method") != "tools/call":
        return []
    params = reading.field(entry, "params")
    return [_call(params, reading.field(entry, "id"))]


def _named(params: object) -> list[ToolCall]:
    return [_call(params, None)] if isinstance(reading.field(params, "name"), str) else []


def _call(params: object, call_id: object) -> ToolCall:
    return reading.call(
        reading.field(params, "name"),
        reading.field(params, "arguments"),
        call_id,
        dict(reading.mapping(reading.field(params, "_meta", "meta"))),
    )
