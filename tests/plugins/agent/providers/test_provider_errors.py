"""Errors of client libraries become faults, by status, code and name."""

from __future__ import annotations

from datetime import UTC, datetime

import anthropic
import httpx2
import openai
import pytest

from toolstile_hookspecs.agents.provider import FaultType
from toolstile_plugins.agent.providers.base import fault_of, retry_after

REQUEST = httpx2.Request("POST", "http://localhost")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def answered(status: int, body: object = None, headers: dict[str, str] | None = None) -> Exception:
    response = httpx2.Response(status, request=REQUEST, headers=headers or {})
    return openai.APIStatusError("It went wrong.", response=response, body=body)


def test_a_status_tells_the_type(subtests: pytest.Subtests):
    for status, code, type_ in [
        (400, None, FaultType.REFUSED),
        (401, None, FaultType.REFUSED),
        (402, None, FaultType.QUOTA),
        (404, None, FaultType.REFUSED),
        (408, None, FaultType.TIMEOUT),
        (409, None, FaultType.UNAVAILABLE),
        (429, "rate_limit_exceeded", FaultType.RATE_LIMIT),
        (429, "insufficient_quota", FaultType.QUOTA),
        (500, None, FaultType.UNAVAILABLE),
        (503, None, FaultType.UNAVAILABLE),
        (504, None, FaultType.TIMEOUT),
        (529, None, FaultType.UNAVAILABLE),
    ]:
        with subtests.test(status=status, code=code, type_=type_):
            fault = fault_of(answered(status, {"code": code}), "openai")
            assert fault is not None
            assert fault.type is type_
            assert str(fault) == f"openai ({status}): It went wrong."


def test_an_error_without_a_status_is_known_by_its_name(subtests: pytest.Subtests):
    for error, type_ in [
        (openai.APITimeoutError(request=REQUEST), FaultType.TIMEOUT),
        (openai.APIConnectionError(request=REQUEST), FaultType.UNAVAILABLE),
        (anthropic.APITimeoutError(request=REQUEST), FaultType.TIMEOUT),
        (anthropic.APIConnectionError(request=REQUEST), FaultType.UNAVAILABLE),
        (httpx2.ReadTimeout("slow", request=REQUEST), FaultType.TIMEOUT),
        (httpx2.RemoteProtocolError("cut", request=REQUEST), FaultType.UNAVAILABLE),
        (TimeoutError(), FaultType.TIMEOUT),
        (
            openai.APIError("busy", REQUEST, body={"code": "rate_limit_exceeded"}),
            FaultType.RATE_LIMIT,
        ),
        (openai.APIError("broke", REQUEST, body={"code": "insufficient_quota"}), FaultType.QUOTA),
        (openai.APIError("failed", REQUEST, body={"code": "server_error"}), FaultType.UNAVAILABLE),
    ]:
        with subtests.test(error=error, type_=type_):
            fault = fault_of(error, "openai")
            assert fault is not None
            assert fault.type is type_


@pytest.mark.parametrize("error", [TypeError("a bug"), ValueError("odd"), BrokenPipeError()])
def test_other_errors_are_no_faults_of_the_provider(error: Exception):
    assert fault_of(error, "openai") is None


def test_the_seconds_until_the_next_try_are_read(subtests: pytest.Subtests):
    for headers, seconds in [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "2", "retry-after-ms": "150"}, 0.15),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:20 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:20 -0000"}, 20.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ]:
        with subtests.test(headers=headers, seconds=seconds):
            assert retry_after(headers, NOW) == seconds


def test_headers_are_read_whatever_their_case():
    fault = fault_of(answered(429, headers={"Retry-After": "7"}), "openai")
    assert fault is not None
    assert fault.retry_after == 7.0
