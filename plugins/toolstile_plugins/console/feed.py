"""Changes, sent to the open pages as server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock
from time import thread_time
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

log = logging.getLogger("toolstile.console")

SHARE: Final = 1 / 400
"""The part of a processor that looking for changes may take from the calls beside it."""
LONGEST: Final = 5.0
"""The most seconds between two looks for that reason."""


@dataclass(eq=False)
class Feed:
    """Sends changes to the open pages of one kind.

    It looks for changes once for all pages, and only while a page is open. A page that connects
    again names the last version that it has, and gets an event at once if there is a newer one.
    """

    _version: Callable[[], Any]
    """Returns a value that changes with the content of the pages, and is short as a text."""
    _interval: float  # in seconds, between two looks
    _news: Callable[[Request, str, Any], str | None] | None = None
    """Returns the news from one version to another, as HTML; None if the page must load again."""
    _now: Any = ""
    _open: int = 0
    _spent: float = 0.0
    _made: dict[tuple[str, str], bytes] = field(default_factory=dict[tuple[str, str], bytes])
    _looking: asyncio.Task[None] | None = None
    # The last look for pages that were closed meanwhile may end during the next.
    _one_look: Lock = field(default_factory=Lock)

    @property
    def is_looking(self) -> bool:
        """True while it looks for changes."""
        return self._looking is not None

    async def serve(self, request: Request) -> StreamingResponse:
        """Return the stream of changes."""
        told = request.headers.get("last-event-id", "")
        return StreamingResponse(self.events(request, told), media_type="text/event-stream")

    async def events(self, request: Request, told: str) -> AsyncGenerator[bytes]:
        """Yield events for a page that has the version `told`."""
        self._open += 1
        if self._looking is None:
            # It belongs to the loop that serves the pages.
            self._changed = asyncio.Condition()
            self._looking = asyncio.create_task(self._look())
        try:
            yield b"retry: 1000\n\n"
            while True:
                async with self._changed:
                    while (now := str(self._now)) in {"", told}:
                        await self._changed.wait()
                # Pages with the same version share an event.
                key = request.url.query, told
                if key not in self._made:
                    began = thread_time()
                    news = None if self._news is None else self._news(request, told, self._now)
                    name = "" if news is None else "event: news\n"
                    data = "\n".join([f"data: {line}" for line in (news or now).split("\n")])
                    self._made[key] = f"id: {now}\n{name}{data}\n\n".encode()
                    self._spent += thread_time() - began
                event = self._made[key]
                told = now
                yield event
        finally:
            self._open -= 1
            if not self._open:
                self._looking.cancel()
                self._looking, self._now = None, ""

    async def _look(self) -> None:
        def timed_version() -> tuple[Any, float]:
            with self._one_look:
                began = thread_time()
                return self._version(), thread_time() - began

        while True:
            try:
                now, self._spent = await run_in_threadpool(timed_version)
            except Exception as error:  # noqa: BLE001 - pages would wait for events in vain
                log.warning("The console cannot look for changes: %r", error)
            else:
                async with self._changed:
                    if now != self._now:
                        self._made.clear()
                        self._now = now
                        self._changed.notify_all()
            await asyncio.sleep(self._interval)
            await asyncio.sleep(min(self._spent / SHARE, LONGEST) - self._interval)


@dataclass(eq=False)
class SharedFeed:
    """Joins the streams of all pages of a browser, which opens few connections to a server.

    The query names each stream as `of`: its name, the page's query, and behind `#` the last version
    of the page. Its events have its place in the query before their ids.
    """

    _feeds: Mapping[str, Feed]

    async def serve(self, request: Request) -> StreamingResponse:
        """Return the joined stream."""
        streams = [urlsplit(each) for each in request.query_params.getlist("of")]
        if unknown := [stream.path for stream in streams if stream.path not in self._feeds]:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"The console has no events of {unknown[0]}.")
        return StreamingResponse(self._events(request, streams), media_type="text/event-stream")

    async def _events(self, request: Request, streams: list[SplitResult]) -> AsyncGenerator[bytes]:
        events = asyncio.Queue[bytes](1)

        async def pass_on(place: int, stream: SplitResult) -> None:
            own = Request({**request.scope, "query_string": stream.query.encode()})
            feed = self._feeds[stream.path]
            async with aclosing(feed.events(own, stream.fragment)) as found:
                async for event in found:
                    await events.put(event.replace(b"id: ", f"id: {place} ".encode(), 1))

        tasks = [asyncio.create_task(pass_on(*each)) for each in enumerate(streams)]
        try:
            while True:
                yield await events.get()
        finally:
            for task in tasks:
                task.cancel()
