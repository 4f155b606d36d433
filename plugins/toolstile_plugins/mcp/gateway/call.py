"""One call of a server's tool: its request, its result and its faults."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import InputRequiredRoundsExceededError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
)
from pydantic import ValidationError

from toolstile_hookspecs import (
    NOTICE,
    CallClosed,
    Contents,
    DefinitionError,
    EffectUnknownError,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    hide,
)
from toolstile_hookspecs.codecs import SchemaCodec, Unchecked, in_one_line
from toolstile_hookspecs.support.text import for_model
from toolstile_plugins.mcp.gateway.connection import REFUSED, Connection
from toolstile_plugins.mcp.gateway.errors import ServerFault, cleaned, one_line, told
from toolstile_plugins.mcp.gateway.results import contents_of
from toolstile_plugins.mcp.gateway.schemas import enforceable
from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.transports.http import (
    CUT,
    NO_ANSWER,
    NOT_SENT,
    NOT_TAKEN,
    REDIRECT,
    UNREAD,
)
from toolstile_plugins.mcp.gateway.variables import secrets_of
from toolstile_plugins.mcp.settings import ServerSettings

log = logging.getLogger("toolstile.mcp")

TRACE: Final = ("traceparent", "tracestate", "baggage")
"""The part of a call's `meta` that a server gets: the parent of its spans."""
SESSION_GONE: Final = "Session terminated"
CLOSED: Final = "Connection closed"
ASKING: Final = frozenset({MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""Errors of a server that has to ask its client for something, and cannot."""
_ASKED: Final = re.compile(
    r"elicitation/create|sampling/createMessage|roots/list"
    r"|support\b.{0,40}\b(?:elicitation|sampling|roots)\b"
    r"|\b(?:elicitation|sampling|roots)\b.{0,40}\bsupport",
    re.IGNORECASE,
)
"""The words of servers that find out by themselves that they cannot ask."""
ADVICE: Final[Mapping[int, str]] = {
    INVALID_REQUEST: "It does not take this call from here. Do without the tool.",
    METHOD_NOT_FOUND: "It does not offer this here. Do without the tool.",
    INVALID_PARAMS: "Check the arguments, then retry once.",
    INTERNAL_ERROR: "The fault is its own. Retry once; if it fails again, do without the tool.",
    -32002: "The arguments name something that is not there. Name another, then retry once.",
    429: "Retry later.",
    URL_ELICITATION_REQUIRED: "The user has to open an address first. Tell them, and retry then.",
}
"""The next step of a model, by the code of a server's error."""
OTHERWISE: Final = "Change what it names, then retry once, or do without the tool."
UNANSWERED: Final = frozenset({CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT})
"""Errors that are not the server's answer, but stand for one that cannot come."""

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
        """Send a call, and return its result.

        It is sent once more, `again`, where the server has not looked at it.

        Raises:
            EffectUnknownError: When no answer came that can be read, after the call was sent.
        """
        try:
            client = await self._connection.client()
        except ServerFault as error:
            raise self.unreachable(str(error)) from error
        questions = self._connection.questions
        try:
            answer = await self._ask(client, definition, arguments, context, report)
        except TimeoutError:
            # Only the transport gives up by itself: a limit of time cancels the call.
            raise self.unreachable("it does not read what is sent to it") from None
        except MCPError as error:
            if again and error.code == INVALID_REQUEST and error.message == SESSION_GONE:
                # The server has forgotten the session, and has not looked at the call.
                self._connection.lose(client, "it has ended the session")
                return await self.send(definition, arguments, context, report, again=False)
            asked = questions != self._connection.questions or error.code in ASKING
            asked = asked or _ASKED.search(error.message) is not None
            return self._refused(client, definition, error, asked=asked)
        except (ValidationError, RuntimeError) as error:
            # The SDK says with these that an answer does not fit the protocol.
            reason = f"it answered with what cannot be used ({_short(error)})"
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
            raise MCPError(INVALID_REQUEST, "it asks for input again and again") from error

    def _asked(self) -> str:
        return (
            f"The MCP server {self._server} asked its client for something, and {REFUSED}. Give "
            "what it needs in the arguments, if it takes that there, or do without this tool; a "
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
        if error.message.startswith(NOT_SENT):
            raise self.unreachable(why.rstrip("."))
        if not self._is_answer(error):
            if error.code == CONNECTION_CLOSED and not error.message.startswith(CUT):
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
        if error.message.startswith((REDIRECT, NOT_TAKEN)):
            return ToolResult.error(
                f"The MCP server {self._server} did not take {tool}: {why.rstrip('.')}. Retry "
                f"{delay or 'later'}; if it stays so, this requires human intervention."
            )
        if error.message == REFUSED:
            return ToolResult.error(self._asked())
        said = one_line(error.message, 1000).rstrip(".")
        remedy = ADVICE.get(error.code, OTHERWISE)
        if error.code == URL_ELICITATION_REQUIRED:
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
        if error.message.startswith((NO_ANSWER, *UNREAD)):
            return False
        if error.code == CONNECTION_CLOSED:
            # Servers give this code for errors of any kind.
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

    # A listener may ask its context variables for the call.
    its_own = contextvars.copy_context()

    def report(done: float, total: float | None, message: str | None) -> None:
        if not home.is_closed():
            home.call_soon_threadsafe(tell, done, total, message, context=its_own)

    return report


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "it is not a result of the protocol"
    return told(error)[:200]


# --- Structured results


def misfit_of_result(definition: Definition, result: types.CallToolResult) -> str | None:
    """Return why a structured result does not fit its tool's output schema, None where it does.

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
