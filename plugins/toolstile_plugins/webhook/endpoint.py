"""The endpoint of the webhook: requests to it, signed and bounded."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx2
import tenacity

from toolstile_hookspecs import StateError
from toolstile_plugins.webhook.messages import signed
from toolstile_plugins.webhook.settings import WebhookSettings, is_loopback
from toolstile_plugins.webhook.webhook import LARGEST

log = logging.getLogger("toolstile.webhook")

AT_ONCE: Final = 20
"""Requests that are under way at once."""
_LATER: Final = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""The statuses below 500 of an endpoint that can be asked again."""
_LONGEST: Final = 24 * 60 * 60.0
"""Seconds for which an endpoint can ask to be left alone."""


class Unavailable(Exception):
    """The endpoint fails, so that it is asked again, after some seconds."""

    def __init__(self, fault: str, after: float = 0.0) -> None:
        super().__init__(fault)
        self.after = after


class Endpoint:
    """An endpoint, through one client; to be used within the event loop that made it.

    Args:
        settings: The settings.
        url: Its address.
    """

    def __init__(self, settings: WebhookSettings, url: str) -> None:
        self.settings = settings
        self.url = httpx2.URL(url)
        self._headers = {name: text.get_secret_value() for name, text in settings.headers.items()}
        # A proxy is not asked for this machine.
        self.client = httpx2.AsyncClient(timeout=settings.timeout, trust_env=not is_loopback(url))
        self._room = asyncio.Semaphore(AT_ONCE)
        self._backoff = tenacity.wait_exponential_jitter(
            multiplier=settings.interval, max=settings.backoff, jitter=settings.interval
        )

    def address_of(self, ticket: str, location: str | None = None) -> str:
        """Return the address of a question, as an answer may name it.

        Raises:
            StateError: It is on another host.
        """
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
        """Send a message until it is taken; return the answer and its body.

        Raises:
            StateError: The endpoint does not take it.
        """

        def pause(state: tenacity.RetryCallState) -> float:
            fault = state.outcome and state.outcome.exception()
            log.warning("The webhook is asked again later: %s", fault)
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
    """Return the seconds for which an endpoint asks to be left alone, a day at most."""
    text = answer.headers.get("retry-after", "")
    seconds = float(text) if text.isdecimal() else 0.0
    # A date without a zone cannot be compared.
    with suppress(ValueError, TypeError):
        seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST)
