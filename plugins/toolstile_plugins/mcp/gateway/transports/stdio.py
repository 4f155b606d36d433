"""A server that is a program, reached over its standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

import anyio
import mcp_types as types
from anyio.abc import ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from toolstile_plugins.mcp.gateway.errors import ServerBroken, amount, one_line
from toolstile_plugins.mcp.gateway.transports.guard import flattened

log = logging.getLogger("toolstile.mcp")

GRACE: Final = 0.8
"""Seconds that a program is given to end once its input is closed, and again after a signal.

Both together are less than a command has that is to end, and would else leave programs behind.
"""
REMEMBERED: Final = 20
"""Lines of a program, beside its messages, that are kept."""
LINE: Final = 64 * 1024
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)

SENDING: Final = 5.0
"""Seconds in which a program must take a message, once those before it are taken."""
_BEFORE: Final = re.compile(rb"^(?:\xef\xbb\xbf|\x1b\[[0-?]*[ -/]*[@-~]|\s)+")
_KEYS: Final = {"id", "method", "params", "result", "error"}
"""The keys of a message whose author has forgotten `jsonrpc`."""
_OPENS: Final = re.compile(rb"(\[\s*)?\{")
"""The first characters of messages and batches; `[DEBUG]` begins a log line."""
_HALVES: Final = re.compile(rb"\\u[dD][89a-fA-F]")

Item = SessionMessage | Exception


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start.

    Args:
        command: The program.
        args: Its arguments.
        env: Its environment, beside the few variables that every program needs.
        cwd: The directory to start it in.
        max_message: The most bytes of one message.
        said: The last lines it has written beside its messages.
    """

    command: str
    args: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    max_message: int
    said: deque[str] = field(default_factory=lambda: deque[str](maxlen=REMEMBERED))


@asynccontextmanager
async def program_streams(program: Program) -> AsyncGenerator[TransportStreams]:
    """Start a program, and give the streams of its messages; it is ended when they are left.

    Raises:
        OSError: When it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**get_default_environment(), **program.env},
        cwd=program.cwd,
        limit=program.max_message,
        # Its own children are ended with it.
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None and stderr is not None  # noqa: S101, PT018 - pipes
    to_session, from_server = anyio.create_memory_object_stream[Item](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(stdout, program, to_session)),
        asyncio.create_task(_write(stdin, from_session, to_session)),
        asyncio.create_task(_listen(stderr, program.said)),
    ]
    try:
        yield from_server, _Patient(to_server)
    finally:
        to_server.close()
        from_server.close()
        # A cancellation meanwhile leaves no program behind.
        # Wait for something to its end, also when cancelled, and then be cancelled.
        work = asyncio.ensure_future(_end(process, stdin, stdout, tasks))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError as error:
                cancelled = error
        work.result()
        if cancelled is not None:
            raise cancelled
        for stream in (to_session, from_session):
            stream.close()


class _Patient(ObjectSendStream[SessionMessage]):
    """The messages to a program, each of which is withdrawn where it is not taken in time.

    Raises:
        TimeoutError: When the program does not read, and so has not got the message.
    """

    def __init__(self, inner: MemoryObjectSendStream[SessionMessage]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        with anyio.fail_after(SENDING):
            await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(
    stdout: asyncio.StreamReader, program: Program, out: MemoryObjectSendStream[Item]
) -> None:
    with out, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                most = amount(program.max_message)
                await out.send(ServerBroken(f"it sent a message of more than {most}"))
                return
            # What draws its progress goes back to the beginning of the line.
            for text in line.split(b"\r"):
                item = _item(text, program)
                if item is not None:
                    await out.send(item)


def _item(line: bytes, program: Program) -> Item | None:
    """Return a line's message, or the reason that it is not one; None for a line of a log."""
    # Some programs begin with a byte order mark, or set the terminal first.
    line = _BEFORE.sub(b"", line)
    if not line:
        return None
    try:
        return _read_message(line)
    except ValueError:
        for repaired in _repaired(line):
            with contextlib.suppress(ValueError, RecursionError):
                return _read_message(repaired)
    shown = one_line(line[:1000].decode(errors="replace"), 500)
    if _is_meant(line):
        return ServerBroken(f"it sent what is not a message of the protocol: {shown[:80]}")
    program.said.append(shown)
    return None


def _is_meant(line: bytes) -> bool:
    """Tell whether a line is meant as a message; programs log to their standard output, too."""
    if not _OPENS.match(line):
        return False
    try:
        read: object = json.loads(line)
    except (ValueError, RecursionError):
        return b'"jsonrpc"' in line
    parts = cast("list[object]", read) if isinstance(read, list) else [read]
    return any(
        _is_answerable(cast("Mapping[str, object]", part))
        for part in parts
        if isinstance(part, dict)
    )


def _is_answerable(part: Mapping[str, object]) -> bool:
    """Tell what is meant as an answer or a question; no notification is missed by anybody."""
    is_answer = isinstance(part.get("result", part.get("error")), dict)
    return "id" in part and ("jsonrpc" in part or (part.keys() <= _KEYS and is_answer))


def _read_message(line: bytes) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))


def _repaired(line: bytes) -> Iterator[bytes]:
    if _HALVES.search(line):
        with contextlib.suppress(ValueError, RecursionError):
            yield _whole(line)
    if (flat := flattened(line)) is not line:
        yield flat


def _whole(line: bytes) -> bytes:
    r"""Return a line with a mark for each half of a character, which no reader takes.

    Programs that cut texts by their UTF-16 length write such halves, as in `"cut \ud83d"`.
    """
    text = json.dumps(json.loads(line), ensure_ascii=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


async def _write(
    stdin: asyncio.StreamWriter,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[Item],
) -> None:
    try:
        async with messages:
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
    except (OSError, RuntimeError):
        # It reads no more, so there will be no answers.
        await out.aclose()


async def _listen(stderr: asyncio.StreamReader, said: deque[str]) -> None:
    """Keep the last lines that a program writes beside its messages."""
    rest = b""
    while chunk := await stderr.read(LINE):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-LINE:]
        said.extend(
            text for line in lines if (text := one_line(line.decode(errors="replace"), 500))
        )
    if text := one_line(rest.decode(errors="replace"), 500):
        said.append(text)


async def _end(
    process: asyncio.subprocess.Process,
    stdin: asyncio.StreamWriter,
    stdout: asyncio.StreamReader,
    tasks: Sequence[asyncio.Task[None]],
) -> None:
    """Close a program's input, and end it and its children where it does not end by itself."""
    reading, writing, _ = tasks
    for task in (reading, writing):
        task.cancel()
    stdin.close()
    drained = asyncio.create_task(_drain(stdout))
    for number in (None, signal.SIGTERM, KILL):
        if number is not None:
            _signal_all(process, number)
        if await _has_ended(process):
            break
    _signal_all(process, KILL)
    for task in (*tasks, drained):
        task.cancel()
    await asyncio.gather(*tasks, drained, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait`, which also waits for heirs of the pipes.
    until = asyncio.get_running_loop().time() + GRACE
    while process.returncode is None:
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(0.01)
    return True


async def _drain(stdout: asyncio.StreamReader) -> None:
    while await stdout.read(LINE):
        pass


def _signal_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            # Its group has its id, also when it is gone itself and its children are not.
            os.killpg(process.pid, number)
