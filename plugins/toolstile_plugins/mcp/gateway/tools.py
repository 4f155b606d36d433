"""Tools of a server: its answers repaired, its schemas, and the tools of this host."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import mcp_types as types
from mcp import Client, MCPError
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from toolstile_hookspecs import (
    HOST_TIMEOUT,
    Contents,
    DefinitionError,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.codecs import is_bounded, pointed
from toolstile_hookspecs.selectors import CONSEQUENCES
from toolstile_hookspecs.tools import Category
from toolstile_plugins.dialects.parse import items
from toolstile_plugins.mcp.gateway.errors import (
    CUT,
    NESTED_DEEPER,
    cleaned,
    is_plain,
    one_line,
    told,
    where_wrong,
)
from toolstile_plugins.mcp.settings import ServerSettings

Schema = Mapping[str, Any]

MOST: Final = 20_000
"""The most parts of a schema, counting each reference."""
LONGEST: Final = 200_000
"""The most characters of a schema: every model with the tool reads them."""
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords beneath which are names, and not keywords."""
_TEXTS: Final = frozenset({"title", "description", "$comment"})
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords beneath which are values, and not schemas."""
_REFERRING: Final = ("$ref", "$dynamicRef")
_BY_PATTERN: Final = frozenset({"patternProperties", "additionalProperties"})
TOO_DEEP: Final = "its schema is nested too deeply"


def enforceable(schema: Schema) -> dict[str, Any]:
    """Return the part of a schema that is shown, and enforced before a call leaves.

    Its texts are cleaned like descriptions. The server checks patterns that cannot be searched for
    in bounded time, and properties that such patterns distinguish. Raises `DefinitionError` if the
    schema is too long, too large once all references are resolved, or not JSON, or has names with
    invisible characters.
    """
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise DefinitionError("its schema holds a number that JSON does not have") from None
    except RecursionError:
        raise DefinitionError(TOO_DEEP) from None
    if len(text) > LONGEST:
        raise DefinitionError(f"its schema has more than {LONGEST:,} characters")
    # Without a pattern that is left out, the evaluated properties are unknown.
    dropped = {"unevaluatedProperties"} if '"patternProperties"' in text else set[str]()
    try:
        # Without a reference, a schema has fewer parts than characters.
        if (len(text) > MOST or '"$' in text) and _weight(schema) > MOST:
            raise DefinitionError(f"its schema has more than {MOST:,} parts")
        return _kept(schema, dropped)
    except RecursionError:
        raise DefinitionError(TOO_DEEP) from None


def _kept(schema: Schema, dropped: set[str]) -> dict[str, Any]:  # noqa: C901 - a case for each key
    kept: dict[str, Any] = {}
    if not all(map(is_bounded, schema.get("patternProperties", ()))):
        dropped = dropped.union(_BY_PATTERN)
    for key, value in schema.items():
        if key in dropped:
            continue
        if key == "pattern" and isinstance(value, str) and not is_bounded(value):
            continue
        if key in _REFERRING and isinstance(value, str):
            if value == NESTED_DEEPER:
                raise DefinitionError(TOO_DEEP)
            if not _leads_to_schema(value):
                shown = one_line(value, 80)
                raise DefinitionError(f"its schema refers to {shown}, which is not a schema")
        if key in _NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, object]", value)
            if not all(map(is_plain, named)):
                raise DefinitionError("a name in its schema holds characters that cannot be seen")
            kept[key] = {name: _kept_in(part, dropped) for name, part in named.items()}
        elif key in _TEXTS and isinstance(value, str):
            kept[key] = cleaned(value)
        elif key in _VALUES:
            kept[key] = value
        else:
            kept[key] = _kept_in(value, dropped)
    return kept


def _kept_in(value: object, dropped: set[str]) -> Any:
    if isinstance(value, Mapping):
        return _kept(cast("Schema", value), dropped)
    if isinstance(value, list):
        return [_kept_in(item, dropped) for item in cast("list[object]", value)]
    return value


def _leads_to_schema(target: str) -> bool:
    """Tell whether a reference leads to a schema, not to values or names, which are kept."""
    is_name = False
    for part in unquote(target).split("/"):
        if part in _VALUES and not is_name:
            return False
        is_name = part in _NAMED and not is_name
    return not is_name


def _weight(root: Schema) -> int:
    """Return the number of a schema's parts, counting each reference."""
    known: dict[str, int] = {}

    def weigh(value: object) -> int:
        if isinstance(value, Mapping):
            table = cast("Schema", value)
            target = table.get("$ref")
            if isinstance(target, str) and target not in known:
                # A recursive schema ends with the arguments.
                known[target] = 0
                known[target] = weigh(pointed(root, target))
            referred = known[target] if isinstance(target, str) else 0
            return 1 + sum(map(weigh, table.values())) + referred
        if isinstance(value, Sequence) and not isinstance(value, str):
            return sum(map(weigh, cast("Sequence[object]", value)))
        return 0

    return weigh(root)


