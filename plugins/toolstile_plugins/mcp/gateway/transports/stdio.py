"""A server that is a program, reached over its standard input and output."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from toolstile_plugins.mcp.gateway.errors import ServerBroken, amount, one_line

log = logging.getLogger("toolstile.mcp")

GRACE: Final = 0.8
"""Seconds that a program is given to end once its input is closed, and once more when told to.

Both together are less than a command has that was told to end, which else leaves programs behind.
"""
REMEMBERED: Final = 20
"""Lines of what a program says beside its messages that are kept."""
LINE: Final = 64 * 1024
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)

_MEANT: Final = re.compile(rb"\s*(\[\s*)?\{")
"""The first characters of messages and batches; `[DEBUG]` begins a log line."""
_HALVES: Final = re.compile(rb"\\u[dD][89a-fA-F]")

Item = SessionMessage | Exception


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start.

    Args:
        command: What to run.
        args: Its arguments.
        env: Its environment, beside the few variables that every program needs.
        cwd: Where to start it.
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
    to_session, from_server = anyio.create_memory_object_stream[Item](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, program, to_session)),
        asyncio.create_task(_write(process, from_session, to_session)),
        asyncio.create_task(_listen(process, program.said)),
    ]
    try:
        yield from_server, to_server
    finally:
        to_server.close()
        from_server.close()
        ending = asyncio.ensure_future(_end(process, tasks))
        # Whoever is cancelled meanwhile leaves no program behind.
        await _surely(ending)
        for stream in (to_session, from_session):
            stream.close()


async def _read(
    process: asyncio.subprocess.Process, program: Program, out: MemoryObjectSendStream[Item]
) -> None:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    with out, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                most = amount(program.max_message)
                await out.send(ServerBroken(f"it sent a message of more than {most}"))
                return
            if line.strip():
                await out.send(_message(line))


def _message(line: bytes) -> Item:
    # On Windows, many a program begins with a mark that it writes UTF-8.
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return _read_message(line)
    except ValueError as error:
        if _HALVES.search(line):
            with contextlib.suppress(ValueError, RecursionError):
                return _read_message(_whole(line))
        if _MEANT.match(line):
            return ServerBroken(
                f"it sent what is no message of the protocol: "
                f"{one_line(line[:200].decode(errors='replace'), 80)}"
            )
        # Many a program says something on its standard output before it knows better.
        log.debug("An MCP server wrote %s", one_line(line.decode(errors="replace")))
        return error


def _read_message(line: bytes) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))


def _whole(line: bytes) -> bytes:
    r"""Return a line with a mark for each half of a character, which no reader takes.

    Programs that cut texts by their UTF-16 length write such halves, as in `"cut \ud83d"`.
    """
    text = json.dumps(json.loads(line), ensure_ascii=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


async def _write(
    process: asyncio.subprocess.Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[Item],
) -> None:
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    try:
        async with messages:
            async for each in messages:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, RuntimeError):
        # It reads no more; whoever waits for an answer hears that there will be none.
        await out.aclose()


async def _listen(process: asyncio.subprocess.Process, said: deque[str]) -> None:
    """Keep the last lines of what a program says beside its messages."""
    assert process.stderr is not None  # noqa: S101 - it was started with a pipe
    rest = b""
    while chunk := await process.stderr.read(LINE):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-LINE:]
        said.extend(
            text for each in lines if (text := one_line(each.decode(errors="replace"), 500))
        )
    if text := one_line(rest.decode(errors="replace"), 500):
        said.append(text)


async def _end(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Close a program's input, and end it and its children where it does not end by itself."""
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    reading, writing, _ = tasks
    for each in (reading, writing):
        each.cancel()
    process.stdin.close()
    drained = asyncio.create_task(_drain(process))
    for told in (None, signal.SIGTERM, KILL):
        if told is not None:
            _tell_all(process, told)
        if await _has_ended(process):
            break
    _tell_all(process, KILL)
    for each in (*tasks, drained):
        each.cancel()
    await asyncio.gather(*tasks, drained, return_exceptions=True)
    _close(process)


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait`, which also waits for whoever has inherited the pipes.
    until = asyncio.get_running_loop().time() + GRACE
    while process.returncode is None:
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(0.01)
    return True


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Take what a program still writes, so that it can end."""
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    while await process.stdout.read(LINE):
        pass


def _tell_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            # Its group has its id, also when it is gone itself and its children are not.
            os.killpg(process.pid, number)


def _close(process: asyncio.subprocess.Process) -> None:
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _surely(work: asyncio.Future[None]) -> None:
    """Wait for something to its end, also when cancelled, and then be cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancelled = error
    work.result()
    if cancelled is not None:
        raise cancelled
