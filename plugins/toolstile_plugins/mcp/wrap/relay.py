"""The messages between a client and a wrapped server: calls pass through the host, others pass."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from toolstile_hookspecs import (
    NOTICE,
    Contents,
    EffectUnknownError,
    HostHandle,
    Outcome,
    Status,
    TextContent,
    ToolContext,
    ToolResult,
    ToolstileError,
    hide,
)
from toolstile_plugins.mcp.gateway.call import contents_of
from toolstile_plugins.mcp.gateway.errors import (
    ServerFault,
    filled,
    one_deeper,
    secrets_of,
    told,
    where_wrong,
)
from toolstile_plugins.mcp.gateway.gateway import refusal_of
from toolstile_plugins.mcp.gateway.tools import PAGES, Definition
from toolstile_plugins.mcp.gateway.transports import (
    GuardedStream,
    Program,
    Site,
    guarded,
    http_streams,
    program_streams,
)
from toolstile_plugins.mcp.gateway.trust import Pins
from toolstile_plugins.mcp.server.calls import Caller
from toolstile_plugins.mcp.server.elicitation import RequestState
from toolstile_plugins.mcp.server.request import RequestContext, current_request, refuse_cursor
from toolstile_plugins.mcp.server.sessions import ServedSession, executors_of
from toolstile_plugins.mcp.server.stdio import Incoming, Outgoing, client_streams
from toolstile_plugins.mcp.server.tools import DIALECT
from toolstile_plugins.mcp.settings import ServerSettings, ServeSettings
from toolstile_plugins.mcp.wrap.tools import Json, WrappedTools

log = logging.getLogger("toolstile.mcp")

PLUGIN: Final = "mcp-wrapped"
CHANGED: Final = "notifications/tools/list_changed"
SAID: Final = "notifications/message"
CANCELLED: Final = "notifications/cancelled"
ENDED: Final = (
    "The MCP server has ended without an answer. The call may have had its effect, or not: find "
    "out before you retry."
)
TO_WRITE: Final = 0.2
"""Seconds for the last message to the client."""
TO_ANSWER: Final = 10.0
"""Seconds for the answers to running calls once the server has ended."""
IN_USE: Final = "A request with this id is being answered. Send a new id."
UNKNOWN: Final = "The tool {!r} is unknown. List the tools."
UNREADABLE: Final = "[a result that does not fit the protocol; it was passed on unchanged]"


@dataclass(slots=True)
class _Client:
    """The client of a request, in place of the SDK's session."""

    sends: JSONRPCDispatcher
    client_capabilities: types.ClientCapabilities | None
    can_send_request: bool = True

    async def report_progress(self, *_: object) -> None:
        """Do nothing: the server's notifications pass by themselves."""

    async def elicit_form(self, question: str, form: Json, _: object) -> types.ElicitResult:
        params = {"message": question, "requestedSchema": form}
        answer = await self.sends.send_raw_request("elicitation/create", params)
        return types.ElicitResult.model_validate(answer)


@dataclass(slots=True)
class _Context:
    """A request of the client, in place of the SDK's context."""

    request_id: types.RequestId
    params: Json
    session: _Client
    protocol_version: str
    request: None = None
    task: asyncio.Task[Json] | None = None  # of a call
    question: asyncio.Future[Json] | None = None  # of the server to the client
    repeated: asyncio.Future[Json] | None = None  # the params with the client's answer
    answer: Json | MCPError | None = None  # the server's own answer, once it has come

    @property
    def meta(self) -> Json:
        return self.params.get("_meta") or {}