log = logging.getLogger("toolstile.mcp")

Json = dict[str, Any]

_COMPLETE: Final[Json] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The required keys of a result of 2026; earlier versions ignore them."""
THE_REST: Final = "the rest"
"""The name of left-out tools whose own names are unknown."""
_NEEDED: Final = frozenset({"name", "inputSchema"})


class AnswerRepair:
    """Repairs the answers to a client's requests: one odd part costs itself alone.

    The SDK validates an answer as a whole, and offers no hook before that. `left_out` has the unfit
    tools of the last list, and why.
    """

    def __init__(self, client: Client) -> None:
        self.left_out: dict[str, str] = {}
        self._client = client
        self._send: Callable[..., Awaitable[Json]]
        inner: Any = client
        self._connect = inner._connect  # noqa: SLF001
        inner._connect = self._connect_repaired  # noqa: SLF001

    async def _connect_repaired(self, *args: Any) -> Any:
        dispatcher = await self._connect(*args)
        self._send, dispatcher.send_raw_request = dispatcher.send_raw_request, self._repaired
        return dispatcher

    async def _repaired(self, method: str, *args: Any, **more: Any) -> Json:
        answer: Json = await self._send(method, *args, **more)
        match method:
            case "initialize":
                # Return the answer to `initialize` with the readable capabilities and the name.
                capabilities = {
                    # Some servers write an empty list for an empty object.
                    key: _table(value)
                    for key, value in _table(answer.get("capabilities")).items()
                    if value == [] or _table(value) is value
                }
                named = _table(answer.get("serverInfo"))
                return {
                    "protocolVersion": answer.get("protocolVersion"),
                    "capabilities": capabilities,
                    "serverInfo": {key: str(named.get(key, "")) for key in ("name", "version")},
                }
            case "tools/list":
                tools = [
                    tool
                    for number, given in enumerate(items(answer.get("tools")), 1)
                    if (tool := self._tool_or_none(number, given)) is not None
                ]
                kept = {"tools": tools, **_COMPLETE}
                cursor, meta = answer.get("nextCursor"), answer.get("_meta")
                if type(cursor) is int:
                    cursor = str(cursor)
                if answer.get("tools") and not isinstance(answer["tools"], list):
                    self.left_out[THE_REST] = "its tools are not a list"
                elif cursor and not isinstance(cursor, str):
                    self.left_out[THE_REST] = "the cursor to more of them is not a text"
                # An empty cursor stands for none with most servers that send one.
                return {
                    **kept,
                    **({"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}),
                    **({"_meta": meta} if isinstance(meta, dict) else {}),
                }
            case "tools/call":
                return self._result(answer)
            case _:
                return answer

    def _fault(self, method: str, answer: Json) -> ValidationError | None:
        try:
            validate_server_result(method, self._client.protocol_version, answer)
        except ValidationError as error:
            return error
        return None

    # --- Lists of tools ---

    def _tool_or_none(self, number: int, given: object) -> Json | None:
        name = cast("Json", given).get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or not name.strip():
            self.left_out[f"number {number}"] = "it is not an object with a name"
            return None
        tool = {**cast("Json", given)}
        tool["inputSchema"] = _of_arguments(tool.get("inputSchema"))
        while (error := self._fault("tools/list", {"tools": [tool], **_COMPLETE})) is not None:
            if not _drop(tool, error):
                place, _, said = where_wrong(error).partition(": ")
                where = f"{place.removeprefix('tools.0.')}: {said}"
                self.left_out[name] = f"its definition does not fit the protocol: {where}"
                return None
        return tool

    # --- Results of calls ---

    def _result(self, answer: Json) -> Json:
        if answer.get("resultType", "complete") != "complete":
            return answer
        answer = {**answer, "resultType": "complete"}
        if self._fault("tools/call", answer) is None:
            return answer
        structured = answer.get("structuredContent")
        given = answer.get("content")
        parts = items(given) or ([given] if given else [])
        if not parts and structured is not None:
            parts = [structured]
        if not parts and given is None:
            return answer
        repaired: Json = {
            "content": [self._part(part) for part in parts],
            "isError": bool(answer.get("isError")),
            "resultType": "complete",
        }
        with_structure = {**repaired, "structuredContent": structured}
        return repaired if self._fault("tools/call", with_structure) else with_structure

    def _part(self, part: Any) -> Json:
        """Return a part of a result unchanged if it fits, or as its text."""
        if isinstance(part, dict):
            block = cast("Json", part)
            bare = {
                key: value for key, value in block.items() if key not in {"annotations", "_meta"}
            }
            for fitting in (block, bare):
                if self._fault("tools/call", {"content": [fitting], **_COMPLETE}) is None:
                    return fitting
            part = block.get("text", block)
        text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
        return {"type": "text", "text": text}


def _of_arguments(schema: object) -> object:
    """Return the schema of a tool's arguments, which are an object even without a type."""
    if schema is None or schema is True:
        return {"type": "object"}
    if not isinstance(schema, dict):
        return schema
    table = {**cast("Json", schema)}
    said = table.get("type", ["object"])
    if isinstance(said, list) and "object" in said:
        table["type"] = "object"
    if table.get("properties", {}) in (None, []):
        table["properties"] = {}
    if not isinstance(table.get("required", []), list):
        del table["required"]
    if not isinstance(table.get("$schema", ""), str):
        del table["$schema"]
    return table


