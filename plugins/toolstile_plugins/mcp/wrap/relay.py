"""The messages between a client and a wrapped server: calls pass through the host, others pass."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
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
from mcp.shared.message import ClientMessageMetadata, SessionMessage
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

Answer = types.JSONRPCResponse | types.JSONRPCError
Waiting = tuple[asyncio.Future[types.JSONRPCRequest], asyncio.Task[None]]
"""A call that waits for the client's input, and its task."""


@dataclass(slots=True)
class _Client:
    """The client of a request, in place of the SDK's session."""

    relay: Relay
    client_capabilities: types.ClientCapabilities | None
    can_send_request: bool = True

    async def report_progress(self, *_: object) -> None:
        """Do nothing: the server's notifications pass by themselves."""

    async def elicit_form(self, question: str, form: Json, _: object) -> types.ElicitResult:
        params = {"message": question, "requestedSchema": form}
        answer = await self.relay.ask_client("elicitation/create", params)
        if isinstance(answer, types.JSONRPCError):
            raise MCPError.from_jsonrpc_error(answer)
        return types.ElicitResult.model_validate(answer.result)


@dataclass(slots=True)
class _Context:
    """A request of the client, in place of the SDK's context."""

    message: types.JSONRPCRequest
    session: _Client
    protocol_version: str
    request: None = None
    answer: Answer | None = None  # the server's own answer, once it has come

    @property
    def request_id(self) -> types.RequestId:
        return self.message.id

    @property
    def params(self) -> Json:
        return self.message.params or {}

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
        self._initialized: Json = {}  # the client's params of `initialize`
        self._version = ""  # the version of the older era that the server has chosen
        self._is_listed = False
        self._listing = asyncio.Lock()
        self._asked: dict[types.RequestId, asyncio.Future[Answer]] = {}
        self._awaited: dict[types.RequestId, asyncio.Future[Answer]] = {}
        self._continued: dict[str, Waiting] = {}
        self._running: dict[types.RequestId, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._client: Outgoing
        self._server: Any

    async def run(self, client: tuple[Incoming, Outgoing], server: TransportStreams) -> str | None:
        """Pass messages until one side leaves; return why the server has, None for the client."""
        (come, self._client), (messages, self._server) = client, server
        await asyncio.to_thread(self._host.register, self._tools, PLUGIN)
        try:
            reading = asyncio.create_task(self._each(come, self._of_client))
            hearing = asyncio.create_task(self._each(messages, self._of_server))
            await asyncio.wait([reading, hearing], return_when=asyncio.FIRST_COMPLETED)
            fault: str | None = "it has ended"
            if reading.done():
                error = reading.exception()
                fault = None if error is None else told(error) or "it does not read its input"
            for future in self._awaited.values():
                if not future.done():
                    future.set_exception(EffectUnknownError(ENDED))
            running = {*self._running.values()}
            if fault is not None and running:
                await asyncio.wait(running, timeout=TO_ANSWER)
            for task in (reading, hearing, *running):
                task.cancel()
            await asyncio.gather(reading, hearing, *running, return_exceptions=True)
            return fault
        finally:
            await self._caller.finish()
            self._session.end()
            await asyncio.to_thread(self._host.unregister, PLUGIN)

    async def ask_client(self, method: str, params: Json) -> Answer:
        """Return the client's answer to a request; a cancelled one is withdrawn."""
        # Unguessable, because a server that chose the same id could take the answer for its own.
        id_ = uuid4().hex
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._asked[id_] = future
        try:
            await self._to_client(
                types.JSONRPCRequest(jsonrpc="2.0", id=id_, method=method, params=params)
            )
            return await future
        except asyncio.CancelledError:
            gone = types.JSONRPCNotification(
                jsonrpc="2.0", method=CANCELLED, params={"requestId": id_}
            )
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._to_client(gone)
            raise
        finally:
            del self._asked[id_]

    # --- Both directions

    async def _each(
        self, stream: Any, take: Callable[[types.JSONRPCMessage], Coroutine[Any, Any, None]]
    ) -> None:
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                item = await stream.receive()
                if isinstance(item, SessionMessage):
                    await take(item.message)

    async def _of_client(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest(id=id_) if id_ in self._running or id_ in self._awaited:
                await self._refuse(id_, types.INVALID_REQUEST, IN_USE)
            case types.JSONRPCRequest(method="tools/call") if (
                waiting := self._continued.pop(_key(message.params or {}), None)
            ) is not None and not waiting[0].done():
                # The call continues that has led to the server's question.
                waiting[0].set_result(message)
                self._track(message.id, waiting[1])
            case types.JSONRPCRequest(method="tools/list" | "tools/call"):
                task = asyncio.create_task(self._answer(self._context(message)))
                self._track(message.id, task)
            case types.JSONRPCResponse() | types.JSONRPCError() if message.id in self._asked:
                _settle(self._asked, message)
            case _:
                if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
                    self._initialized = {**(message.params or {}), "id": message.id}
                await self._to_server(message)
                if isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
                    running = self._running.get((message.params or {}).get("requestId", ""))
                    if running is not None:
                        running.cancel()

    def _track(self, id_: types.RequestId, task: asyncio.Task[None]) -> None:
        self._running[id_] = task
        task.add_done_callback(lambda _: self._running.pop(id_, None))

    async def _of_server(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCResponse() | types.JSONRPCError() if message.id in self._awaited:
                _settle(self._awaited, message)
                return
            case types.JSONRPCResponse() if message.id == self._initialized.get("id"):
                self._version = str(message.result.get("protocolVersion", ""))
            case types.JSONRPCNotification() if message.method == CHANGED:
                self._is_listed = False
            case _:
                pass
        await self._to_client(message)

    async def _to_client(self, message: types.JSONRPCMessage) -> None:
        await self._client.send(SessionMessage(message))

    async def _to_server(self, message: types.JSONRPCMessage) -> None:
        headers = self._headers(message)
        metadata = ClientMessageMetadata(headers=headers) if headers else None
        await self._server.send(SessionMessage(message, metadata))

    async def _refuse(
        self, id_: types.RequestId, code: int, text: str, data: object = None
    ) -> None:
        error = types.ErrorData(code=code, message=text, data=data)
        await self._to_client(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))

    def _headers(self, message: types.JSONRPCMessage) -> dict[str, str]:
        """Return the headers of a message over HTTP; pipes ignore them."""
        method = str(getattr(message, "method", ""))
        params: Json = getattr(message, "params", None) or {}
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

    def _context(self, message: types.JSONRPCRequest) -> _Context:
        meta: Json = (message.params or {}).get("_meta") or {}
        said = meta.get(types.CLIENT_CAPABILITIES_META_KEY, self._initialized.get("capabilities"))
        capabilities = None
        with suppress(ValidationError):
            capabilities = types.ClientCapabilities.model_validate(said, by_name=False)
        version = meta.get(types.PROTOCOL_VERSION_META_KEY) or self._version
        return _Context(message, _Client(self, capabilities), str(version))

    async def _answer(self, context: _Context) -> None:
        id_ = context.request_id
        try:
            answer: Json | Answer
            if context.message.method == "tools/list":
                refuse_cursor(context.params.get("cursor"))
                answer = {**await self._list(context), "tools": self._tools.shown()}
                answer.pop("nextCursor", None)
            else:
                answer = await self._call(context)
        except MCPError as error:
            await self._refuse(id_, error.code, error.message, error.data)
        except ValidationError as error:
            await self._refuse(id_, types.INVALID_PARAMS, where_wrong(error))
        except Exception as error:
            log.exception("A request of the client cannot be answered.")
            told_ = str(error) if isinstance(error, ToolstileError) else type(error).__name__
            await self._refuse(id_, types.INTERNAL_ERROR, told_)
        else:
            if isinstance(answer, dict):
                answer = types.JSONRPCResponse(jsonrpc="2.0", id=context.request_id, result=answer)
            await self._to_client(answer)

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
                request = types.JSONRPCRequest(
                    jsonrpc="2.0", id=uuid4().hex, method="tools/list", params=sent
                )
                answer = await self._ask_server(request)
                if isinstance(answer, types.JSONRPCError):
                    self._is_listed = False
                    raise MCPError.from_jsonrpc_error(answer)
                pages.append(answer.result)
                if not (cursor := answer.result.get("nextCursor")):
                    break
                cursors.append(str(cursor))
            await self._publish([tool for page in pages for tool in page.get("tools") or ()])
            return dict(pages[0])

    async def _call(self, context: _Context) -> Json | Answer:
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
        if has_run and context.answer is not None:
            return context.answer
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
            changed = types.JSONRPCNotification(jsonrpc="2.0", method=CHANGED)
            await self._to_client(changed)
        if refused is not None:
            return ToolResult.error(refused)
        sent = {**asked.params, "name": definition.name}
        if RequestState.in_answer(sent) is not None:
            # The answer to our own question; the server has asked nothing yet.
            del sent["requestState"], sent["inputResponses"]
        if params != sent.get("arguments", {}):
            sent["arguments"] = params  # a person has edited them
        answer = await self._ask_server(asked.message.model_copy(update={"params": sent}))
        while (key := _question_in(answer, asked)) is not None:
            # The server asks the client for input, and the client repeats the request with it.
            again = self._loop.create_future()
            self._continued[key] = again, self._running[asked.request_id]
            await self._to_client(answer)
            asked.message = await again
            answer = await self._ask_server(asked.message)
        asked.answer = answer
        if isinstance(answer, types.JSONRPCError):
            return ToolResult.error(f"{answer.error.message} (code {answer.error.code})")
        try:
            result = types.CallToolResult.model_validate(answer.result, by_name=False)
        except ValidationError:
            return ToolResult.ok(Contents((TextContent(UNREADABLE),)))
        contents = contents_of(result, max_binary=tools.settings.max_binary)
        return ToolResult.error(contents.render()) if result.is_error else ToolResult.ok(contents)

    async def _publish(self, listed: Sequence[object]) -> None:
        """Offer the tools that the server lists to the host."""
        await asyncio.to_thread(self._tools.meet, listed)
        await asyncio.to_thread(self._host.catalog.invalidate, PLUGIN)

    async def _ask_server(self, request: types.JSONRPCRequest) -> Answer:
        """Return the server's answer; `EffectUnknownError` if the server ends before it."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._awaited[request.id] = future
        try:
            await self._to_server(request)
            return await future
        finally:
            del self._awaited[request.id]


def _settle(futures: Mapping[types.RequestId, asyncio.Future[Answer]], answer: Answer) -> None:
    future = futures.get(cast("types.RequestId", answer.id))
    # A peer may answer twice.
    if future is not None and not future.done():
        future.set_result(answer)


def _question_in(answer: Answer, asked: _Context) -> str | None:
    """Return the key of the request that will answer a server's question, None without one."""
    if (
        isinstance(answer, types.JSONRPCError)
        or answer.result.get("resultType") != "input_required"
    ):
        return None
    return _key({**asked.params, "requestState": answer.result.get("requestState")})


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
