"""The base of adapters: settings, faults, and the lifetime of the provider's client."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self
from weakref import WeakKeyDictionary

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.agents.provider import (
    FaultType,
    Listener,
    ModelRequest,
    ProviderError,
)
from toolstile_hookspecs.support.text import extra_remedy, suggest
from toolstile_plugins.agent.providers.provider_errors import fault_of

MASK = "***"


class Adapter(ABC):
    """One model of a provider; what a subclass sends and reads is all that it adds.

    Args:
        model: The model.

    Attributes:
        name: The provider, as OpenTelemetry names it.
        dialect: The dialect of the messages that it writes and reads.
        takes: From each setting of a model that it takes to the provider's name for it.
    """

    name: ClassVar[str]
    dialect: ClassVar[str]
    takes: ClassVar[Mapping[str, str]]

    def __init__(self, model: str) -> None:
        self.model = model

    def __repr__(self) -> str:
        """Return the class and the model: a client, and its key, are shown nowhere."""
        return f"{type(self).__name__}({self.model!r})"

    @abstractmethod
    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply; see `ProviderAdapter`."""

    @abstractmethod
    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply; see `ProviderAdapter`."""

    def close(self) -> None:  # noqa: B027 - not each adapter has one
        """Close the client, where it is the adapter's own."""

    async def aclose(self) -> None:
        """Close the clients, that of the running event loop among them."""
        self.close()

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings under the provider's names; only those that were given.

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
    def faults(self, *secrets: object) -> Generator[None]:
        """Raise what a client library raises as a `ProviderError`, without secrets in its text."""
        try:
            yield
        except ProviderError:
            raise
        except Exception as error:
            if (fault := fault_of(error, self.name)) is None:
                raise
            for secret in secrets:
                if isinstance(secret, str) and secret:
                    fault.args = (str(fault).replace(secret, MASK),)
            raise fault from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Assembly(Protocol):
    """Puts the events of a stream together."""

    def add(self, event: Any) -> None:
        """Add an event, and pass its text on."""

    def whole(self) -> Any:
        """Return the reply, as it would have come without a stream."""
        ...


class ClientAdapter(Adapter):
    """An adapter over a client library with a sync and an async client.

    The client's own retries are off: the loop retries, within its deadline. A client that is given
    is used with its settings and never closed. An own one is made when it is first needed, the
    async one for each event loop, and closed with the adapter.

    Args:
        model: The model.
        client: A client to use.
        async_client: An async client to use.
        **options: Options of clients that are made, such as `base_url` and `api_key`; what is not
            given comes from the environment.

    Attributes:
        library: The module of the client library.
        extra: The extra of Toolstile that brings it.
        clients: The names of its sync and async client.
    """

    library: ClassVar[str]
    extra: ClassVar[str]
    clients: ClassVar[tuple[str, str]]

    def __init__(
        self, model: str, *, client: Any = None, async_client: Any = None, **options: Any
    ) -> None:
        super().__init__(model)
        self._options = options
        self._given = None if client is None else client.with_options(max_retries=0)
        self._async_given = (
            None if async_client is None else async_client.with_options(max_retries=0)
        )
        self._own: Any = None
        self._async_own: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @abstractmethod
    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return what the client's method is given for a request."""

    @abstractmethod
    def method(self, client: Any) -> Any:
        """Return the method of a client that sends; it takes `stream=True`."""

    @abstractmethod
    def assembly(self, listen: Listener) -> Assembly:
        """Return what puts the events of a stream together."""

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
            parts = self.assembly(listen)
            with self.method(client)(**given, stream=True) as stream:
                for event in stream:
                    parts.add(event)
                    if end is not None and monotonic() > end:
                        raise TimeoutError(f"no whole reply in {request.timeout:g} seconds")
            return self.turn(parts.whole())

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply; see `ProviderAdapter`."""
        given, client = self._timed(request), self.async_client()
        with self.faults(getattr(client, "api_key", None)):
            # The client's own timeout bounds each read, this one all of them.
            async with asyncio.timeout(request.timeout):
                if listen is None:
                    return self.turn(await self.method(client)(**given))
                parts = self.assembly(listen)
                async with await self.method(client)(**given, stream=True) as stream:
                    async for event in stream:
                        parts.add(event)
                return self.turn(parts.whole())

    def client(self) -> Any:
        """Return the sync client: the one given, else an own one."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None:
                self._own = self._made(self.clients[0])
            return self._own

    def async_client(self) -> Any:
        """Return the async client: the one given, else an own one of the running event loop."""
        if self._async_given is not None:
            return self._async_given
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._async_own:
                self._async_own[loop] = self._made(self.clients[1])
            return self._async_own[loop]

    def close(self) -> None:
        """Close the own sync client; `aclose` closes that of the event loop as well."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    async def aclose(self) -> None:
        """Close the own clients, that of the running event loop among them."""
        self.close()
        with self._lock:
            own = self._async_own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.close()

    def no_reply(self, what: str) -> ProviderError:
        """Return the fault of a reply that is none."""
        return ProviderError(f"{self.name}: {what}", FaultType.UNAVAILABLE)

    def _timed(self, request: ModelRequest) -> dict[str, Any]:
        given = self.arguments(request)
        return given if request.timeout is None else {**given, "timeout": request.timeout}

    def _made(self, name: str) -> Any:
        library = library_of(self.library, self.extra)
        try:
            return getattr(library, name)(**{"max_retries": 0, **self._options})
        except Exception as error:
            msg = f"The client of {self.library} cannot be made: {error}"
            raise ConfigurationError(msg) from error


def library_of(name: str, extra: str) -> Any:
    """Import a client library.

    Raises:
        ConfigurationError: When it is not installed; it names the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        msg = f"The client library {name} is not installed. {extra_remedy(extra)}"
        raise ConfigurationError(msg) from error
