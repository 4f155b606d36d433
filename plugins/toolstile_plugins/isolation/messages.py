"""Messages to handlers in other processes: lines of JSON of bounded size.

Reading a message runs no code: the host only uses types that it has loaded, and imports none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from toolstile_hookspecs.codecs import first_fault

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
    """An exception.

    Args:
        name: The name of its class, from the contract or built in.
        arguments: The arguments of its class, as `PortableValues` writes them.
        trace: The traceback on the other side.
        sent: Whether a request may have been sent before it, as `was_sent` returns it.
        for_operator: The advice for an operator.
    """

    name: str
    arguments: list[Any]
    trace: str = ""
    sent: bool | None = None
    for_operator: str = ""


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

    Args:
        module: The module of the handler.
        file: The file of that module, in case the module cannot be imported by name.
        name: The qualified name of the handler.
        path: The parent's `sys.path`.
        python_path: The parent's `PYTHONPATH`, for programs that the handler starts.
        tool: The name of the tool.
        decorated: Whether the tool is a function tool, so that its signature is sufficient.
        types: The places of the types of params and value, None for a type without a place.
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
    """The handler has ended.

    Args:
        value: The returned value as JSON, by the tool's codec; None for the value None.
        message: The message of the returned `ToolResult`; None if the handler returned a value.
        success: The success of the `ToolResult`.
        excluded: Whether the `ToolResult` excludes the value from contexts.
        fault: The raised exception.
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
    """A worker's request to run a handler; the fields are those of `DispatchedCall`."""

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
    """Carries messages between two processes, as lines over a socket.

    Args:
        end: The socket.
        most: The maximum size of a message in bytes; `MAX_MESSAGE` by default.
    """

    def __init__(self, end: socket, most: int | None = None) -> None:
        self._end = end
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
