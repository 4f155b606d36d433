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
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2

from toolstile_hookspecs import HostHandle, StateError
from toolstile_hookspecs.services.approval_store import Question
from toolstile_hookspecs.support.process import unshared
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.webhook.endpoint import Endpoint, retry_after
from toolstile_plugins.webhook.messages import wire_of
from toolstile_plugins.webhook.webhook import VIA, Webhook

log = logging.getLogger("toolstile.webhook")


class Turn:
    """A file that one process at a time has locked; the system frees it where that one dies.

    Args:
        path: The file; made, with the directories above.

    Attributes:
        asked: The questions that the endpoint was asked and not told the end of: their addresses
            by ticket. The next process that has the turn goes on with them.
    """

    def __init__(self, path: Path) -> None:
        make_directory_of(path)
        self._file = unshared(path, os.O_RDWR | os.O_CREAT)
        self.asked: dict[str, str] = {}

    def take(self) -> bool:
        """Tell whether the turn is this process's, until it is given back."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with suppress(ValueError):
            self.asked = json.loads(self._file.readall().partition(b"\n")[0])
        return True

    def note(self) -> None:
        """Write down what was asked; nothing of it is needed but for a later process."""
        line = json.dumps(self.asked).encode() + b"\n" if self.asked else b""
        try:
            # In this order, so that a process that dies within leaves one of both lines.
            os.pwrite(self._file.fileno(), line, 0)
            os.ftruncate(self._file.fileno(), len(line))
        except OSError:
            log.exception("What the webhook was asked cannot be noted.")

    def close(self) -> None:
        """Give the turn back."""
        self._file.close()


log = logging.getLogger("toolstile.webhook")

T = TypeVar("T")

_LAST: Final = 2.0
"""Seconds for which a host that closes tells the endpoint of calls that were given up."""
_SOON: Final = 0.2
"""Seconds until another look for the first question."""


@asynccontextmanager
async def delivering(host: HostHandle, url: str, inbox: Path) -> AsyncGenerator[None]:
    """Deliver the questions that are kept in a file within the block."""
    delivery = asyncio.create_task(_deliver(host, url, inbox))
    try:
        yield
    finally:
        delivery.cancel()
        await asyncio.wait([delivery])


async def _deliver(host: HostHandle, url: str, inbox: Path) -> None:
    file = inbox.with_suffix(".webhook")
    webhook = await _awaited(host, file)
    with closing(Turn(file)) as turn:
        while not turn.take():  # noqa: ASYNC110 - by another process
            await asyncio.sleep(webhook.settings.interval)
        endpoint = Endpoint(webhook.settings, url)
        async with endpoint.client:
            await Delivery(webhook, endpoint, turn).run()


async def _awaited(host: HostHandle, file: Path) -> Webhook:
    """Return the webhook once there is something to tell; until then a host makes no files."""
    webhook: Any = None
    while True:
        await asyncio.sleep(_SOON)
        # The host has its resources once all plugins are started.
        with suppress(StateError):
            found: Webhook = webhook or await _in_thread(_webhook_of, host)
            webhook = found
            if await _in_thread(_is_needed, found, file):
                return found


def _is_needed(webhook: Webhook, file: Path) -> bool:
    return bool(webhook.inbox.waiting()) or (file.exists() and file.stat().st_size > 0)


async def _in_thread(ask: Callable[..., T], *arguments: Any) -> T:
    """Ask off the loop; one who is cancelled waits, so that nobody opens the store again later."""
    asked = asyncio.ensure_future(asyncio.to_thread(ask, *arguments))
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait([asked])
        raise


def _webhook_of(host: HostHandle) -> Webhook:
    with host.executor() as tools:
        webhook: Webhook = tools.resources.get(Webhook)
    return webhook


class Delivery:
    """Asks the endpoint about each question that waits, and withdraws those that wait no more.

    Args:
        webhook: Takes the answers.
        endpoint: The endpoint.
        turn: The turn to do so, which is this process's.
    """

    def __init__(self, webhook: Webhook, endpoint: Endpoint, turn: Turn) -> None:
        self._webhook = webhook
        self._endpoint = endpoint
        self._turn = turn
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Go on until cancelled; tell the endpoint then of calls that were given up."""
        inbox = self._webhook.inbox
        try:
            while True:
                try:
                    for question in await self._look():
                        if question.ticket not in self._asking:
                            self._note(question.ticket, self._endpoint.address_of(question.ticket))
                            asking = asyncio.create_task(self._ask(question))
                            self._asking[question.ticket] = asking
                except StateError:
                    log.exception("The questions cannot be read; the webhook goes on later.")
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

    async def _look(self) -> list[Question]:
        """Return the questions that wait; withdraw those that wait no more."""
        inbox = self._webhook.inbox
        waiting = await _in_thread(inbox.waiting)
        over = self._turn.asked.keys() - {question.ticket for question in waiting}
        for ticket in over - self._ending.keys():
            found = await _in_thread(inbox.store.get, ticket)
            is_known = found is not None and found.answer is not None and found.answer.via == VIA
            self._ending[ticket] = asyncio.create_task(self._end(ticket, is_known=is_known))
        return waiting

    async def _ask(self, question: Question) -> None:
        settings = self._webhook.settings
        try:
            await self._send_until_answered(question.ticket, wire_of(question, settings.answer_url))
        except StateError as error:
            try:
                await _in_thread(self._webhook.refuse, question, str(error))
            except StateError:
                log.exception("The question %s cannot be denied.", question.ticket)

    async def _send_until_answered(self, ticket: str, body: bytes) -> None:
        endpoint, settings = self._endpoint, self._webhook.settings
        answer, content = await endpoint.send("POST", str(endpoint.url), ticket, body)
        address = endpoint.address_of(ticket, answer.headers.get("location"))
        self._note(ticket, address)
        while not await self._is_answered(ticket, answer, content):
            if settings.answer_url is not None:
                return
            # Many questions of one moment are not asked for in one moment.
            pause = settings.interval * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            await asyncio.sleep(max(pause, retry_after(answer)))
            answer, content = await endpoint.send("GET", address, f"{ticket}-poll")

    async def _is_answered(self, ticket: str, answer: httpx2.Response, content: bytes) -> bool:
        if answer.status_code != HTTPStatus.OK:
            return False
        return await _in_thread(self._webhook.take, ticket, answer.headers, content)

    async def _end(self, ticket: str, *, is_known: bool) -> None:
        """Tell the endpoint that nobody waits for an answer any more, unless it gave the answer."""
        if (asking := self._asking.pop(ticket, None)) is not None:
            asking.cancel()
            await asyncio.wait([asking])
        try:
            if not is_known:
                # What is noted may be of another endpoint.
                address = self._endpoint.address_of(ticket, self._turn.asked[ticket])
                await self._endpoint.send("DELETE", address, f"{ticket}-withdrawn")
        except StateError as error:
            log.warning("The webhook is not told that %s was withdrawn: %s", ticket, error)
        self._note(ticket, None)
        del self._ending[ticket]

    def _note(self, ticket: str, address: str | None) -> None:
        if address is None:
            del self._turn.asked[ticket]
        else:
            self._turn.asked[ticket] = address
        self._turn.note()
