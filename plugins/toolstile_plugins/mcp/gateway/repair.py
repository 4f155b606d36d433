"""Answers of a server, repaired before the SDK reads them: one odd part costs itself alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from mcp import Client
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from toolstile_plugins.mcp.gateway.errors import one_line, where_wrong

log = logging.getLogger("toolstile.mcp")

Json = dict[str, Any]

_COMPLETE: Final[Json] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The keys that a result of 2026 must have; earlier versions ignore them."""
THE_REST: Final = "the rest"
"""The name under which tools are left out that nobody has seen."""
_NEEDED: Final = frozenset({"name", "inputSchema"})


class AnswerRepair:
    """Repairs the answers to a client's requests.

    The SDK validates an answer as a whole, and offers no place before that.

    Attributes:
        left_out: The tools of the last list that do not fit the protocol, and why.
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
                return _introduction(answer)
            case "tools/list":
                tools = [
                    tool
                    for number, given in enumerate(_listed(answer.get("tools")), 1)
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
                self.left_out[name] = f"its definition does not fit the protocol: {_where(error)}"
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
        parts = _listed(given) or ([given] if given else [])
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
        """Return a part of a result as it is, or as the text that is in it."""
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


def _introduction(answer: Json) -> Json:
    """Return the answer to `initialize` with the capabilities and the name that can be read."""
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


def _of_arguments(schema: object) -> object:
    """Return the schema of a tool's arguments, which are an object whether it says so or not."""
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
    """Take what does not fit out of a tool; False where it is what a tool must have."""
    places = [[part for part in fault["loc"] if isinstance(part, str)] for fault in error.errors()]
    for place in places:
        _, key, *inside = [*place, ""]
        hint = inside[0] if key == "annotations" else ""
        table = _table(tool.get(key)) if hint else tool
        if key in _NEEDED or table.pop(hint or key, None) is None:
            return False
        log.debug("A tool of an MCP server, %s: %s does not fit", one_line(tool["name"]), place)
    return bool(places)


def _where(error: ValidationError) -> str:
    place, _, said = where_wrong(error).partition(": ")
    return f"{place.removeprefix('tools.0.')}: {said}"


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _table(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
