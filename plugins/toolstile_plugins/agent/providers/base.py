"""The base of adapters: prompts, settings, streams, faults, and the provider's client."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from inspect import isawaitable
from time import monotonic
from typing import Any, ClassVar, Final, Self, Unpack, cast
from weakref import WeakKeyDictionary

from toolstile_hookspecs import (
    ConfigurationError,
    Dialect,
    HostHandle,
    Prompt,
    SessionProtocol,
    StateError,
    hide,
)
from toolstile_hookspecs.agents.messages import CallMade, Message, ToolResults, Turn, Usage
from toolstile_hookspecs.agents.provider import (
    CallDelta,
    Delta,
    FaultType,
    Listener,
    ModelRequest,
    ProviderAdapter,
    ProviderError,
)
from toolstile_hookspecs.support.text import counted, extra_remedy, install_line, suggest
from toolstile_plugins.agent.agent import Agent
from toolstile_plugins.agent.conversation import UNSAID, Conversation, answer_of
from toolstile_plugins.agent.guidance.prompt_guidance import nowhere
from toolstile_plugins.agent.output import InlineThoughts, without_thoughts
from toolstile_plugins.agent.result import RunResult
from toolstile_plugins.agent.run import AgentConfig, RequestArguments, Run, Surroundings, known
from toolstile_plugins.dialects.parse import field
from toolstile_plugins.dialects.streams import PartialCall


class EvaluationArguments(RequestArguments, total=False):
    """The arguments beside the prompt; see `RequestArguments` for the others.

    Args:
        said: The user's message.
        tool_results: Outcomes of the calls of the last reply, or their texts, in its order.
        config: The limits and the configuration of the run.
    """

    said: str | None
    tool_results: ToolResults
    config: AgentConfig | None


class Evaluation:
    """Evaluates prompts; an adapter with `send` and `asend` derives from it.

    Attributes:
        host: The open host for `evaluate` without an executor.

    Example:
        >>> from toolstile import Host, Prompt
        >>> from toolstile.testing import ScriptedModel
        >>> class Model(Evaluation, ScriptedModel): ...
        >>> with Host(discover=False) as host, host.executor() as tools:
        ...     Model("Hello.").evaluate(Prompt.of("demo", "hello", []), executor=tools).text
        'Hello.'
    """

    host: HostHandle | None = None

    def step(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> Turn:
        """Ask for one reply; the caller makes its calls.

        The conversation is in `session`, or in the session of `executor`.

        Raises:
            ProviderError: When the provider does not answer.
            StateError: When the results do not match the calls of the last reply.
        """
        run = _step(self, prompt, given)
        return run.replied(run.ask().perform())

    async def astep(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> Turn:
        """Ask for one reply on the event loop; see `step`."""
        run = _step(self, prompt, given)
        return run.replied(await run.ask().aperform())

    def evaluate(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> RunResult[Any]:
        """Ask until the model has ended, and make its calls.

        Raises:
            RunFailed: When the run ends without an answer.
            ConfigurationError: Without an executor and without a host.
        """
        agent, said, more = _agent(self, prompt, given)
        return agent.execute(said, **more)[0]

    async def aevaluate(
        self, prompt: Prompt, **given: Unpack[EvaluationArguments]
    ) -> RunResult[Any]:
        """Evaluate on the event loop; see `evaluate`."""
        agent, said, more = _agent(self, prompt, given)
        return (await agent.aexecute(said, **more))[0]


def _step(adapter: Evaluation, prompt: Prompt, given: EvaluationArguments) -> Run:
    session = _session(given)
    if session is None:
        raise ConfigurationError("A step needs a conversation: give session= or executor=.")
    said = _answered(session, given)
    if calls := Conversation(session).open_calls():
        names = ", ".join(call.name for call in calls)
        raise StateError(f"These calls have no result yet: {names}. Give tool_results.")
    around = Surroundings(cast("Any", adapter), None, given.get("config") or AgentConfig())
    run = Run(around, prompt, known(given, EvaluationArguments))
    # A step makes no calls, so it needs no executor.
    executor = given.get("executor")
    run.begin(nowhere(prompt, session, None if executor is None else executor.resources))
    if said is not None:
        run.conversation.add(Message.user(said, run.context.request_id))
    return run


def _agent(
    adapter: Evaluation, prompt: Prompt, given: EvaluationArguments
) -> tuple[Agent[Any], str | None, RequestArguments]:
    session = _session(known(given, EvaluationArguments))
    said = given.get("said") or UNSAID if session is None else _answered(session, given)
    sends, config = cast("ProviderAdapter", adapter), given.get("config")
    agent = Agent[Any](prompt, adapter=sends, host=adapter.host, config=config)
    more = {k: v for k, v in given.items() if k not in ("said", "tool_results", "config")}
    return agent, said, cast("RequestArguments", more)


def _session(given: EvaluationArguments) -> SessionProtocol | None:
    executor = given.get("executor")
    return given.get("session") if executor is None else executor.session


def _answered(session: SessionProtocol, given: EvaluationArguments) -> str | None:
    """Add results to the conversation; return the user's message, a default one at first."""
    conversation, results = Conversation(session), given.get("tool_results", ())
    calls = conversation.open_calls()
    if results and len(calls) != len(results):
        raise StateError(
            f"The last reply waits for {counted(len(calls), 'result')}, and tool_results has "
            f"{len(results)}. Give one for each call, in their order."
        )
    conversation.answer([answer_of(*each) for each in zip(calls, results, strict=False)])
    return given.get("said") or (None if conversation.all() else UNSAID)


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
"""Names of exceptions; in the libraries' hierarchies, special exceptions come first."""


