"""The faults of providers, as their client libraries raise them, in the types that the loop knows.

The libraries share their exceptions' names and attributes, and each brings an HTTP client of its
own, so that they are known by these and none has to be imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, cast

from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_plugins.dialects.parse import field

QUOTA_CODES: Final = frozenset(
    {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "billing_error"}
)
"""Codes of an account that may spend no more, though the status is that of a rate limit."""

_LIMIT_CODES: Final = frozenset({"rate_limit_exceeded", "rate_limit_error"})
_TIMEOUTS: Final = frozenset({"APITimeoutError", "Timeout", "TimeoutException", "TimeoutError"})
_UNAVAILABLE: Final = frozenset(
    {"APIConnectionError", "TransportError", "APIError", "JSONDecodeError"}
)
"""The names of exceptions; those of libraries stand above their more special ones."""


def fault_of(error: BaseException, provider: str) -> ProviderError | None:
    """Return the fault that an exception of a client library stands for, None for other ones.

    Args:
        error: The exception.
        provider: The provider, for the message.
    """
    names = {each.__name__ for each in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if status == HTTPStatus.OK:  # the fault came in the midst of a stream
        status = None
    told = (error, getattr(error, "body", None))  # LiteLLM writes codes of its own above
    codes = {str(field(each, name)) for each in told for name in ("code", "type", "error_code")}
    if isinstance(status, int):
        type_ = _of_status(status, codes)
    elif codes & QUOTA_CODES:
        type_ = FaultType.QUOTA
    elif codes & _LIMIT_CODES:
        type_ = FaultType.RATE_LIMIT
    elif names & _TIMEOUTS:
        type_ = FaultType.TIMEOUT
    elif names & _UNAVAILABLE:
        type_ = FaultType.UNAVAILABLE
    else:
        return None
    where = f"{provider} ({status})" if isinstance(status, int) else provider
    said = getattr(error, "api_message", "") or getattr(error, "message", "")
    text = str(said or error) or type(error).__name__
    headers = getattr(getattr(error, "response", None), "headers", None)
    return ProviderError(f"{where}: {text}", type_, retry_after=retry_after(headers or {}))


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
        try:
            seconds = float(headers[name]) / parts
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        moment = parsedate_to_datetime(cast("str", headers["retry-after"]))
    except (KeyError, ValueError):
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())


def _of_status(status: int, codes: set[str]) -> FaultType:
    match status:
        case HTTPStatus.PAYMENT_REQUIRED:
            return FaultType.QUOTA
        case HTTPStatus.TOO_MANY_REQUESTS:
            return FaultType.QUOTA if codes & QUOTA_CODES else FaultType.RATE_LIMIT
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.GATEWAY_TIMEOUT:
            return FaultType.TIMEOUT
        case HTTPStatus.CONFLICT:
            return FaultType.UNAVAILABLE
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return FaultType.UNAVAILABLE
        case _:
            return FaultType.REFUSED
