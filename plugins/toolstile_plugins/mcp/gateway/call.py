"""One call of a server's tool: its request, its result and its faults."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import InputRequiredRoundsExceededError
from pydantic import ValidationError

from toolstile_hookspecs import (
    NOTICE,
    AudioContent,
    CallClosed,
    Content,
    Contents,
    DefinitionError,
    EffectUnknownError,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    hide,
)
from toolstile_hookspecs.codecs import SchemaCodec, Unchecked, in_one_line
from toolstile_hookspecs.support.text import counted, for_model
from toolstile_plugins.mcp.gateway import transports
from toolstile_plugins.mcp.gateway.connection import REFUSED, Connection
from toolstile_plugins.mcp.gateway.errors import (
    ServerFault,
    amount,
    cleaned,
    one_line,
    secrets_of,
    told,
)
from toolstile_plugins.mcp.gateway.tools import Definition, enforceable
from toolstile_plugins.mcp.settings import ServerSettings

PARTS: Final = 1000
"""The most parts of a result."""
NAMES: Final = 100_000
"""The most characters of the names, URIs and annotations of a result."""


def contents_of(
    result: types.CallToolResult, *, max_binary: int, misfit: str | None = None
) -> Contents:
    """Return the contents of a server's answer, with at most `max_binary` bytes beside text.

    `misfit` is the reason to leave out the structured part, if any.
    """
    parts = _fitted([_part(block) for block in result.content[:PARTS]], max_binary)
    if left := len(result.content) - len(parts):
        parts.append(_note(f"{counted(left, 'part')} left out, beyond the limit of a result"))
    structured = result.structured_content
    if structured is not None:
        try:
            text = json.dumps(structured, ensure_ascii=False, allow_nan=False)
        except ValueError:
            text = json.dumps(structured, ensure_ascii=False)
            misfit = "it holds a number that JSON has not"
        if not parts:
            parts = [TextContent(text)]
        if misfit is not None:
            parts.append(_note(f"structured result left out: {one_line(misfit)}"))
            structured = None
    return Contents(tuple(parts), structured)


def _fitted(parts: Sequence[Content], max_binary: int) -> list[Content]:
    """Return the parts for whose names there is room, with notes in place of too much data."""
    fitted: list[Content] = []
    names, binary = NAMES, max_binary
    for part in parts:
        said = "" if part.annotations is None else json.dumps(part.annotations)
        size = len(said) + sum(
            len(getattr(part, name, None) or "")
            for name in ("uri", "name", "title", "mime_type", "description")
        )
        if size > names:
            continue
        names -= size
        data = part.data if isinstance(part, ImageContent | AudioContent) else None
        what: str = part.type
        if isinstance(part, EmbeddedResource):
            what, data = part.uri[:200], part.blob
        held = len(data or "") * 3 // 4
        try:
            base64.b64decode(data or "", validate=True)
        except ValueError:
            fitted.append(_note(f"{what} left out, since it is not written in base64"))
            continue
        if held > binary:
            told = f"{what} of {amount(held)} left out"
            fitted.append(_note(f"{told}, since a result may have {amount(max_binary)}"))
            continue
        binary -= held
        fitted.append(part)
    return fitted


def _part(block: types.ContentBlock) -> Content:
    said: dict[str, Any] | None = None
    if block.annotations is not None:
        said = block.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    match block:
        case types.TextContent():
            return TextContent(block.text, said)
        case types.ImageContent():
            return ImageContent(block.data, block.mime_type, said)
        case types.AudioContent():
            return AudioContent(block.data, block.mime_type, said)
        case types.ResourceLink():
            return ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                said,
            )
        case types.EmbeddedResource():
            held = block.resource
            text = held.text if isinstance(held, types.TextResourceContents) else None
            blob = held.blob if isinstance(held, types.BlobResourceContents) else None
            return EmbeddedResource(held.uri, text, blob, held.mime_type, said)


def _note(text: str) -> TextContent:
    return TextContent(f"[{text}]")


log = logging.getLogger("toolstile.mcp")

TRACE: Final = ("traceparent", "tracestate", "baggage")
"""The part of a call's `meta` that a server gets: the parent of its spans."""
SESSION_GONE: Final = "Session terminated"
CLOSED: Final = "Connection closed"
ASKING: Final = frozenset(
    {types.MISSING_REQUIRED_CLIENT_CAPABILITY, types.URL_ELICITATION_REQUIRED}
)
"""Errors of a server that must ask its client for something, and cannot."""
_ASKED: Final = re.compile(
    r"elicitation/create|sampling/createMessage|roots/list"
    r"|support\b.{0,40}\b(?:elicitation|sampling|roots)\b"
    r"|\b(?:elicitation|sampling|roots)\b.{0,40}\bsupport",
    re.IGNORECASE,
)
"""The words of servers that notice that they cannot ask."""
ADVICE: Final[Mapping[int, str]] = {
    types.INVALID_REQUEST: "It does not take this call from here. Do without the tool.",
    types.METHOD_NOT_FOUND: "It does not offer this here. Do without the tool.",
    types.INVALID_PARAMS: "Check the arguments, then retry once.",
    types.INTERNAL_ERROR: (
        "The fault is its own. Retry once; if it fails again, do without the tool."
    ),
    -32002: "The arguments name something that is not there. Name another, then retry once.",
    429: "Retry later.",
    types.URL_ELICITATION_REQUIRED: (
        "The user has to open an address first. Tell them, and retry then."
    ),
}
"""The next step of a model, by the code of a server's error."""
OTHERWISE: Final = "Change the value it names, then retry once, or do without the tool."
UNANSWERED: Final = frozenset({types.CONNECTION_CLOSED, types.PARSE_ERROR, types.REQUEST_TIMEOUT})
"""Errors that stand for an answer that cannot come."""

