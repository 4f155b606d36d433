"""The base of adapters: settings, faults, streams, and the lifetime of the provider's client."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import isawaitable
from time import monotonic
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

from toolstile_hookspecs import ConfigurationError, Dialect, HostHandle
from toolstile_hookspecs.agents.messages import CallMade, Turn
from toolstile_hookspecs.agents.provider import FaultType, Listener, ModelRequest, ProviderError
from toolstile_hookspecs.support.text import extra_remedy, suggest
from toolstile_plugins.agent.evaluation import Evaluation
from toolstile_plugins.agent.providers.provider_errors import fault_of

StreamReader = tuple[Callable[[Any], object], Callable[[], Any]]
"""Takes each event of a stream; returns the reply as it would have come without a stream."""


class ClientAdapter(Evaluation, ABC):
    """A `ProviderAdapter` over a client library with a sync and an async client.

    The client's own retries are off: the loop retries, within its deadline. A client that is given
    is used with its own settings and never closed. Others are made when they are first needed, the
    async one for each event loop, with which it ends; `close` and `aclose` close them before, as
    does the end of a `with`.

    Args:
        model: The model.
        host: The open host for `evaluate`.
        client: A client to use.
        async_client: An async client to use.
        **options: Options of clients that are made, such as `base_url` and `api_key`; the rest
            comes from the environment.

    Attributes:
        name: The provider, as OpenTelemetry names it.
        dialect: The dialect of the provider's tools, calls and items.
        library: The client library, and the extra that brings it.
        clients: The names of its sync and its async client.
        takes: From each setting of a model that it takes to the provider's name for it.
    """

    name: ClassVar[str]
    dialect: ClassVar[Dialect]
    library: ClassVar[str]
    clients: ClassVar[tuple[str, str]]
    takes: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        model: str,
        *,
        host: HostHandle | None = None,
        client: Any = None,
        async_client: Any = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.host = host
        self._options = {"max_retries": 0, **options}
        self._given, self._async_given = (
            None if each is None else each.with_options(max_retries=0)
            for each in (client, async_client)
        )
        self._own: Any = None
        self._async_own: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        # A client shows its key.
        return f"{type(self).__name__}({self.model!r})"

    @abstractmethod
    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of the client's method for a request."""

    @abstractmethod
    def method(self, client: Any) -> Callable[..., Any]:
        """Return the method of a client that sends; it takes `stream=True` and `timeout`."""

    @abstractmethod
    def stream_reader(self, listen: Listener) -> StreamReader:
        """Return the reader of one stream, which passes text on."""

    @abstractmethod
    def turn(self, reply: Any) -> Turn:
        """Read a reply."""

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply; see `ProviderAdapter`."""
        given, client = self._timed(request), self.client()
        end = None if request.timeout is None else monotonic() + request.timeout
        with self.faults(getattr(client, "api_key", None)):
            if listen is None:
                return self.turn(self.method(client)(**given))
            add, whole = self.stream_reader(listen)
            with self.method(client)(**given, stream=True) as stream:
                for event in stream:
                    add(event)
                    # The client's own timeout bounds the time from one event to the next.
                    if end is not None and monotonic() > end:
                        raise TimeoutError(f"no whole reply in {request.timeout:g} seconds")
            return self.turn(whole())

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply; see `ProviderAdapter`."""
        given, client = self._timed(request), self.async_client()
        with self.faults(getattr(client, "api_key", None)):
            async with asyncio.timeout(request.timeout):
                if listen is None:
                    return self.turn(await self.method(client)(**given))
                add, whole = self.stream_reader(listen)
                opened = self.method(client)(**given, stream=True)
                async with await opened if isawaitable(opened) else opened as stream:
                    async for event in stream:
                        add(event)
                return self.turn(whole())

    def client(self) -> Any:
        """Return the sync client."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None:
                self._own = self._made(self.clients[0])
            return self._own

    def async_client(self) -> Any:
        """Return the async client of the running event loop."""
        if self._async_given is not None:
            return self._async_given
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._async_own:
                self._async_own[loop] = _Kept(self._made(self.clients[1]))
            return self._async_own[loop].client

    def close(self) -> None:
        """Close the own sync client."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    async def aclose(self) -> None:
        """Close the own clients: the sync one, and that of the running event loop."""
        self.close()
        with self._lock:
            own = self._async_own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.ending.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that were given, under the provider's names.

        Raises:
            ConfigurationError: For one that the provider does not take.
        """
        for name in given:
            if name not in self.takes:
                raise ConfigurationError(
                    f"{self.name} does not take the setting {name!r}"
                    f"{suggest(name, self.takes) or '.'} It takes {', '.join(sorted(self.takes))}."
                )
        return {self.takes[name]: value for name, value in given.items()}

    @contextmanager
    def faults(self, key: object = None) -> Generator[None]:
        """Raise errors of the client library as a `ProviderError`, without the key in its text."""
        try:
            yield
        except ProviderError:
            raise
        except Exception as error:
            if (fault := fault_of(error, self.name)) is None:
                raise
            if isinstance(key, str) and key:
                fault.args = (str(fault).replace(key, "***"),)
            raise fault from error

    def calls(self, reply: Any) -> tuple[CallMade, ...]:
        """Return the calls of a reply, with their arguments as text."""
        calls = self.dialect.calls(reply)
        return tuple(CallMade(call.id, call.name, _text(call.arguments)) for call in calls)

    def cut_off(self) -> ProviderError:
        """Return the fault of a reply whose end did not come."""
        msg = f"{self.name}: the reply has ended before it was whole."
        return ProviderError(msg, FaultType.UNAVAILABLE)

    def _timed(self, request: ModelRequest) -> dict[str, Any]:
        given = self.arguments(request)
        return given if request.timeout is None else {**given, "timeout": request.timeout}

    def _made(self, name: str) -> Any:
        library = library_named(self.library)
        try:
            return getattr(library, name)(**self._options)
        except Exception as error:
            msg = f"The client of {self.library} cannot be made: {error}"
            raise ConfigurationError(msg) from error


class _Kept:
    """An async client that is closed with its event loop, where nobody closes it before.

    Event loops close the async generators that were begun in them.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.ending = self._end()
        with suppress(StopIteration):
            self.ending.__anext__().send(None)

    async def _end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.client.close()


def library_named(name: str) -> Any:
    """Import a client library.

    Raises:
        ConfigurationError: When it is not installed; it names the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        msg = f"The client library {name} is not installed. {extra_remedy(name)}"
        raise ConfigurationError(msg) from error


def _text(arguments: str | bytes | Mapping[str, Any]) -> str:
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments if isinstance(arguments, str) else arguments.decode(errors="replace")
