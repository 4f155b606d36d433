"""Messages between a call and its handler elsewhere: JSON, one message a line, of bounded size.

The two sides ask and answer over a `Channel`, whatever carries it. Nothing that is read runs code:
the host looks types up among those it has loaded, and imports none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from toolstile_hookspecs.codecs import first_fault

MAX_MESSAGE: Final = 128 * 2**20
"""Bytes of the longest message."""
MAIN: Final = "__toolstile_main__"
"""The name of the parent's `__main__` in the handler's process, where it does not run."""


class MessageError(ValueError):
    """A message cannot be written, or what came is none."""


@dataclass(frozen=True)
class Fault:
    """An exception.

    Args:
        name: The name of its class, of the contract or built in.
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
    """A call, as its handler needs it.

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
        module: The module the handler is in.
        file: The file of that module, for modules that no import finds.
        name: The handler's qualified name.
        path: The parent's `sys.path`.
        python_path: The parent's `PYTHONPATH`, for the programs that the handler starts.
        tool: The tool's name.
        decorated: Whether its tool is made of a function, whose signature says all.
        types: The places of the types of params and value, None for one of another form.
        call: The call.
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
    """Do something on the call's behalf, and answer under this number."""

    number: int
    target: str
    method: str
    args: list[Any]
    kwargs: dict[str, Any]
    says: Literal["ask"] = "ask"


@dataclass(frozen=True)
class Answer:
    """The answer to a request, or the reason that there is none."""

    number: int
    value: Any = None
    fault: Fault | None = None
    says: Literal["answer"] = "answer"


@dataclass(frozen=True)
class Done:
    """The handler has ended.

    Args:
        value: The value that it returned as JSON, by the tool's codec; None for none.
        message: The message of the `ToolResult` that it returned, None where it returned a value.
        success: Whether that says so.
        excluded: Whether that keeps the value from contexts.
        fault: The exception that it raised.
    """

    value: str | None = None
    message: str | None = None
    success: bool = True
    excluded: bool = False
    fault: Fault | None = None
    says: Literal["done"] = "done"


Message = Start | Call | Ask | Answer | Done
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="says")]
)


class Channel(Protocol):
    """Carries messages, in order, between a call and its handler."""

    def send(self, message: Message) -> None:
        """Send a message; raises `MessageError` for one that is too long."""

    def receive(self) -> Message:
        """Wait for the next message; raises `EOFError` at the end, `MessageError` for garbage."""
        ...


class SocketChannel:
    """Carries messages over a socket, as lines."""

    def __init__(self, end: socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def send(self, message: Message) -> None:
        """Write a line."""
        self._end.sendall(encoded(message) + b"\n")

    def receive(self) -> Message:
        """Read a line."""
        line = self._lines.readline(MAX_MESSAGE + 1)
        if not line.endswith(b"\n") and len(line) <= MAX_MESSAGE:
            raise EOFError
        return decoded(line)

    def be_patient(self) -> None:
        """Wait for messages as long as they take, from now on."""
        self._end.settimeout(None)

    def shut_down(self) -> None:
        """Let both sides read the end, whatever thread waits for a message."""
        with suppress(OSError):
            self._end.shutdown(SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._lines.close()
        self._end.close()


def encoded(message: Message) -> bytes:
    """Return a message as JSON without line breaks; raises `MessageError` where it is too long."""
    try:
        text = json.dumps(message, default=vars, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"it has no JSON form: {error}") from error
    if len(text) > MAX_MESSAGE:
        told = f"it takes {len(text):,} bytes, and {MAX_MESSAGE:,} are the most"
        raise MessageError(f"{told}; put what is large into a file")
    return text


def decoded(text: bytes) -> Message:
    """Return the message that JSON stands for; raises `MessageError` for anything else."""
    if len(text) > MAX_MESSAGE + 1:
        raise MessageError(f"it takes more than {MAX_MESSAGE:,} bytes")
    try:
        return _MESSAGES.validate_python(json.loads(text))
    except ValidationError as error:
        raise MessageError(first_fault(error)) from None
    except (ValueError, RecursionError) as error:
        raise MessageError(f"it is not JSON: {str(error) or 'it is nested too deeply'}") from None