Report = Callable[[float, float | None, str | None], None]
"""Takes a progress report: how much is done, of how much, and a message."""


class Calling:
    """Sends calls to one server."""

    def __init__(self, server: str, settings: ServerSettings, connection: Connection) -> None:
        self._server = server
        self._settings = settings
        self._connection = connection

    async def send(
        self,
        definition: Definition,
        arguments: dict[str, Any],
        context: ToolContext,
        report: Report,
        *,
        again: bool = True,
    ) -> ToolResult[Contents]:
        """Send a call, and return its result; send it `again` if the server has not seen it.

        Raises `EffectUnknownError` if no readable answer came after the call was sent.
        """
        try:
            client = await self._connection.client()
        except ServerFault as error:
            raise self.unreachable(str(error)) from error
        questions = self._connection.questions
        try:
            answer = await self._ask(client, definition, arguments, context, report)
        except TimeoutError:
            # Only the transport times out by itself: a limit of the call cancels it.
            raise self.unreachable("it does not read its input") from None
        except MCPError as error:
            if again and error.code == types.INVALID_REQUEST and error.message == SESSION_GONE:
                # The server has forgotten the session, and has not looked at the call.
                self._connection.lose(client, "it has ended the session")
                return await self.send(definition, arguments, context, report, again=False)
            asked = questions != self._connection.questions or error.code in ASKING
            asked = asked or _ASKED.search(error.message) is not None
            return self._refused(client, definition, error, asked=asked)
        except (ValidationError, RuntimeError) as error:
            # The SDK raises these if an answer does not fit the protocol.
            is_misfit = isinstance(error, ValidationError)
            why = "it is not a result of the protocol" if is_misfit else told(error)[:200]
            reason = f"its answer cannot be used ({why})"
            raise self._unknown(definition, reason) from error
        result = self._read(definition, answer)
        found_out = _ASKED.search(result.message) is not None
        if result.success or not (found_out or questions != self._connection.questions):
            return result
        return ToolResult.error(f"{result.message.rstrip('.')}. {self._asked()}")

    def unreachable(self, why: str) -> ToolError:
        """Return the failure of a call while the server cannot be used."""
        return ToolError(
            f"The MCP server {self._server} cannot be reached: {for_model(why)}. Nothing was sent. "
            "Do without its tools, or retry later; if it stays so, this requires human "
            "intervention.",
            for_operator=f"{why}. `toolstile mcp check` tries again.",
        )

    async def _ask(
        self,
        client: Client,
        definition: Definition,
        arguments: dict[str, Any],
        context: ToolContext,
        report: Report,
    ) -> types.CallToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            report(progress, total, None if message is None else one_line(message))

        call = context.tool_call
        came = {} if call is None else {key: call.meta[key] for key in TRACE if key in call.meta}
        try:
            return await client.call_tool(
                definition.name,
                arguments,
                progress_callback=on_progress,
                meta=came or None,  # type: ignore[arg-type]  # further keys are allowed
            )
        except InputRequiredRoundsExceededError as error:
            raise MCPError(types.INVALID_REQUEST, "it asks for input again and again") from error

    def _asked(self) -> str:
        return (
            f"The MCP server {self._server} asked its client for something, and {REFUSED}. Give "
            "the answer in the arguments, if the tool takes it there, or do without this tool; a "
            "retry asks again."
        )

    def _read(self, definition: Definition, result: types.CallToolResult) -> ToolResult[Contents]:
        contents = contents_of(
            result,
            max_binary=self._settings.max_binary,
            misfit=misfit_of_result(definition, result),
        )
        if result.is_error:
            said = cleaned(contents.render().strip())
            why = said or "it did not say why. Check the arguments, then retry once."
            return ToolResult.error(why if said else f"{definition.name} failed: {why}")
        return ToolResult.ok(contents)

    def _refused(
        self, client: Client, definition: Definition, error: MCPError, *, asked: bool
    ) -> ToolResult[Contents]:
        tool = one_line(definition.name, 80)
        why = one_line(self._connection.explain(error.message), 300)
        if error.message.startswith(transports.NOT_SENT):
            raise self.unreachable(why.rstrip("."))
        if not self._is_answer(error):
            was_cut = error.message.startswith(transports.CUT)
            if error.code == types.CONNECTION_CLOSED and not was_cut:
                why = self._connection.lose(client, why)
            raise self._unknown(definition, why) from error
        if error.data:
            data = hide(one_line(json.dumps(error.data), 1000), secrets_of(self._settings))
            log.warning("%s: %s sent with its error: %s", tool, self._server, data, extra=NOTICE)
        # When a server wants a call again, as in `after 30 s`; empty if it does not say.
        found = re.search(
            r'"retry\W?_?after\w*": "?([\w :,.+-]{1,40})', json.dumps(error.data), re.IGNORECASE
        )
        text = found[1].strip() if found else ""
        delay = text and f"after {text}{' s' if text.replace('.', '', 1).isdigit() else ''}"
        if error.message.startswith((transports.REDIRECT, transports.NOT_TAKEN)):
            return ToolResult.error(
                f"The MCP server {self._server} did not take {tool}: {why.rstrip('.')}. Retry "
                f"{delay or 'later'}; if it stays so, this requires human intervention."
            )
        if error.message == REFUSED:
            return ToolResult.error(self._asked())
        said = one_line(error.message, 1000).rstrip(".")
        remedy = ADVICE.get(error.code, OTHERWISE)
        if error.code == types.URL_ELICITATION_REQUIRED:
            address = re.search(r'"(https?://[^"\\\s]{1,500})"', json.dumps(error.data))
            remedy += f" It is {address[1]}" if address else ""
        elif asked:
            remedy = self._asked()
        elif delay:
            remedy = f"Retry {delay}."
        return ToolResult.error(
            f"The MCP server {self._server} refused {tool}: {said} (code {error.code}). {remedy}"
        )

    def _is_answer(self, error: MCPError) -> bool:
        if error.message.startswith((transports.NO_ANSWER, *transports.UNREAD)):
            return False
        if error.code == types.CONNECTION_CLOSED:
            # Servers use this code for errors of any kind.
            return not (error.message == CLOSED or self._connection.has_broken(error.message))
        return error.code not in UNANSWERED

    def _unknown(self, definition: Definition, why: str) -> EffectUnknownError:
        return EffectUnknownError(
            f"The MCP server {self._server} gave no answer to {one_line(definition.name, 80)} "
            f"that can be used: {why.rstrip('.')}. The call may have had its effect, or not: find "
            "out before you retry."
        )


