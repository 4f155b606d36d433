"""The delivery of questions: one host of all that share an inbox asks the endpoint about them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import tenacity

from toolstile_hookspecs import HostHandle, StateError
from toolstile_hookspecs.services.approval_store import Question
from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.webhook.settings import WebhookSettings, is_loopback
from toolstile_plugins.webhook.webhook import LARGEST, VIA, HostTools, Webhook, signed, wire_of

log = logging.getLogger("toolstile.webhook")

AT_ONCE: Final = 20
"""Simultaneous requests."""
_LATER: Final = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""The statuses below 500 after which a request is retried."""
_LONGEST: Final = 24 * 60 * 60.0
"""The most seconds for which an endpoint can delay a retry."""


class Unavailable(Exception):
    """The endpoint fails, and the request is retried after some seconds."""

    def __init__(self, fault: str, after: float = 0.0) -> None:
        super().__init__(fault)
        self.after = after


class Endpoint:
    """An endpoint, through one client; it belongs to the event loop that made it."""

    def __init__(self, settings: WebhookSettings, url: str) -> None:
        self.settings = settings
        self.url = httpx2.URL(url)
        self._headers = {name: text.get_secret_value() for name, text in settings.headers.items()}
        # An address of this machine needs no proxy.
        self.client = httpx2.AsyncClient(timeout=settings.timeout, trust_env=not is_loopback(url))
        self._room = asyncio.Semaphore(AT_ONCE)
        self._backoff = tenacity.wait_exponential_jitter(
            multiplier=settings.interval, max=settings.backoff, jitter=settings.interval
        )

    def address_of(self, ticket: str, location: str | None = None) -> str:
        """Return the address of a question; raises `StateError` for a location on another host."""
        if location is None:
            return str(self.url.copy_with(path=f"{self.url.path.rstrip('/')}/{ticket}"))
        with suppress(httpx2.InvalidURL):
            address = self.url.join(location)
            if (address.scheme, address.netloc) == (self.url.scheme, self.url.netloc):
                return str(address)
        raise StateError("The webhook names an address on another host")

    async def send(
        self, method: str, address: str, id_: str, body: bytes = b""
    ) -> tuple[httpx2.Response, bytes]:
        """Send a message until it is accepted; return the response, or raise `StateError`."""

        def pause(state: tenacity.RetryCallState) -> float:
            fault = state.outcome and state.outcome.exception()
            log.warning("The request to the webhook is retried later: %s", fault)
            return max(self._backoff(state), fault.after if isinstance(fault, Unavailable) else 0)

        again = tenacity.retry_if_exception_type(Unavailable)
        retrying = tenacity.AsyncRetrying(retry=again, wait=pause)
        return await retrying(self._send, method, address, id_, body)

    async def _send(
        self, method: str, address: str, id_: str, body: bytes
    ) -> tuple[httpx2.Response, bytes]:
        headers = {
            **self._headers,
            **signed(self.settings.key, id_, body),
            "content-type": "application/json",
            # Its content may be a thousand times as large.
            "accept-encoding": "identity",
        }
        content = bytearray()
        try:
            async with (
                self._room,
                asyncio.timeout(self.settings.timeout),
                self.client.stream(method, address, headers=headers, content=body) as answer,
            ):
                async for chunk in answer.aiter_raw():
                    content += chunk
                    if len(content) > LARGEST:
                        raise StateError(f"The webhook answered with over {LARGEST:,} bytes")
        except (httpx2.HTTPError, TimeoutError) as error:
            raise Unavailable(str(error) or type(error).__name__) from error
        status = answer.status_code
        if status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unavailable(f"HTTP status {status}", retry_after(answer))
        if not answer.is_success:
            raise StateError(f"The webhook answered with HTTP status {status}")
        return answer, bytes(content)


def retry_after(answer: httpx2.Response) -> float:
    """Return the seconds after which an endpoint wants a retry, a day at most."""
    text = answer.headers.get("retry-after", "")
    seconds = float(text) if text.isdecimal() else 0.0
    # A date without a zone cannot be compared.
    with suppress(ValueError, TypeError):
        seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST)


