"""The delivery of questions: one host of all that share an inbox asks the endpoint about them."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import httpx2

from toolstile_hookspecs import HostHandle, StateError
from toolstile_hookspecs.services.approval_store import Question
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.webhook.endpoint import Endpoint, retry_after
from toolstile_plugins.webhook.messages import wire_of
from toolstile_plugins.webhook.webhook import VIA, Webhook

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
    webhook = await _awaited(host)
    # The system gives the turn to another host where this one dies.
    make_directory_of(inbox)
    with inbox.with_suffix(".webhook").open("w") as turn:
        while not _is_taken(turn):  # noqa: ASYNC110 - by another process
            await asyncio.sleep(webhook.settings.interval)
        endpoint = Endpoint(webhook.settings, url)
        async with endpoint.client:
            await Delivery(webhook, endpoint).run()


async def _awaited(host: HostHandle) -> Webhook:
    """Return the webhook once a question waits; a host without questions makes no files."""
    webhook: Any = None
    while True:
        await asyncio.sleep(_SOON)
        # The host has its resources once all plugins are started.
        with suppress(StateError):
            found: Webhook = webhook or await _in_thread(_webhook_of, host)
            webhook = found
            if await _in_thread(found.inbox.waiting):
                return found


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


def _is_taken(turn: IO[str]) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


class Delivery:
    """Asks the endpoint about each question that waits, and withdraws those that wait no more.

    Args:
        webhook: Takes the answers.
        endpoint: The endpoint.
    """

    def __init__(self, webhook: Webhook, endpoint: Endpoint) -> None:
        self._webhook = webhook
        self._endpoint = endpoint
        self._asked: dict[str, _Inquiry] = {}
        self._ended: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Go on until cancelled; tell the endpoint then of calls that were given up."""
        inbox = self._webhook.inbox
        try:
            while True:
                try:
                    for question in await self._look():
                        if question.ticket not in self._asked:
                            inquiry = _Inquiry(self._webhook, self._endpoint, question)
                            self._asked[question.ticket] = inquiry
                except StateError:
                    log.exception("The questions cannot be read; the webhook goes on later.")
                await asyncio.sleep(inbox.settings.interval)
        finally:
            with suppress(StateError):
                await self._look()
            tasks = {inquiry.task for inquiry in self._asked.values()}
            for task in tasks:
                task.cancel()
            if tasks := tasks | self._ended:
                _, late = await asyncio.wait(tasks, timeout=_LAST)
                for task in late:
                    task.cancel()

    async def _look(self) -> list[Question]:
        """Return the questions that wait; withdraw those that wait no more."""
        inbox = self._webhook.inbox
        waiting = await _in_thread(inbox.waiting)
        for ticket in self._asked.keys() - {question.ticket for question in waiting}:
            inquiry = self._asked.pop(ticket)
            inquiry.task.cancel()
            self._end(inquiry.task)
            found = await _in_thread(inbox.store.get, ticket)
            if found is None or found.answer is None or found.answer.via != VIA:
                self._end(asyncio.create_task(inquiry.withdraw()))
        return waiting

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)


class _Inquiry:
    """One question at the endpoint.

    Attributes:
        task: Asks for the answer, and gives it to the inbox.
    """

    def __init__(self, webhook: Webhook, endpoint: Endpoint, question: Question) -> None:
        self._webhook = webhook
        self._endpoint = endpoint
        self._question = question
        self._address = endpoint.address_of(question.ticket)
        self.task = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        question, settings = self._question, self._webhook.settings
        try:
            await self._send_until_answered(wire_of(question, settings.answer_url))
        except StateError as error:
            try:
                await _in_thread(self._webhook.refuse, question, str(error))
            except StateError:
                log.exception("The question %s cannot be denied.", question.ticket)

    async def _send_until_answered(self, body: bytes) -> None:
        endpoint, ticket, settings = self._endpoint, self._question.ticket, self._webhook.settings
        answer, content = await endpoint.send("POST", str(endpoint.url), ticket, body)
        self._address = endpoint.address_of(ticket, answer)
        while not await self._is_answered(answer, content):
            if settings.answer_url is not None:
                return
            # Many questions of one moment are not asked for in one moment.
            pause = settings.interval * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            await asyncio.sleep(max(pause, retry_after(answer)))
            answer, content = await endpoint.send("GET", self._address, f"{ticket}-poll")

    async def _is_answered(self, answer: httpx2.Response, content: bytes) -> bool:
        if answer.status_code != HTTPStatus.OK:
            return False
        ticket = self._question.ticket
        return await _in_thread(self._webhook.take, ticket, answer.headers, content)

    async def withdraw(self) -> None:
        """Tell the endpoint that nobody waits for an answer any more."""
        id_ = f"{self._question.ticket}-withdrawn"
        try:
            async with asyncio.timeout(self._webhook.settings.backoff):
                await self._endpoint.send("DELETE", self._address, id_)
        except (StateError, TimeoutError) as error:
            log.warning("The webhook is not told of %s: %s", id_, str(error) or "it fails.")
