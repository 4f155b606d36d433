"""Toolstile: a host with everything in use, as in `bench/full_host.py`, and a bare one."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import cache
from typing import Any

from contestant import KEPT, Attempt, Awaiting, Calling, Contestant, Kept, Offer, Way
from folders import TEXT, WRITTEN, folder, name_of
from full_host import executor_for, full_host

from toolstile import Host
from toolstile_hookspecs import Binding, Filesystem, ToolCall, ToolContext, ToolResult, tool
from toolstile_plugins.vfs import VirtualFilesystem

BY_DEFAULT: dict[str, Any] = {}

_OPEN = ExitStack()
atexit.register(_OPEN.close)


@cache
def _full() -> Host:
    return _OPEN.enter_context(full_host())


@cache
def _bare() -> Host:
    return _OPEN.enter_context(Host(discover=False))


def _timed(offer: Offer) -> dict[str, Any]:
    return BY_DEFAULT if offer.timeout is None else {"timeout": offer.timeout}


def _awaited(
    host: Callable[[], Host], times: Callable[[Offer], dict[str, Any]]
) -> Callable[[Offer], AbstractAsyncContextManager[Awaiting]]:
    @asynccontextmanager
    async def opened(offer: Offer) -> AsyncIterator[Awaiting]:
        ((name, function),) = offer.tools.items()
        with executor_for(host(), tool(name=name, **times(offer))(function)) as executor:

            async def call(name: str, arguments: str) -> str:
                return (await executor.adispatch(ToolCall(name, arguments))).text

            yield call

    return opened


@contextmanager
def _called(offer: Offer) -> Iterator[Calling]:
    ((name, function),) = offer.tools.items()
    with executor_for(_full(), tool(name=name, timeout=offer.timeout)(function)) as executor:
        yield lambda name, arguments: executor.dispatch(ToolCall(name, arguments)).text


@tool(timeout=None)
def fail_late(number: int, *, context: ToolContext) -> ToolResult[None]:  # noqa: ARG001 - what it is called with
    """Write a file, then fail."""
    assert context.filesystem is not None
    context.filesystem.write(WRITTEN, TEXT)
    return ToolResult.error("It cannot be done.")


@cache
def _in_memory(files: int) -> VirtualFilesystem:
    content = TEXT.encode()
    return VirtualFilesystem.in_memory({name_of(index): content for index in range(files)})


@contextmanager
def _rollback(files: int, kept: Kept) -> Iterator[Attempt]:
    workspace = _in_memory(files) if kept == "memory" else VirtualFilesystem.on_disk(folder(files))
    with (
        Host(discover=False, resources=(Binding.instance(Filesystem, workspace),)) as host,
        executor_for(host, fail_late) as executor,
    ):
        yield Attempt(
            lambda: executor.dispatch(ToolCall("fail_late", '{"number": 1}')),
            lambda: workspace.exists(WRITTEN),
        )


INCLUDES = (
    "lookup, strict validation, two policies, a session with rollback, a workspace, hooks, "
    "an observer"
)
CONTESTANT = Contestant(
    distributions=("toolstile",),
    ways=(
        Way(
            "a full host, `adispatch`",
            f"{INCLUDES}, a timeout",
            _awaited(_full, _timed),
            governs=True,
            keeps=True,
            times_out=True,
        ),
        Way(
            "a full host, `dispatch`, no timeout",
            INCLUDES,
            _called,
            handlers=("sync",),
            governs=True,
            keeps=True,
            times_out=True,
        ),
        Way(
            "a bare host, `adispatch`",
            "lookup, strict validation, a session with rollback, a timeout",
            _awaited(_bare, _timed),
            keeps=True,
            times_out=True,
        ),
    ),
    rollback=_rollback,
    kept=KEPT,
)
