"""Messages, values and exceptions that cross to handlers in other processes, as lines of JSON.

Reading a message runs no code: the host only uses types that it has loaded, and imports none.
"""

from __future__ import annotations

import builtins
import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError

from toolstile_hookspecs import (
    Outcome,
    Tool,
    ToolInvoked,
    ToolResult,
    ToolstileError,
    VisibilityExpansionRequired,
    errors,
)
from toolstile_hookspecs.codecs import (
    Codec,
    PortableValues,
    ValueCodec,
    difference,
    first_fault,
    imported_from,
    why_not_written,
)
from toolstile_hookspecs.support.network_errors import mark_sent, was_sent
from toolstile_hookspecs.support.text import noted_for_operator

MAX_MESSAGE: Final = 128 * 2**20
"""The maximum size of a message in bytes."""
MAX_ENCLOSED: Final = 16 * MAX_MESSAGE
"""The same between a worker and its process, whose params and results are JSON within JSON."""
MAIN: Final = "__toolstile_main__"
"""The name of the parent's `__main__` in the handler's process."""


class MessageError(ValueError):
    """A message cannot be written or read."""


@dataclass(frozen=True)
class Fault:
    """An exception."""

    name: str  # the name of its class, from the contract or built in
    arguments: list[Any]  # the arguments of its class, as `PortableValues` writes them
    trace: str = ""  # the traceback on the other side
    # Whether a request may have been sent before it, as `was_sent` returns it.
    sent: bool | None = None
    for_operator: str = ""  # the advice for an operator


@dataclass(frozen=True)
class Call:
    """A call, sent to its handler.

    Args:
        arguments: The params as JSON, by the tool's codec.
        context: The fields of the context that cross, as `HostValues` writes them.
        session_id: The session's id.
        has_heartbeat: Whether the context has a heartbeat.
        crossings: Traces of plugins that are entered around the handler; see `CrossingTrace`.
    """

    arguments: str
    context: dict[str, Any]
    session_id: str
    has_heartbeat: bool
    crossings: list[str]
    says: Literal["call"] = "call"


@dataclass(frozen=True)
class Start:
    """Run this handler.

    Its module is imported by name, else from `file`. `python_path` is for programs that the handler
    starts. Of a `decorated` tool the signature is sufficient. `types` has the places of the types
    of params and value, None for a type without a place.
    """

    module: str
    file: str | None
    name: str
    path: list[str]
    python_path: str | None
    tool: str
    decorated: bool
    types: list[str | None]
    call: Call
    says: Literal["start"] = "start"


@dataclass(frozen=True)
class Ask:
    """A request of the handler to the host."""

    number: int
    target: str
    method: str
    args: list[Any]
    kwargs: dict[str, Any]
    says: Literal["ask"] = "ask"


@dataclass(frozen=True)
class Answer:
    """The answer to a request, or its exception."""

    number: int
    value: Any = None
    fault: Fault | None = None
    says: Literal["answer"] = "answer"


@dataclass(frozen=True)
class Done:
    """The handler has ended, with a `fault` or a value as JSON, by the tool's codec.

    `message`, `success` and `excluded` come from a returned `ToolResult`.
    """

    value: str | None = None
    message: str | None = None
    success: bool = True
    excluded: bool = False
    fault: Fault | None = None
    says: Literal["done"] = "done"


@dataclass(frozen=True)
class Load:
    """A worker's first message to its process: import these modules, with this `sys.path`."""

    path: list[str]
    modules: list[str]
    says: Literal["load"] = "load"


@dataclass(frozen=True)
class Take:
    """A worker's request to run a handler, with the fields of `DispatchedCall`."""

    tool: str
    params: str
    traceparent: str | None
    connection: str | None
    says: Literal["take"] = "take"


@dataclass(frozen=True)
class Ready:
    """The process is up, or about to run the handler; the worker answers whether it may."""

    go: bool = True
    says: Literal["ready"] = "ready"


@dataclass(frozen=True)
class Ended:
    """The end of a `Take`, with the fields of its `DispatchOutcome`."""

    outcome: list[Any]
    says: Literal["ended"] = "ended"


