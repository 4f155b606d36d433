"""The settings of the webhook, the table `[plugins.webhook]`."""

from __future__ import annotations

import base64
import ipaddress
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

PREFIX: Final = "whsec_"
SHORTEST: Final = 24
"""Bytes of a secret, as Standard Webhooks asks for."""


def is_loopback(url: str) -> bool:
    """Return whether a URL reaches only this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _url(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None:
        raise ValueError("give a URL such as https://approvals.example.org/questions")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
        raise ValueError("give an https URL; http is only for this machine")
    return url


def _secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    try:
        size = len(base64.b64decode(text.removeprefix(PREFIX), validate=True))
    except ValueError:
        size = 0
    if size < SHORTEST or not text.startswith(PREFIX):
        raise ValueError(f"give {PREFIX} and at least {SHORTEST} random bytes as Base64")
    return secret


Url = Annotated[str, AfterValidator(_url)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class WebhookSettings(BaseModel):
    """The table `[plugins.webhook]`.

    Args:
        url: The address that questions are posted to; None for no webhook. It is https, unless it
            reaches only this machine. The webhook asks for the answer at the `Location` of the
            response, else at this address, a slash and the id of the question.
        answer_url: The address at which the application receives answers for `Webhook.receive`.
            The endpoint gets it with each question, and the webhook does not ask for answers.
        secret: The secret that signs messages both ways, as Standard Webhooks has it: `whsec_` and
            at least 24 random bytes as Base64.
        headers: More headers of every request, such as `authorization`.
        timeout: Seconds for one request with its answer.
        interval: The approximate seconds between two looks for an answer.
        backoff: The most seconds between two tries to reach an endpoint that fails.

    Example:
        >>> WebhookSettings(url="http://localhost:8000", secret="whsec_" + "c2VjcmV0" * 4).interval
        5.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Url | None = None
    answer_url: Url | None = None
    secret: Annotated[SecretStr, AfterValidator(_secret)] | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    timeout: Seconds = 10.0
    interval: Seconds = 5.0
    backoff: Seconds = 60.0

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.url is not None and self.secret is None:
            raise ValueError("url: give a secret as well, which signs questions and answers")
        for name, value in self.headers.items():
            text = f"{name}{value.get_secret_value()}"
            if not (text.isascii() and text.isprintable()):
                raise ValueError(f"headers: {name!r} cannot be sent; use printable ASCII")
        return self

    @property
    def key(self) -> bytes:
        """The key that signs."""
        secret = self.secret or SecretStr(PREFIX)
        return base64.b64decode(secret.get_secret_value().removeprefix(PREFIX))