def fault_of(error: BaseException, provider: str) -> ProviderError | None:
    """Return the fault of a provider for an exception of a client library, or None."""
    status = getattr(error, "status_code", None)
    # The fault may come in the midst of a stream; LiteLLM may have a text in this place.
    if status == HTTPStatus.OK or not isinstance(status, int):
        status = None
    if (type_ := _type_of(error, status)) is None:
        return None
    where = provider if status is None else f"{provider} ({status})"
    said = getattr(error, "api_message", "") or getattr(error, "message", "")
    if status is None and (body := getattr(error, "body", None)):
        said = _words(body)  # because OpenAI's library shows some shapes only
    text = str(said or error) or type(error).__name__
    # LiteLLM keeps the text of a fault within a good answer in the innermost exception only.
    innermost = getattr(chain_of(error)[-1], "message", None)
    if text.endswith("- ") and isinstance(innermost, str):
        text += innermost
    headers = getattr(getattr(error, "response", None), "headers", None)
    return ProviderError(f"{where}: {text}", type_, retry_after=retry_after(headers or {}))


def chain_of(error: BaseException | None) -> list[BaseException]:
    """Return an exception and its causes, which a log shows with it."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:  # `raise error from error` makes a circle
        chain.append(error)
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__
    return chain


def fault_in(error: object, provider: str, usage: Usage | None = None) -> ProviderError:
    """Return the fault for an `error` in a reply with a good status."""
    type_ = _by_code(error) or FaultType.UNAVAILABLE
    return ProviderError(f"{provider}: {_words(error)}", type_, usage=usage)


def error_in(reply: object) -> object:
    """Return the error in a reply, or None; servers have several shapes."""
    error = field(reply, "error", "errors", "detail", "base_resp")
    return error or (reply if field(reply, "message") else None)


def _words(error: object) -> str:
    if isinstance(error, list):
        return "; ".join(map(_words, cast("list[object]", error)))
    inner = field(error, "message", "status_msg", "msg", "error", "detail")
    return str(error) if inner is None or isinstance(error, str) else _words(inner)


def retry_after(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Return the seconds after which a provider wants a retry, None if it does not say.

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
    sources: list[object] = []
    for each in reversed(chain_of(error)):
        # Only errors of clients have a body: aiohttp's parser says 400 of a stream that breaks off.
        if (body := getattr(each, "body", each)) is not each:
            sources += (each, body, field(body, "error"))  # LiteLLM adds its codes above these
    by_code = _by_code(*sources)
    if type(error).__name__ == "MidStreamFallbackError":  # LiteLLM makes its status up
        status = None
    if status is None or by_code is FaultType.QUOTA:
        names = (each.__name__ for each in type(error).__mro__)
        return by_code or next((_CLASSES[name] for name in names if name in _CLASSES), None)
    return _by_status(status)


def _by_code(*sources: object) -> FaultType | None:
    for each in sources:
        for code in (str(field(each, name)) for name in _NAMES):
            if (type_ := _CODES.get(code)) is not None:
                return type_
            if _STATUS.fullmatch(code):
                return _by_status(int(code))
    return None


def _by_status(status: int) -> FaultType:
    is_broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _STATUSES.get(status, FaultType.UNAVAILABLE if is_broken else FaultType.REFUSED)


class ClientAdapter(Evaluation, ABC):
    """A `ProviderAdapter` over a client library with a sync and an async client.

    The client's own retries are off: the loop retries, within its deadline. A given client is never
    closed. The adapter makes other clients at their first use, an async one for each event loop,
    with which it ends; `close`, `aclose` and the end of a `with` close them before.

    Args:
        model: The model.
        host: The open host for `evaluate`.
        client: A client to use.
        async_client: An async client to use.
        **options: Options of clients that the adapter makes, such as `base_url` and `api_key`; the
            environment has the others.

    Attributes:
        name: The provider, as OpenTelemetry names it.
        dialect: The dialect of the provider's tools, calls and items.
        library: The client library.
        extra: The extra that brings the library, None if no extra does.
        clients: The names of its sync and its async client.
        takes: From each supported setting of a model to the provider's name for it.
        reader: The class of the reader of one stream, for `deltas` and `whole`.
    """

    name: ClassVar[str]
    dialect: ClassVar[Dialect]
    library: ClassVar[str]
    extra: ClassVar[str | None] = "agent"
    clients: ClassVar[tuple[str, str]]
    takes: ClassVar[Mapping[str, str]]
    reader: ClassVar[type[Any]] = dict

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
            given and given.with_options(max_retries=0) for given in (client, async_client)
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
    def deltas(self, event: Any, stream: StreamedReply) -> Iterable[Delta]:
        """Return the deltas that an event of a stream adds to the reply."""

    @abstractmethod
    def whole(self, stream: StreamedReply) -> Any:
        """Return the reply of a whole stream, None without its end."""

    @abstractmethod
    def turn(self, reply: Any) -> Turn:
        """Read a reply."""

    def fault(self, error: Exception) -> Exception | None:
        """Return the exception to raise in place of one of the client, or None."""
        return fault_of(error, self.name)

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        given, client, reply = self._timed(request), self.client(), StreamedReply(self, listen)
        end = None if request.timeout is None else monotonic() + request.timeout
        with self._faults(client, reply):
            if listen is None:
                return self._read(self.method(client)(**given))
            with self.method(client)(**given, stream=True) as stream:
                for event in stream:
                    reply.add(event)
                    # The client's own timeout bounds the time from one event to the next.
                    if end is not None and monotonic() > end:
                        raise TimeoutError(f"no whole reply in {request.timeout:g} seconds")
            return self._read(reply.whole())

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        given, client = self._timed(request), self.async_client()
        reply = StreamedReply(self, listen)
        with self._faults(client, reply):
            async with asyncio.timeout(request.timeout):
                if listen is None:
                    return self._read(await self.method(client)(**given))
                opened = self.method(client)(**given, stream=True)
                async with await opened if isawaitable(opened) else opened as stream:
                    async for event in stream:
                        reply.add(event)
            return self._read(reply.whole())

    def client(self) -> Any:
        with self._lock:
            if self._given is None and self._own is None:
                self._own = self._made(self.clients[0])
            return self._given or self._own

    def async_client(self) -> Any:
        if self._async_given is not None:
            return self._async_given
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._async_own:
                self._async_own[loop] = _Kept(self._made(self.clients[1]))
            return self._async_own[loop].client

    def close(self) -> None:
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
        """Return the given settings, under the provider's names."""
        for name in given:
            if name not in self.takes:
                raise ConfigurationError(
                    f"{self.name} does not take the setting {name!r}"
                    f"{suggest(name, self.takes) or '.'} It takes {', '.join(sorted(self.takes))}."
                )
        return {self.takes[name]: value for name, value in given.items()}

    def calls(self, reply: Any) -> tuple[CallMade, ...]:
        """Return the calls of a reply, with their arguments as text."""
        found = [(call, call.arguments) for call in self.dialect.calls(reply)]
        return tuple(
            CallMade(call.wire_id, call.name, given if isinstance(given, str) else _json(given))
            for call, given in found
        )

    def portable(self, messages: Sequence[Message]) -> list[Message]:
        """Return a conversation whose call ids of other providers this provider accepts, too."""
        ids = {
            call.id: sha256(call.id.encode()).hexdigest()[:32]
            for message in messages
            for call in message.calls
            if message.dialect != self.dialect.name and not _ID.fullmatch(call.id)
        }
        if not ids:
            return [*messages]
        renamed: list[Message] = []
        for message in messages:
            calls = [replace(call, id=ids.get(call.id, call.id)) for call in message.calls]
            answers = [
                replace(each, call_id=ids.get(each.call_id, each.call_id))
                for each in message.answers
            ]
            renamed.append(replace(message, calls=tuple(calls), answers=tuple(answers)))
        return renamed

    def used(self, stream: StreamedReply) -> Usage | None:  # noqa: ARG002 - for overrides
        """Return the tokens of an unfinished stream, if its events have them."""
        return None

    def keys(self, client: Any) -> list[str]:
        """Return the keys, which are masked in errors."""
        given = [getattr(client, name, None) for name in ("api_key", "auth_token")]
        return [key for key in (*given, self._options.get("api_key")) if isinstance(key, str)]

    def cut_off(self, usage: Usage | None = None) -> ProviderError:
        """Return the fault of an incomplete reply."""
        msg = f"{self.name}: the reply has ended before it was whole."
        return ProviderError(msg, FaultType.UNAVAILABLE, usage=usage)

    def imported(self) -> Any:
        """Return the client library."""
        try:
            return import_module(self.library)
        except ImportError as error:
            install = f"Run: {install_line(source=self.library)}"
            remedy = install if self.extra is None else extra_remedy(self.extra)
            raise ConfigurationError(
                f"The client library {self.library} is not installed. {remedy}"
            ) from error

    def _made(self, name: str) -> Any:
        library = self.imported()
        try:
            return getattr(library, name)(**self._options)
        except Exception as error:
            msg = f"The client of {self.library} cannot be made: {error}"
            raise ConfigurationError(msg) from error

    def _timed(self, request: ModelRequest) -> dict[str, Any]:
        given = self.arguments(request)
        return given if request.timeout is None else {**given, "timeout": request.timeout}

    def _read(self, reply: Any) -> Turn:
        if reply is None:
            raise self.cut_off()
        with self.reading():
            turn = self.turn(reply)
        text = without_thoughts(turn.text)
        return replace(turn, message=replace(turn.message, text=text))

    @contextmanager
    def reading(self) -> Generator[None]:
        """Raise a fault for a reply that has not the shape of the API."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Such as the page of another server.
            msg = f"{self.name}: the response is not a reply of its API."
            raise ProviderError(msg, FaultType.REFUSED) from error

    @contextmanager
    def _faults(self, client: Any, stream: StreamedReply) -> Generator[None]:
        """Raise errors of the client as faults, with keys masked."""
        try:
            yield
        except Exception as error:
            fault = error if isinstance(error, ProviderError) else self.fault(error)
            if isinstance(fault, ProviderError):
                fault.usage = fault.usage or self.used(stream)
            if fault is None:
                raise
            if url := self._options.get("base_url"):  # which may be wrong
                fault.args = (f"{fault} (asked at {str(url).rpartition('@')[2]})",)
            keys = self.keys(client)
            for each in (fault, *chain_of(error)):
                texts = {k: hide(v, keys) for k, v in vars(each).items() if type(v) is str}
                vars(each).update(texts)
                each.args = (hide(str(each), keys),)
            if fault is error:
                raise
            raise fault from error


_json = partial(json.dumps, ensure_ascii=False)
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""The ids of calls that all providers accept."""


