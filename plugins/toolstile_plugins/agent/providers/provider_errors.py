"""Errors of client libraries, as the faults of providers that they stand for.

The libraries share the names and the attributes of their exceptions, and each brings an HTTP client
of its own: by these they are known without an import.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from toolstile_hookspecs.agents.messages import Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_plugins.dialects.parse import field

_CODES: Final = {
    **dict.fromkeys(("insufficient_quota", "billing_error"), FaultType.QUOTA),
    **dict.fromkeys(("billing_not_active", "billing_hard_limit_reached"), FaultType.QUOTA),
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error"), FaultType.RATE_LIMIT),
    **dict.fromkeys(("timeout", "timeout_error", "request_timeout"), FaultType.TIMEOUT),
    **dict.fromkeys(("server_error", "api_error", "overloaded_error"), FaultType.UNAVAILABLE),
    **dict.fromkeys(("invalid_request_error", "invalid_prompt"), FaultType.REFUSED),
    **dict.fromkeys(("authentication_error", "permission_error"), FaultType.REFUSED),
    **dict.fromkeys(("not_found_error", "context_length_exceeded"), FaultType.REFUSED),
    **dict.fromkeys(("content_filter", "content_policy_violation"), FaultType.REFUSED),
}
_STATUSES: Final[dict[int, FaultType]] = {
    HTTPStatus.PAYMENT_REQUIRED: FaultType.QUOTA,
    HTTPStatus.TOO_MANY_REQUESTS: FaultType.RATE_LIMIT,
    HTTPStatus.REQUEST_TIMEOUT: FaultType.TIMEOUT,
    HTTPStatus.GATEWAY_TIMEOUT: FaultType.TIMEOUT,
    HTTPStatus.CONFLICT: FaultType.UNAVAILABLE,
}
_NAMES: Final = ("code", "type", "error_code", "status_code")
_STATUS: Final = re.compile("[45][0-9]{2}")
_CLASSES: Final = {
    **dict.fromkeys(("Timeout", "TimeoutError", "TimeoutException"), FaultType.TIMEOUT),
    "APITimeoutError": FaultType.TIMEOUT,
    **dict.fromkeys(("APIError", "TransportError", "JSONDecodeError"), FaultType.UNAVAILABLE),
}
"""Names of exceptions; in the libraries' hierarchies the more special ones come first."""


def fault_of(error: BaseException, provider: str) -> ProviderError | None:
    """Return the fault that an exception of a client library stands for, None for other ones.

    Args:
        error: The exception.
        provider: The provider, for the message.
    """
    status = getattr(error, "status_code", None)
    # The fault may come in the midst of a stream; LiteLLM has words in this place as well.
    if status == HTTPStatus.OK or not isinstance(status, int):
        status = None
    if (type_ := _type_of(error, status)) is None:
        return None
    where = provider if status is None else f"{provider} ({status})"
    said = getattr(error, "api_message", "") or getattr(error, "message", "")
    text = str(said or error) or type(error).__name__
    # LiteLLM loses the words of a fault in a good answer, but for the innermost exception.
    innermost = getattr(chain_of(error)[-1], "message", None)
    if text.endswith("- ") and isinstance(innermost, str):
        text += innermost
    headers = getattr(getattr(error, "response", None), "headers", None)
    return ProviderError(f"{where}: {text}", type_, retry_after=retry_after(headers or {}))


def chain_of(error: BaseException | None) -> list[BaseException]:
    """Return an exception and those behind it, which a log shows with it."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:  # `raise error from error` makes a circle
        chain.append(error)
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__
    return chain


def fault_in(error: object, provider: str, usage: Usage | None = None) -> ProviderError:
    """Return the fault that stands in a reply whose status is that of a good one.

    Args:
        error: The provider's own words.
        provider: The provider, for the message.
        usage: The tokens that the request has taken.
    """
    text = error if isinstance(error, str) else field(error, "message") or error
    type_ = _by_code(error) or FaultType.UNAVAILABLE
    return ProviderError(f"{provider}: {text}", type_, usage=usage)


def retry_after(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Return the seconds after which a provider wants to be asked again, None where it says none.

    Example:
        >>> retry_after({"retry-after-ms": "1500", "retry-after": "2"})
        1.5
        >>> at = datetime(2026, 1, 1, tzinfo=UTC)
        >>> retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:20 GMT"}, at)
        20.0
    """
    for name, parts in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) / parts
            return seconds if 0 <= seconds < math.inf else None
    with suppress(ValueError):
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())
    return None


def _type_of(error: BaseException, status: int | None) -> FaultType | None:
    told: list[object] = []
    for each in reversed(chain_of(error)):
        body = getattr(each, "body", None)
        told += (each, body, field(body, "error"))  # LiteLLM writes codes of its own above
    by_code = _by_code(*told)
    if type(error).__name__ == "MidStreamFallbackError":  # whose status LiteLLM makes up
        status = None
    if status is None or by_code is FaultType.QUOTA:
        names = (each.__name__ for each in type(error).__mro__)
        return by_code or next((_CLASSES[name] for name in names if name in _CLASSES), None)
    return _by_status(status)


def _by_code(*told: object) -> FaultType | None:
    for each in told:
        for code in (str(field(each, name)) for name in _NAMES):
            if (type_ := _CODES.get(code)) is not None:
                return type_
            if _STATUS.fullmatch(code):
                return _by_status(int(code))
    return None


def _by_status(status: int) -> FaultType:
    is_broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _STATUSES.get(status, FaultType.UNAVAILABLE if is_broken else FaultType.REFUSED)