def _drop(tool: Json, error: ValidationError) -> bool:
    """Remove unfit parts of a tool; False if a required part is unfit."""
    places = [[part for part in fault["loc"] if isinstance(part, str)] for fault in error.errors()]
    for place in places:
        _, key, *inside = [*place, ""]
        hint = inside[0] if key == "annotations" else ""
        table = _table(tool.get(key)) if hint else tool
        if key in _NEEDED or table.pop(hint or key, None) is None:
            return False
        log.debug("A tool of an MCP server, %s: %s does not fit", one_line(tool["name"]), place)
    return bool(places)


def _table(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


# --- Definitions


PARTS: Final = ("title", "description", "input_schema", "output_schema", "annotations")


@dataclass(frozen=True, slots=True)
class Definition:
    """A server's own definition of a tool; its digest is the SHA-256 over all of it, in hex."""

    name: str
    title: str | None
    description: str
    input_schema: Schema = field(repr=False)
    output_schema: Schema | None = field(repr=False)
    annotations: Mapping[str, Any]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.plain(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    def __hash__(self) -> int:
        return hash(self.digest)

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, **{part: getattr(self, part) for part in PARTS}}

    def changes_from(self, other: Definition) -> tuple[str, ...]:
        """Return the parts that differ from another definition of the tool."""
        return tuple(
            part.replace("_", " ")
            for part in PARTS
            if json.dumps(getattr(self, part), sort_keys=True)
            != json.dumps(getattr(other, part), sort_keys=True)
        )


# --- Listing


PAGES: Final = 200


class Listing(NamedTuple):
    """The readable tools that a server lists, and why others are left out."""

    tools: tuple[Definition, ...]
    left_out: Mapping[str, str]


async def list_tools(client: Client, repair: AnswerRepair, most: int) -> Listing:  # noqa: C901 - each way a list may end
    """Return the tools of a server, from all pages; more than `most` if the server has more.

    The first of two tools with one name counts. Raises `MCPError` if the server lists none.
    """
    found: dict[str, Definition] = {}
    left_out = repair.left_out = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and THE_REST not in left_out:
        seen.add(cursor)
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if cursor is not None:
                left_out[THE_REST] = f"page {len(seen)} of the list cannot be read: {told(error)}"
            elif client.server_capabilities.tools is not None:
                raise
            break
        for tool in page.tools:
            if tool.name in left_out:
                continue
            if tool.execution is not None and tool.execution.task_support == "required":
                left_out[tool.name] = "it runs as a task only, which this gateway does not do"
                continue
            try:
                found.setdefault(tool.name, definition_of(tool))
            except (RecursionError, ValueError):
                left_out[tool.name] = "its definition is nested too deeply, or is not JSON"
        cursor = page.next_cursor
        if len(found) > most:
            break
        if cursor in seen and cursor is not None:
            left_out[THE_REST] = f"the list stands still at the cursor {one_line(cursor, 40)!r}"
        elif len(seen) == PAGES:
            left_out[THE_REST] = f"the list has no end after {PAGES} pages"
    return Listing(tuple(found.values()), left_out)


def definition_of(tool: types.Tool) -> Definition:
    """Return a server's definition of a tool."""
    said = tool.annotations
    return Definition(
        name=tool.name,
        title=tool.title or (None if said is None else said.title),
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations={}
        if said is None
        else said.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"title"}),
    )