Message = Start | Call | Ask | Answer | Done | Load | Take | Ready | Ended
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="says")]
)


class SocketChannel:
    """Carries messages of `most` bytes between two processes, as lines over a socket."""

    def __init__(self, end: socket, most: int | None = None) -> None:
        self._end = end
        # Not as the default, because tests lower the maximum.
        self._most = most or MAX_MESSAGE
        self._lines = end.makefile("rb")

    def send(self, message: Message) -> None:
        """Send a message; raises `MessageError` if the message is too long."""
        self._end.sendall(encoded(message, self._most) + b"\n")

    def receive(self) -> Message:
        """Wait for the next message; raises `EOFError` at the end, `MessageError` for garbage."""
        line = self._lines.readline(self._most + 1)
        if not line.endswith(b"\n") and len(line) <= self._most:
            raise EOFError
        return decoded(line, self._most)

    def be_patient(self) -> None:
        """Wait for messages without a timeout from now on."""
        self._end.settimeout(None)

    def shut_down(self) -> None:
        """End the channel for readers on both sides, also for waiting threads."""
        with suppress(OSError):
            self._end.shutdown(SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._lines.close()
        self._end.close()


def encoded(message: Message, most: int | None = None) -> bytes:
    """Return a message as JSON without line breaks; raises `MessageError` if it is too long."""
    try:
        text = json.dumps(message, default=vars, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"it has no JSON form: {error}") from error
    if len(text) > (most := most or MAX_MESSAGE):
        told = f"it takes {len(text):,} bytes, and {most:,} are the most"
        raise MessageError(f"{told}; put large data into a file")
    return text


def decoded(text: bytes, most: int | None = None) -> Message:
    """Return the message in a JSON text; raises `MessageError` if the text is not a message."""
    if len(text) > (most := most or MAX_MESSAGE) + 1:
        raise MessageError(f"it takes more than {most:,} bytes")
    try:
        return _MESSAGES.validate_python(json.loads(text))
    except ValidationError as error:
        raise MessageError(first_fault(error)) from None
    except (ValueError, RecursionError) as error:
        raise MessageError(f"it is not JSON: {str(error) or 'it is nested too deeply'}") from None


# --- Values and exceptions


_RAISED: Final[dict[str, type[BaseException]]] = {
    name: kind
    for module in (builtins, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
_SAYS_LITTLE: Final = (VisibilityExpansionRequired, ToolstileError, Exception, BaseException)
_CONTRACT: Final = "toolstile_hookspecs."


class HostValues(PortableValues):
    """Values that the host writes; records of the contract are written by their fields."""

    def is_data(self, type_: type[Any]) -> bool:
        """Return False for records of the contract, because `write` writes them."""
        return super().is_data(type_) and not _is_record(type_)

    def write(self, value: Any, at: str = "value") -> Any:
        """Return a value as plain JSON; raises `SnapshotError` with the remedy."""
        if _is_record(type_ := value.__class__):
            return ["record", self._place(type_, at), self._fields(value, at)]
        return super().write(value, at)

    def crossing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that can cross, written; the others are left out."""
        written: dict[str, Any] = {}
        for name, value in values.items():
            with suppress(Exception):  # writing runs foreign code
                written[name] = self.write(value)
        return written

    def _fields(self, record: Any, at: str) -> dict[str, Any]:
        fields = {part.name: getattr(record, part.name) for part in dataclasses.fields(record)}
        written: dict[str, Any] = {}
        if isinstance(record, Outcome):
            # Because an outcome, unlike its event, must not replace the value by JSON.
            self.write(record.result, f"{at}.result")
        if isinstance(record, ToolInvoked):
            # Values that cannot cross become the JSON of the event, with secrets masked.
            result = fields.pop("result")
            shown = dataclasses.replace(result, value=record.shown_value)
            written["result"] = self._either(result, shown)
            written["held_params"] = self._either(record.params, record.shown_arguments)
            fields |= {"tool": None, "arguments": None, "result_secrets": ()}
        for name, part in fields.items():
            if isinstance(part, BaseException):
                written[name] = ["raised", vars(fault_of(part))]
            elif name in _IN_PART and isinstance(part, Mapping):
                written[name] = self.crossing(cast("Mapping[str, Any]", part))
            elif name not in _STAY and name not in written:
                # As a dict, because records of the contract declare no type of mapping.
                is_own = isinstance(part, Mapping) and not isinstance(record, ToolResult)
                written[name] = self.write({**part} if is_own else part, f"{at}.{name}")
        return written

    def _either(self, value: object, instead: object) -> Any:
        try:
            return self.write(value)
        except Exception:  # noqa: BLE001 - writing runs foreign code
            return self.write(instead)


_STAY: Final = frozenset(("auth", "claims", "cancellation", "deadline"))
_IN_PART: Final = frozenset(("arguments", "attributes", "meta"))


class HandlerValues(PortableValues):
    """Values of the host that a handler reads; imports their modules."""

    def __init__(self) -> None:
        super().__init__(imported_from)

    def read(self, written: Any) -> Any:
        """Return the value that was written."""
        match written:
            case ["raised", fields]:
                return raised(Fault(**fields))
            case ["record", str(place), fields]:
                given: dict[str, Any] = super().read(fields)
                return self._found(place)(**given)
            case _:
                return super().read(written)


def _is_record(type_: type[Any]) -> bool:
    return type_.__module__.startswith(_CONTRACT) and dataclasses.is_dataclass(type_)


def result_codec(tool: Tool[Any, Any]) -> ValueCodec:
    """Return the codec for a tool's value, with secrets in clear."""
    if tool.result_schema is not None or not tool.result_codec.secret_schema():
        return tool.result_codec
    return Codec(tool.signature.result, owner=f"Tool {tool.name!r}, result", reveals=True)


def written(codec: ValueCodec, value: object, at: str) -> str:
    """Return a value as JSON that decodes to an equal value, in all its parts.

    The `ValueError` for a value without such JSON names the part, its type and the remedy.
    """
    try:
        text = codec.encode(value)
        told = difference(value, codec.copy(text), at)
    except Exception as error:
        raise ValueError(f"{why_not_written(value, error, at)}; {_REMEDY}") from error
    if told is not None:
        raise ValueError(f"{told}; {_REMEDY}")
    return text.decode()


_REMEDY: Final = "declare the type that it has, or use plain data"


def fault_of(error: BaseException, trace: str = "") -> Fault:
    """Return an exception by name and arguments, or its nearest known base with its text."""
    type_ = type(error)
    rest = trace, was_sent(error), noted_for_operator(error)
    if _RAISED.get(type_.__name__) is type_:
        with suppress(Exception):  # foreign code, and arguments of any type
            values = PortableValues()
            given: Any = error.__reduce__()
            arguments = [values.write(part) for part in given[1]]
            type_(*given[1])
            return Fault(type_.__name__, arguments, *rest)
    text = text_of(error)
    for base in type_.__mro__:
        if _RAISED.get(base.__name__) is base and base not in _SAYS_LITTLE:
            told = text
            if base is not type_ and not base.__module__.startswith(_CONTRACT):
                told = f"{type_.__name__}: {text}"
            with suppress(TypeError):  # its class needs more than a text
                base(told)
                return Fault(base.__name__, [told], *rest)
    return Fault("RuntimeError", [f"{type_.__name__}: {text}"], *rest)


def raised(fault: Fault) -> BaseException:
    """Return the exception of a fault."""
    values = PortableValues()
    try:
        error = _RAISED[fault.name](*map(values.read, fault.arguments))
    except Exception:  # noqa: BLE001 - the sender is not trusted
        error = RuntimeError(f"an exception of its process cannot be read here ({fault.name[:80]})")
    if fault.trace:
        error.add_note(fault.trace)
    vars(error)["for_operator"] = fault.for_operator
    return mark_sent(error, fault.sent)


def text_of(error: BaseException) -> str:
    """Return the text of any exception; for a group, with the texts of its exceptions."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - foreign `__str__`
        return type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(text_of, inner))}"
    return text