class Turn:
    """A lock file: one process at a time has the turn to deliver, until it dies at the latest.

    Attributes:
        asked: The addresses of posted questions without an end, by ticket. The next process with
            the turn continues with them.
    """

    def __init__(self, path: Path) -> None:
        make_directory_of(path)
        self._file = unshared(path, os.O_RDWR | os.O_CREAT)
        self.asked: dict[str, str] = {}

    def take(self) -> bool:
        """Lock the file; return False if another process has it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with suppress(ValueError):
            self.asked = json.loads(self._file.readall().partition(b"\n")[0])
        return True

    def note(self, ticket: str, address: str | None) -> None:
        """Write the address of a posted question to the file, for a later process; None ends it."""
        self.asked = {name: at for name, at in self.asked.items() if name != ticket}
        if address is not None:
            self.asked[ticket] = address
        line = json.dumps(self.asked).encode() + b"\n" if self.asked else b""
        try:
            # In this order, so that a process that dies here leaves one of both lines.
            os.pwrite(self._file.fileno(), line, 0)
            os.ftruncate(self._file.fileno(), len(line))
        except OSError:
            log.exception("The questions at the webhook cannot be noted.")

    def close(self) -> None:
        """Free the turn."""
        self._file.close()


T = TypeVar("T")

_LAST: Final = 2.0
"""Seconds for which a closing host withdraws questions from the endpoint."""
_SOON: Final = 0.2
"""Seconds between two looks for the first question."""


@asynccontextmanager
async def delivering(host: HostHandle, url: str, inbox: Path) -> AsyncGenerator[HostTools]:
    """Deliver the questions of an inbox within the block."""
    delivery = asyncio.create_task(_deliver(host, url, inbox.with_suffix(".webhook")))
    try:
        yield HostTools(host.catalog)
    finally:
        delivery.cancel()
        await asyncio.wait([delivery])


async def _deliver(host: HostHandle, url: str, file: Path) -> None:
    found: list[Webhook] = []

    def is_needed() -> bool:
        if not found:
            with host.executor() as tools:
                found.append(tools.resources.get(Webhook))
        return bool(found[0].inbox.waiting()) or (file.exists() and file.stat().st_size > 0)

    is_used = False
    while not is_used:  # until there is a question, a host makes no files
        await asyncio.sleep(_SOON)
        # The host has its resources once all plugins are started.
        with suppress(StateError):
            is_used = await _in_thread(is_needed)
    webhook = found[0]
    with closing(Turn(file)) as turn:
        while not turn.take():  # noqa: ASYNC110 - by another process
            await asyncio.sleep(webhook.settings.interval)
        endpoint = Endpoint(webhook.settings, url)
        async with endpoint.client:
            await Delivery(webhook, endpoint, turn).run()


async def _in_thread(ask: Callable[..., T], *arguments: Any) -> T:
    """Call a function on a thread; a cancelled caller waits, so that the store is not reopened."""
    asked = asyncio.ensure_future(asyncio.to_thread(ask, *arguments))
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait([asked])
        raise


@dataclass(eq=False)
class Delivery:
    """Posts each question that waits to the endpoint, and withdraws it after another answer.

    The questions of a turn are one message. The turn to deliver belongs to this process.
    """

    _webhook: Webhook
    _endpoint: Endpoint
    _turn: Turn
    _asking: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    _ending: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    # The tickets in each message that was posted, and the size of each message at the last look.
    _rows: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _seen: dict[str, int] = field(default_factory=dict[str, int])

    async def run(self) -> None:
        """Deliver questions until cancelled; then withdraw the ones without an answer."""
        inbox = self._webhook.inbox
        try:
            while True:
                try:
                    waiting = await self._look()
                    for id_, rows in waiting.items():
                        # Because a turn may come row by row, its size must be as before.
                        is_whole = rows[0].ticket == id_ or self._seen.get(id_) == len(rows)
                        if is_whole and id_ not in self._asking:
                            self._turn.note(id_, self._endpoint.address_of(id_))
                            self._rows[id_] = [row.ticket for row in rows]
                            self._asking[id_] = asyncio.create_task(self._ask(id_, rows))
                    self._seen = {id_: len(rows) for id_, rows in waiting.items()}
                except StateError:
                    log.exception("The questions cannot be read; the webhook retries later.")
                await asyncio.sleep(inbox.settings.interval)
        finally:
            with suppress(StateError):
                await self._look()
            for asking in self._asking.values():
                asking.cancel()
            if tasks := {*self._asking.values(), *self._ending.values()}:
                _, late = await asyncio.wait(tasks, timeout=_LAST)
                for task in late:
                    task.cancel()

    async def _look(self) -> dict[str, list[Question]]:
        """Return the questions that wait, by message; withdraw the others from the endpoint."""
        inbox = self._webhook.inbox
        waiting: dict[str, list[Question]] = {}
        for question in await _in_thread(inbox.waiting):
            id_ = question.turn or question.ticket
            if question.ticket not in self._rows.get(id_, [question.ticket]):
                id_ = question.ticket  # because it came after the message of its turn
            waiting.setdefault(id_, []).append(question)
        over = self._turn.asked.keys() - waiting.keys()
        for id_ in over - self._ending.keys():
            found = [await _in_thread(inbox.store.get, row) for row in self._rows.get(id_, [id_])]
            is_known = all(each and each.answer and each.answer.via == VIA for each in found)
            self._ending[id_] = asyncio.create_task(self._end(id_, is_known=is_known))
        return waiting

    async def _ask(self, id_: str, rows: list[Question]) -> None:
        endpoint, settings = self._endpoint, self._webhook.settings
        body = wire_of(id_, rows, settings.answer_url)
        try:
            answer, content = await endpoint.send("POST", str(endpoint.url), id_, body)
            address = endpoint.address_of(id_, answer.headers.get("location"))
            self._turn.note(id_, address)
            while answer.status_code != HTTPStatus.OK or not await _in_thread(
                self._webhook.take, id_, answer.headers, content
            ):
                if settings.answer_url is not None:
                    return
                # At random, because many questions may be of one moment.
                pause = settings.interval * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
                await asyncio.sleep(max(pause, retry_after(answer)))
                answer, content = await endpoint.send("GET", address, f"{id_}-poll")
        except StateError as error:
            try:
                await _in_thread(self._webhook.refuse, rows, str(error))
            except StateError:
                log.exception("The question %s cannot be denied.", id_)

    async def _end(self, ticket: str, *, is_known: bool) -> None:
        """Withdraw a question from the endpoint, unless the endpoint gave the answer."""
        if (asking := self._asking.pop(ticket, None)) is not None:
            asking.cancel()
            await asyncio.wait([asking])
        try:
            if not is_known:
                # The file may have addresses of another endpoint.
                address = self._endpoint.address_of(ticket, self._turn.asked[ticket])
                await self._endpoint.send("DELETE", address, f"{ticket}-withdrawn")
        except StateError as error:
            log.warning("The question %s cannot be withdrawn from the webhook: %s", ticket, error)
        self._turn.note(ticket, None)
        self._rows.pop(ticket, None)
        del self._ending[ticket]