# --- Tools of this host


MAX_DESCRIPTION: Final = 200
MAX_LONG: Final = 20_000

Call = Callable[[Definition, Any, ToolContext], Awaitable[ToolResult[Contents]]]
"""Sends a call to the server."""


def make_tool(
    name: str, server: str, settings: ServerSettings, definition: Definition, call: Call
) -> Tool[Any, Contents]:
    """Return the tool that stands for a server's tool.

    Nothing of it is rolled back, whatever the server says: it counts as contained only if the
    configuration says that it reads. Raises `DefinitionError` if its schema or configuration does
    not fit.
    """
    known = settings.of_tool(definition.name)
    category = known.category or category_of(definition, settings)
    timeout = known.timeout if known.timeout is not None else settings.timeout

    return _GatewayTool(
        name=name,
        description=known.description or short_description(server, definition),
        long_description=long_description(definition) if known.description is None else None,
        handler=_Handler(call, definition).send,
        params_schema=enforceable(definition.input_schema),
        category=category,
        consequence=known.consequence or CONSEQUENCES[category],
        contained=known.category == "read",
        requires_confirmation=known.requires_confirmation,
        idempotency=None if known.idempotency is None else known.idempotency.config(),
        concurrency=known.concurrency,
        timeout=HOST_TIMEOUT if timeout is None else None if timeout == "none" else timeout,
        tags=("mcp", *known.tags),
        wire_name=definition.name,
        origin=server,
    )


_GatewayTool: Final = Tool[Any, Contents]
"""One class for all tools of servers, because a server may have thousands."""


@dataclass(frozen=True, slots=True)
class _Handler:
    call: Call
    definition: Definition

    async def send(self, params: Any, *, context: ToolContext) -> ToolResult[Contents]:
        return await self.call(self.definition, params, context)


def category_of(definition: Definition, settings: ServerSettings) -> Category:
    """Return the category that the server's annotations state, as far as they count.

    A tool without annotations may have any effect; only an annotation makes it harmless.
    """
    said: Mapping[str, Any] = definition.annotations if settings.annotations else {}
    if said.get("readOnlyHint") is True:
        return "read"
    if said.get("destructiveHint") is True:
        return "delete"
    is_write = said.get("destructiveHint") is False and said.get("openWorldHint") is not True
    return "write" if is_write else "side_effect"


def short_description(server: str, definition: Definition) -> str:
    """Return the beginning of a tool's description; it is never empty."""
    text = one_line(definition.description, MAX_DESCRIPTION)
    text = text or one_line(definition.title or "", MAX_DESCRIPTION)
    return text or one_line(f"{definition.name}, a tool of the MCP server {server}.")


def long_description(definition: Definition) -> str | None:
    """Return a tool's whole description, if that is more than its beginning."""
    text = cleaned(definition.description).strip()
    if len(text) > MAX_LONG:
        text = f"{text[:MAX_LONG]}{CUT} (cut: {len(text):,} characters)"
    return None if text == one_line(text, MAX_DESCRIPTION) else text or None