class Relay:
    """Passes messages on, and has the host dispatch each call of a tool."""

    def __init__(
        self,
        host: HostHandle,
        name: str,
        settings: ServerSettings,
        pins: Pins,
        allowed: Sequence[str] = (),
    ) -> None:
        serve = ServeSettings(workspace=False)
        self._host = host
        self._tools = WrappedTools(name, settings, pins, allowed, self._send)
        self._caller = Caller(host.dialect(DIALECT), host.clock, serve)
        self._session = ServedSession(executors_of(host)(None, None))
        self._capabilities: object = None  # of a client of the older era
        self._version = ""  # the version of the older era that the server has chosen
        self._is_listed = False
        self._listing = asyncio.Lock()
        self._running: dict[types.RequestId, _Context] = {}
        self._continued: dict[str, _Context] = {}
        """Calls that wait for the client's answer to a question of the server."""
        self._loop = asyncio.get_running_loop()
        self._client: JSONRPCDispatcher
        self._server: JSONRPCDispatcher

    async def run(self, client: tuple[Incoming, Outgoing], server: TransportStreams) -> str | None:
        """Pass messages until one side leaves; return why the server has, None for the client."""
        self._client, self._server = JSONRPCDispatcher(*client), JSONRPCDispatcher(*server)
        await asyncio.to_thread(self._host.register, self._tools, PLUGIN)
        hearing = asyncio.create_task(self._server.run(self._of_server, self._heard))
        reading = asyncio.create_task(self._client.run(self._of_client, self._said))
        try:
            await asyncio.wait([reading, hearing], return_when=asyncio.FIRST_COMPLETED)
            calls = {each.task for each in self._running.values() if each.task is not None}
            if not reading.done() and calls:
                await asyncio.wait(calls, timeout=TO_ANSWER)
            if not reading.done():
                return "it has ended"
            error = reading.exception()
            return None if error is None else told(error)
        finally:
            hearing.cancel()
            for context in (*self._running.values(), *self._continued.values()):
                if context.task is not None:
                    context.task.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await self._caller.finish()
            self._session.end()
            await asyncio.to_thread(self._host.unregister, PLUGIN)

    # --- Both directions

    async def _of_client(self, asked: DispatchContext[Any], method: str, params: Any) -> Json:
        """Return the answer to a request of the client."""
        id_, given = cast("types.RequestId", asked.request_id), cast("Json", params or {})
        if id_ in self._running:
            raise MCPError(types.INVALID_REQUEST, IN_USE)
        try:
            if method == "tools/list":
                return await self._shown(self._context(id_, given))
            if method == "tools/call":
                return await self._called(id_, given)
            # A client may match the answer by the id of its request.
            answer = await self._ask_server(method, params, id_)
        except ValidationError as error:
            raise MCPError(types.INVALID_PARAMS, where_wrong(error)) from error
        except MCPError:
            raise
        except Exception as error:
            log.exception("A request of the client cannot be answered.")
            told_ = str(error) if isinstance(error, ToolstileError) else type(error).__name__
            raise MCPError(types.INTERNAL_ERROR, told_) from error
        if method == "initialize":
            self._capabilities = given.get("capabilities")
            self._version = str(answer.get("protocolVersion", ""))
        return answer

    async def _said(self, _: object, method: str, params: Any) -> None:
        """Pass a notification of the client on; cancelling a request passes on by itself."""
        if method != CANCELLED:
            await self._server.notify(method, params, {"headers": self._headers(method, params)})

    async def _of_server(self, _: object, method: str, params: Any) -> Json:
        return await self._client.send_raw_request(method, params)

    async def _heard(self, _: object, method: str, params: Any) -> None:
        self._is_listed = self._is_listed and method != CHANGED
        if method != CANCELLED:
            await self._client.notify(method, params)

    async def _ask_server(
        self, method: str, params: Any, id_: types.RequestId | None = None
    ) -> Json:
        """Return the server's answer; `EffectUnknownError` if the server ends before it."""
        # Because a client may choose any number, an id of our own is none.
        options: CallOptions = {"request_id": uuid4().hex if id_ is None else id_}
        options["headers"] = self._headers(method, params)
        try:
            return await self._server.send_raw_request(method, params, options)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise EffectUnknownError(ENDED) from error
            raise

    def _headers(self, method: str, given: Json | None) -> dict[str, str]:
        """Return the headers of a message over HTTP; pipes ignore them."""
        params = given or {}
        meta: Json = params.get("_meta") or {}
        version = meta.get(types.PROTOCOL_VERSION_META_KEY)
        if version is None:
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: str(version), MCP_METHOD_HEADER: method}
        if (named := params.get(NAME_BEARING_METHODS.get(method, ""))) is not None:
            headers[MCP_NAME_HEADER] = encode_header_value(str(named))
        if method == "tools/call" and (
            found := self._tools.standing.found(str(params.get("name")))
        ):
            mirrored = x_mcp_header_map(found.input_schema)
            headers |= mcp_param_headers(mirrored, params.get("arguments") or {})
        return headers

    # --- Tools

    def _context(self, id_: types.RequestId, params: Json) -> _Context:
        meta: Json = params.get("_meta") or {}
        said = meta.get(types.CLIENT_CAPABILITIES_META_KEY, self._capabilities)
        capabilities = None
        with suppress(ValidationError):
            capabilities = types.ClientCapabilities.model_validate(said, by_name=False)
        version = meta.get(types.PROTOCOL_VERSION_META_KEY) or self._version
        return _Context(id_, params, _Client(self._client, capabilities), str(version))

    async def _shown(self, context: _Context) -> Json:
        refuse_cursor(context.params.get("cursor"))
        answer = {**await self._list(context), "tools": self._tools.shown()}
        answer.pop("nextCursor", None)
        return answer

    async def _list(self, context: _Context) -> Json:
        """Ask the server for all pages of its tools, and return the first page."""
        async with self._listing:
            self._is_listed = True
            pages: list[Json] = []
            cursors: list[object] = [None]
            while len(cursors) == len(set(cursors)) <= PAGES:
                # A server may take a null for a fault, so nothing empty is sent.
                meta = {key: value for key, value in context.meta.items() if key != "progressToken"}
                params = {"_meta": meta, "cursor": cursors[-1]}
                sent = {key: value for key, value in params.items() if value}
                try:
                    pages.append(await self._ask_server("tools/list", sent))
                except MCPError:
                    self._is_listed = False
                    raise
                if not (cursor := pages[-1].get("nextCursor")):
                    break
                cursors.append(str(cursor))
            await self._publish([tool for page in pages for tool in page.get("tools") or ()])
            return dict(pages[0])

    async def _called(self, id_: types.RequestId, params: Json) -> Json:
        """Return the result of a call, or a question of the server for the person at the client."""
        context = self._continued.pop(_key(params), None)
        if context is not None and context.repeated is not None:
            context.request_id = id_
            context.repeated.set_result(params)
        else:
            context = self._context(id_, params)
            context.task = asyncio.create_task(self._call(context))
        assert context.task is not None  # noqa: S101 - begun above
        context.question = self._loop.create_future()
        self._running[id_] = context
        try:
            ended = [context.task, context.question]
            done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        except asyncio.CancelledError:
            context.task.cancel()
            raise
        finally:
            del self._running[id_]

    async def _call(self, context: _Context) -> Json:
        # Another request may just ask for the list.
        if not self._is_listed or self._listing.locked():
            await self._list(context)
        params = types.CallToolRequestParams.model_validate(context.params, by_name=False)
        if (name := self._tools.name_here(params.name)) is None:
            raise MCPError(types.INVALID_PARAMS, UNKNOWN.format(params.name))
        asked = cast("RequestContext", context)
        call = self._caller.call(asked, name, params.arguments or {})
        ended = await self._caller.outcome(self._session, asked, call, params)
        if isinstance(ended, dict):
            return ended
        has_run = isinstance(ended, Outcome) and ended.status in {Status.SUCCEEDED, Status.FAILED}
        answer = context.answer if has_run else None
        if isinstance(answer, MCPError):
            raise answer
        if answer is not None:
            return answer
        return {"resultType": "complete", **self._caller.result(ended)}

    async def _send(
        self, definition: Definition, params: Any, context: ToolContext
    ) -> ToolResult[Contents]:
        """Send a call of the host to the server, on the loop of the relay."""
        request = current_request.get()
        assert request is not None  # noqa: S101 - only clients make calls
        work = self._forward(definition, params, context, cast("_Context", request.context))
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _forward(
        self, definition: Definition, params: Any, context: ToolContext, asked: _Context
    ) -> ToolResult[Contents]:
        tools = self._tools
        refused = refusal_of(tools.name, tools.standing, definition, params, context)
        found = tools.standing.found(definition.name)
        if found is not None and found.digest != definition.digest:
            await self._publish(tools.listed)
            await self._client.notify(CHANGED, None)
        if refused is not None:
            return ToolResult.error(refused)
        sent = {**asked.params, "name": definition.name}
        if RequestState.in_answer(sent) is not None:
            # The answer to our own question; the server has asked nothing yet.
            del sent["requestState"], sent["inputResponses"]
        if params != sent.get("arguments", {}):
            sent["arguments"] = params  # a person has edited them
        try:
            answer = await self._ask_server("tools/call", sent, asked.request_id)
            while answer.get("resultType") == "input_required" and asked.question is not None:
                # The server asks the client for input, and the client repeats the request with it.
                state = {"requestState": answer.get("requestState")}
                asked.repeated = self._loop.create_future()
                self._continued[_key({**asked.params, **state})] = asked
                asked.question.set_result(answer)
                asked.params = await asked.repeated
                answer = await self._ask_server("tools/call", asked.params, asked.request_id)
        except MCPError as error:
            asked.answer = error
            return ToolResult.error(f"{error.message} (code {error.code})")
        asked.answer = answer
        try:
            result = types.CallToolResult.model_validate(answer, by_name=False)
        except ValidationError:
            return ToolResult.ok(Contents((TextContent(UNREADABLE),)))
        contents = contents_of(result, max_binary=tools.settings.max_binary)
        return ToolResult.error(contents.render()) if result.is_error else ToolResult.ok(contents)

    async def _publish(self, listed: Sequence[object]) -> None:
        """Offer the tools that the server lists to the host."""
        await asyncio.to_thread(self._tools.meet, listed)
        await asyncio.to_thread(self._host.catalog.invalidate, PLUGIN)


