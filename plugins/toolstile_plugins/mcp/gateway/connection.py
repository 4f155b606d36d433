"""The connection to one server: made when it is needed, and again when it has ended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import hide
from toolstile_plugins.mcp.gateway import transports
from toolstile_plugins.mcp.gateway.errors import ServerFault, filled, one_deeper, secrets_of, told
from toolstile_plugins.mcp.gateway.tools import AnswerRepair, Listing, list_tools
from toolstile_plugins.mcp.settings import ServerSettings

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

log = logging.getLogger("toolstile.mcp")

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 60.0
ENDED: Final = "it has ended"
_QUESTIONS: Final = ("_elicitation_callback", "_sampling_callback", "_list_roots_callback")
"""The SDK's attributes that answer the questions of a server."""
REFUSED: Final = "this gateway cannot pass questions on"
BETWEEN_LISTS: Final = 1.0
"""The fewest seconds between two lists of a server's tools, if it reports many changes."""
US: Final = types.Implementation(name="toolstile", version="1")

Met = Callable[[Listing], Awaitable[None]]


class Connection:
    """The connection to a server, for one event loop; each list of its tools goes to `met`."""

    def __init__(self, server: str, settings: ServerSettings, met: Met) -> None:
        self.server = server
        self.fault: str | None = None
        """Why the connection is missing, if an attempt failed or it has ended."""
        self.last_end = ENDED  # why the newest connection that has ended did so
        self.questions = 0  # the number of questions of the server; all were refused
        self._settings = settings
        self._met = met
        self._client: Client | None = None
        self._guard: transports.GuardedStream | None = None
        self._life: asyncio.Task[None] | None = None
        self._lives: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[Client] | None = None
        self._changed = asyncio.Event()
        self._failures = 0
        self._again_at = 0.0
        self._closed = False
        self._repair: AnswerRepair
        self._said: transports.Program | None = None
        self._site: transports.Site | None = None
        self._last_words = ""

    @property
    def protocol(self) -> str | None:
        """The version of the protocol that is spoken, None without a connection."""
        return None if self._client is None else self._client.protocol_version

    @property
    def account(self) -> str | None:
        """The fault with the program's last words, which a model must not see."""
        return None if self.fault is None else f"{self.fault}{self._last_words}"

    @property
    def waits(self) -> float:
        """Seconds until the next attempt to connect."""
        return max(0.0, self._again_at - asyncio.get_running_loop().time())

    async def client(self) -> Client:
        """Return the connected client; connect first if necessary.

        Raises `ServerFault` if it cannot be reached, or the last attempt was too recent.
        """
        if self._guard is not None and self._guard.ended.is_set():
            # The connection has ended, and is still being cleaned up.
            self._forget()
        if self._client is not None:
            return self._client
        if self._closed:
            raise ServerFault("it is not used any more, since the host is closed")
        if self._ready is None:
            if self.waits > 0:
                raise ServerFault(
                    f"{self.fault}; another attempt is made in {max(1, round(self.waits))} s"
                )
            self._begin()
        assert self._ready is not None  # noqa: S101 - begun
        ready = self._ready
        try:
            return await asyncio.shield(ready)
        except asyncio.CancelledError:
            if not ready.cancelled():
                raise
            raise ServerFault("the connection was closed meanwhile") from None

    def lose(self, client: Client, fault: str) -> str:
        """End a connection that no longer works, and return why it has ended.

        The next call makes a new connection.
        """
        if self._client is client:
            self.last_end = self._plain(_end_of(self._guard) or fault)
            self._end_life()
            self._fail(self.last_end, at_once=True)
        return self.last_end

    def explain(self, fault: str) -> str:
        """Return a fault with more details than the SDK has."""
        return fault if self._site is None else self._site.explain(fault)

    def has_broken(self, fault: str) -> bool:
        """Tell whether a fault is one of HTTP or its session, and not an answer."""
        return self._site is not None and self._site.has_broken(fault)

    async def close(self) -> None:
        self._closed = True
        self._end_life()
        if self._lives:
            await asyncio.wait(self._lives)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        # Because a call may have stopped waiting, mark the exception as retrieved.
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Because it outlives the first call that needs it, it is not part of that call's trace.
        self._life = asyncio.create_task(self._live(self._ready), context=contextvars.Context())
        self._lives.add(self._life)
        self._life.add_done_callback(self._lives.discard)
        loop.call_later(self._settings.connect_timeout, self._give_up, self._ready)

    def _give_up(self, ready: asyncio.Future[Client]) -> None:
        if not ready.done():
            self._end_life()
            self._fail(f"it was not ready within {self._settings.connect_timeout:g} s", ready=ready)

    def _end_life(self) -> None:
        if self._life is not None:
            self._life.cancel()
        self._clear()

    def _forget(self) -> None:
        self.last_end = self._plain(_end_of(self._guard) or ENDED)
        self._clear()
        self._fail(self.last_end, at_once=True)

    def _clear(self) -> None:
        self._life = self._client = self._guard = self._ready = None

    async def _live(self, ready: asyncio.Future[Client]) -> None:
        """Connect, and stay until the connection ends."""
        me = asyncio.current_task()
        fault = ENDED
        guard = transports.GuardedStream()
        try:
            async with self._speaking(guard) as client:
                await self._list(client)
                if not ready.done():
                    self._client, self._guard, self.fault, self._failures = client, guard, None, 0
                    ready.set_result(client)
                await self._follow(client, guard)
                if self._life is me:
                    self._forget()
        except Exception as error:
            fault = guard.fault or self.explain(told(error))
            log.debug("MCP server %s", self.server, exc_info=True)
        finally:
            if self._life is me:
                was_up = self._client is not None
                self._clear()
                self._fail(fault, ready=ready, at_once=was_up)
            elif not ready.done():
                ready.cancel()

    def _fail(
        self, fault: str, *, ready: asyncio.Future[Client] | None = None, at_once: bool = False
    ) -> None:
        self.fault = fault = self._plain(fault)
        said = self._said.said if self._said is not None else None
        self._last_words = f" (it said: {self._plain(said[-1])})" if said else ""
        if not self._closed:
            log.info("MCP server %s: %s", self.server, self.account)
        wait = 0.0 if at_once else min(LONGEST_WAIT, FIRST_WAIT * 2**self._failures)
        self._failures += not at_once
        spread = random.uniform(1, 1.25)  # noqa: S311 - no secret
        self._again_at = asyncio.get_running_loop().time() + wait * spread
        if ready is not None and not ready.done():
            ready.set_exception(ServerFault(fault))

    def _plain(self, text: str) -> str:
        return hide(text, secrets_of(self._settings))

    async def _follow(self, client: Client, guard: transports.GuardedStream) -> None:
        ended = asyncio.create_task(guard.ended.wait())
        listening = asyncio.create_task(self._listen(client))
        try:
            while not ended.done():
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait([ended, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if self._changed.is_set() and not ended.done():
                    self._changed.clear()
                    try:
                        await self._list(client)
                    except Exception as error:
                        # The connection stays, because running calls would end with it.
                        why = self._plain(told(error))
                        msg = "The tools of MCP server %s stay as they were: %s."
                        log.warning(msg, self.server, why)
                        log.debug("MCP server %s", self.server, exc_info=True)
                        asyncio.get_running_loop().call_later(LONGEST_WAIT, self._changed.set)
                    await asyncio.wait([ended], timeout=BETWEEN_LISTS)
        finally:
            for task in (ended, listening):
                task.cancel()
            await asyncio.gather(ended, listening, return_exceptions=True)

    async def _list(self, client: Client) -> None:
        await self._met(await list_tools(client, self._repair, self._settings.max_tools))

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes if the protocol has the client do so."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    log.debug("MCP server %s reports changes", self.server)
                    # Earlier changes were not announced.
                    self._changed.set()
                    async for event in events:
                        if isinstance(event, ToolsListChanged):
                            self._changed.set()
            except Exception:
                log.debug("MCP server %s reports no changes", self.server, exc_info=True)
            await asyncio.sleep(LONGEST_WAIT)

    async def _refuse_question(self, *_: object) -> types.ErrorData:
        self.questions += 1
        return types.ErrorData(code=types.METHOD_NOT_FOUND, message=REFUSED)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    @asynccontextmanager
    async def _speaking(self, guard: transports.GuardedStream) -> AsyncGenerator[Client]:
        self._changed.clear()
        wanted = self._settings.protocol
        client = Client(
            transports.guarded(guard, self._streams),
            mode="legacy" if wanted == "legacy" else "auto",
            message_handler=self._on_message,
            client_info=US,
            cache=None,
        )
        self._repair = AnswerRepair(client)
        async with client:
            # The SDK would search by the patterns of a server's schema, which may take forever.
            client.session.validate_tool_result = _accept_any  # type: ignore[method-assign]
            # Passed to the SDK openly, they would announce to the server that it may ask.
            for question in _QUESTIONS:
                setattr(client.session, question, self._refuse_question)
            spoken = client.protocol_version
            if wanted not in {"auto", "legacy", spoken}:
                raise ServerFault(f"it speaks {spoken}, and {wanted} is asked for; change protocol")
            yield client

    def _streams(self) -> AbstractAsyncContextManager[TransportStreams]:
        settings = self._settings
        if settings.url is not None:
            headers = {
                name: filled(value, f"headers.{name}") for name, value in settings.headers.items()
            }
            url = filled(settings.url, "url")
            self._site = transports.Site(url, headers, settings.max_message, secrets_of(settings))
            return transports.http_streams(self._site)
        assert settings.command is not None  # noqa: S101 - validated
        if settings.cwd is not None and not Path(settings.cwd).is_dir():
            raise ServerFault(f"the directory {settings.cwd} to start it in does not exist")
        self._said = transports.Program(
            settings.command,
            [filled(argument, "args") for argument in settings.args],
            {name: filled(value, f"env.{name}") for name, value in settings.env.items()}
            | one_deeper(),
            settings.cwd,
            settings.max_message,
        )
        return transports.program_streams(self._said)


async def _accept_any(name: str, result: object) -> None:
    """Validate nothing, in place of the SDK."""


def _end_of(guard: transports.GuardedStream | None) -> str | None:
    """Return why a server's messages have ended, None if they have not."""
    return None if guard is None or not guard.ended.is_set() else guard.fault or ENDED