def put_into(
    items: Sequence[dict[str, Any]], type_: str, calls: Sequence[dict[str, Any]]
) -> list[dict[str, Any]] | None:
    """Return a provider's items with calls in the places of its calls, None without such places."""
    places = [index for index, item in enumerate(items) if item.get("type") == type_]
    put = [*items]
    for index, call in zip(places, calls, strict=False):
        put[index] = {**items[index], **call}
    return put if len(places) == len(calls) else None


class StreamedReply:
    """The events of one stream, and the adapter's reader of it; passes their deltas on."""

    def __init__(self, adapter: ClientAdapter, listen: Listener | None) -> None:
        self.events: list[Any] = []
        self.reader: Any = adapter.reader()
        self._adapter = adapter
        self._listen = listen or str
        self._thoughts = InlineThoughts()

    def add(self, event: Any) -> None:
        self.events.append(event)
        with self._adapter.reading():
            added = [delta for delta in self._adapter.deltas(event, self) if delta]
        for delta in added:
            for piece in self._thoughts.split(delta) if isinstance(delta, str) else (delta,):
                self._listen(piece)

    def whole(self) -> Any:
        for piece in self._thoughts.rest():
            self._listen(piece)
        with self._adapter.reading():
            return self._adapter.whole(self) if self.events else None


def delta_of(call: PartialCall, arguments: object) -> CallDelta:
    """Return a piece of a call."""
    given = arguments if isinstance(arguments, str) else ""
    return CallDelta(call.call_id or call.made_id, call.name or "", given)


class _Kept:
    """An async client that ends with its event loop, which closes the generators begun in it."""

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