def _key(params: Json) -> str:
    """Return the parts of a call that a client repeats unchanged when it answers a question."""
    kept = [params.get("requestState"), params.get("name"), params.get("arguments")]
    return json.dumps(kept, sort_keys=True)


# --- One server


async def run_server(
    host: HostHandle, name: str, settings: ServerSettings, pins: Path, allowed: Sequence[str]
) -> int:
    """Connect to a server, and relay until one side leaves; return the exit status."""
    guard = GuardedStream()
    relay = Relay(host, name, settings, Pins(pins), allowed)
    async with client_streams() as (come, go):
        try:
            async with guarded(guard, _connect(settings)) as (messages, out):
                fault = await relay.run((come, go), (messages, out))
            if fault is None:
                return 0
            fault = guard.fault or fault
        except (ServerFault, OSError) as error:
            fault = told(error)
        shown = hide(fault, secrets_of(settings))
        log.error("The MCP server %s cannot be used: %s.", name, shown, extra=NOTICE)
        last = {"level": "error", "logger": "toolstile", "data": f"The MCP server {name}: {shown}."}
        notice = types.JSONRPCNotification(jsonrpc="2.0", method=SAID, params=last)
        with suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with asyncio.timeout(TO_ANSWER):
                # Because a message is taken once the former is written, the answers have been.
                await go.send(SessionMessage(notice))
        await asyncio.sleep(TO_WRITE)
        # Because the thread that reads the client's messages cannot be woken, end without it.
        os._exit(1)


def _connect(
    settings: ServerSettings,
) -> Callable[[], AbstractAsyncContextManager[TransportStreams]]:
    if settings.url is not None:
        named = settings.headers.items()
        headers = {header: filled(value, f"header {header}") for header, value in named}
        site = Site(
            filled(settings.url, "url"), headers, settings.max_message, secrets_of(settings)
        )
        return partial(http_streams, site)
    assert settings.command is not None  # noqa: S101 - validated
    # The client has chosen the environment for its server.
    environment = {**os.environ, **one_deeper()}
    program = Program(
        settings.command, settings.args, environment, None, settings.max_message, is_heard=True
    )
    return partial(program_streams, program)
