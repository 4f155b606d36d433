"""The evidence in an exception: whether a request may have reached its service."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from traceback import walk_tb
from types import FrameType
from typing import Any, Final, cast

from toolstile_hookspecs.errors import EffectUnknownError, ToolError


class _Evidence(Enum):
    SENT = auto()
    """A request may have been sent."""
    UNSENT = auto()
    """No request was sent."""
    UNCLEAR = auto()
    """A wrapper of any failure: sent, unless another exception of the chain is `UNSENT`."""
    RAW = auto()
    """An error of any phase of a connection: sent, unless an `UNSENT` was raised from it."""


_SENT, _UNSENT, _UNCLEAR, _RAW = _Evidence
_HTTPX: Final = "httpx httpx2 httpcore httpcore2"
_CLASSES: Final = (
    (_SENT, _HTTPX, "ReadTimeout WriteTimeout NetworkError ProtocolError DecodingError"),
    (_SENT, _HTTPX, "TooManyRedirects"),
    (_UNSENT, _HTTPX, "ConnectError ConnectTimeout PoolTimeout ProxyError UnsupportedProtocol"),
    (_UNCLEAR, _HTTPX, "TransportError TimeoutException"),
    (_SENT, "requests", "ChunkedEncodingError ContentDecodingError TooManyRedirects"),
    (_UNSENT, "requests", "ConnectTimeout InvalidURL InvalidSchema MissingSchema"),
    (_UNCLEAR, "requests", "ConnectionError Timeout"),
    (_SENT, "urllib3", "IncompleteRead DecodeError ResponseError"),
    (_UNSENT, "urllib3", "ConnectTimeoutError NewConnectionError EmptyPoolError"),
    (_UNCLEAR, "urllib3", "ProtocolError TimeoutError MaxRetryError SSLError ProxyError"),
    (_SENT, "aiohttp", "ClientConnectionError ClientPayloadError HttpProcessingError"),
    (_UNSENT, "aiohttp", "ClientConnectorError ConnectionTimeoutError InvalidURL"),
    (_UNCLEAR, "aiohttp", "ServerTimeoutError"),
    (_UNCLEAR, "openai anthropic", "APIConnectionError"),
    (_UNCLEAR, "urllib", "URLError"),
    # The service answered; the author of the tool judges the status.
    (None, "urllib", "HTTPError"),
    (_SENT, "http", "HTTPException"),
    (_UNSENT, "http", "InvalidURL NotConnected ImproperConnectionState"),
    (_SENT, "subprocess", "TimeoutExpired"),
    (_RAW, "anyio", "BrokenResourceError ClosedResourceError EndOfStream IncompleteRead"),
    (_RAW, "asyncio smtplib", "IncompleteReadError SMTPServerDisconnected"),
    (_UNSENT, "socket ssl", "gaierror herror SSLCertVerificationError"),
    (_RAW, "ssl", "SSLError"),
    (_UNSENT, "builtins", "ConnectionRefusedError"),
    (_RAW, "builtins", "ConnectionError TimeoutError"),
)
# By name, because only an imported client can have raised. The most specific class counts.
_BY_CLASS: Final = {
    f"{module}.{name}": evidence
    for evidence, modules, names in _CLASSES
    for module in modules.split()
    for name in names.split()
}
_CLIENTS: Final = {module for _, modules, _ in _CLASSES for module in modules.split()}
_NETWORK: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOTCONN})
# The functions that connect, before any request is sent.
_CONNECTING: Final = frozenset({
    "socket.create_connection", "ssl._create", "ssl.do_handshake", "http.client.connect",
    "urllib3.connection.connect", "aiohttp.connector.connect",
    "asyncio.base_events.create_connection",
    "httpcore._async.connection._connect", "httpcore2._async.connection._connect",
})  # fmt: skip
_REDIRECTING: Final = frozenset({"resolve_redirects", "http_error_302"})
_MARK: Final = "_toolstile_was_sent"
_BY_MARK: Final = {True: _SENT, False: _UNSENT, None: None}


def was_sent(error: BaseException) -> bool | None:
    """Return whether a handler that raised may have sent a request to its service.

    Returns:
        True after a lost connection, a timeout or an `EffectUnknownError`, also as cause or
        context; False after a `ToolError`, or if no connection came about; None if nothing in the
        exception tells.

    Example:
        >>> was_sent(ConnectionRefusedError()), was_sent(ConnectionResetError())
        (False, True)
    """
    if isinstance(error, ToolError):
        return False
    found: set[_Evidence | None] = set()
    seen: set[int] = set()
    waiting: list[tuple[BaseException | None, bool, bool]] = [(error, False, False)]
    while waiting:
        each, is_explained, is_earlier = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        evidence = _evidence_of(each)
        if not is_explained or evidence is not _RAW:
            found.add(None if is_earlier and evidence is _UNSENT else evidence)
        # A library that raises "not connected" from an error knows the phase of that error.
        explains = evidence is _UNSENT or (is_explained and evidence in {None, _RAW})
        if isinstance(cast("object", each), BaseExceptionGroup):
            inner = cast("Any", each).exceptions
            if is_explained:
                waiting += [(one, True, is_earlier) for one in inner]
            else:
                # An error without a request is no evidence about the others of its group.
                answers = {was_sent(one) for one in inner}
                found.add(_BY_MARK[True in answers or (None if None in answers else False)])
        waiting += [(earlier, False, is_earlier) for earlier in _earlier(each)]
        # The last is the next: a cause is often the context, too. Of httpcore, so are contexts.
        is_mapped = type(each).__module__.startswith("httpcore")
        # A handler that caught "not connected" may have sent another request before it failed.
        was_caught = is_earlier or evidence is None
        waiting.append((each.__context__, explains and is_mapped, was_caught))
        waiting.append((each.__cause__, explains, is_earlier))
    if found & {_SENT, _RAW}:
        return True
    return False if _UNSENT in found else (_UNCLEAR in found or None)


def mark_sent(error: BaseException, sent: bool | None) -> BaseException:  # noqa: FBT001 - as found
    """Note `was_sent` of an exception on the copy that stands for it in another process."""
    setattr(error, _MARK, sent)
    return error


def _evidence_of(error: BaseException) -> _Evidence | None:
    if _MARK in vars(error):
        return _BY_MARK[vars(error)[_MARK]]
    if isinstance(error, EffectUnknownError):
        return _SENT
    if isinstance(error, OSError) and _is_connecting(error):
        return _UNSENT
    for kind in type(error).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in _BY_CLASS:
            return _BY_CLASS[name]
    return _RAW if isinstance(error, OSError) and error.errno in _NETWORK else None


def _is_connecting(error: OSError) -> bool:
    frames = _frames(error)
    cancelled = error.__cause__ or error.__context__
    if isinstance(error, TimeoutError) and type(cancelled).__name__ == "CancelledError":
        # A time limit of asyncio: the cancelled task shows the place.
        frames += _frames(cast("BaseException", cancelled))
    return any(f"{_module(frame)}.{frame.f_code.co_name}" in _CONNECTING for frame in frames)


def _earlier(error: BaseException) -> Iterator[BaseException]:
    """Return the failures of a client's earlier requests: it retried, or followed a redirect."""
    for frame in _frames(error):
        if _module(frame).partition(".")[0] not in _CLIENTS:
            continue
        given: Mapping[str, Any] = frame.f_locals
        history = getattr(given.get("retries"), "history", given.get("history")) or ()
        if frame.f_code.co_name in _REDIRECTING or given.get("retries_taken"):
            history = (None,)
        for each in history:
            # An earlier request that is unknown, or was answered, may have had its effect.
            failure = getattr(each, "error", None) or EffectUnknownError()
            yield from (failure, *(part for part in failure.args if isinstance(part, Exception)))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in walk_tb(error.__traceback__)]