def reporter(context: ToolContext, home: asyncio.AbstractEventLoop) -> Report:
    """Return a function that passes reports on, on the loop and in the context of the call."""

    def tell(done: float, total: float | None, message: str | None) -> None:
        try:
            context.progress(done, total, message)
        except CallClosed:
            return

    # A listener may read the context variables of the call.
    its_own = contextvars.copy_context()

    def report(done: float, total: float | None, message: str | None) -> None:
        if not home.is_closed():
            home.call_soon_threadsafe(tell, done, total, message, context=its_own)

    return report


# --- Structured results


def misfit_of_result(definition: Definition, result: types.CallToolResult) -> str | None:
    """Return why a structured result does not fit its tool's output schema, or None.

    A schema that cannot be checked in bounded time is not enforced.
    """
    structured = result.structured_content
    if definition.output_schema is None or result.is_error or structured is None:
        return None
    codec = _result_codec(definition)
    if codec is None:
        return None
    try:
        codec.decode(codec.encode(structured))
    except Unchecked:
        return None
    except ToolValidationError as error:
        return in_one_line(error)
    except ValueError:
        return "it is not JSON"
    return None


@lru_cache(maxsize=1000)
def _result_codec(definition: Definition) -> SchemaCodec | None:
    try:
        return SchemaCodec(enforceable(definition.output_schema or {}), owner=definition.name)
    except (DefinitionError, RecursionError):
        return None
