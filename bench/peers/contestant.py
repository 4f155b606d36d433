"""The description of a peer by its runner: the ways to call a tool, and its features.

A runner, one file per peer, says how the peer's users have a tool called without a model; how that
is measured and watched is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_type_hints

Handler = Literal["async", "sync"]
HANDLERS: Final[tuple[Handler, ...]] = get_args(Handler)

Kept = Literal["memory", "disk"]
KEPT: Final[tuple[Kept, ...]] = get_args(Kept)


@dataclass(frozen=True)
class Offer:
    """The tools that a peer is given to call.

    Args:
        tools: The functions, by the names of the tools.
        timeout: How many seconds each may take, None for what the peer does by itself.
    """

    tools: Mapping[str, Callable[..., Any]]
    timeout: float | None = None

    def __post_init__(self) -> None:
        # As if their module had no postponed annotations, which not every peer resolves.
        for function in self.tools.values():
            function.__annotations__ = get_type_hints(function)

    @property
    def only(self) -> Callable[..., Any]:
        """The function, where there is one."""
        (function,) = self.tools.values()
        return function


Calling = Callable[[str, str], object]
"""Calls a tool, by its name and the JSON text of its arguments; gives what a model is shown."""

Awaiting = Callable[[str, str], Awaitable[object]]
"""The same, awaited."""

Opened = (
    Callable[[Offer], AbstractContextManager[Calling]]
    | Callable[[Offer], AbstractAsyncContextManager[Awaiting]]
)
"""Makes a way ready: an async context manager where calls are awaited."""


@dataclass(frozen=True)
class Way:
    """One public way in which users of a peer have a tool called.

    Args:
        name: What is called.
        includes: What happens to a call on this way.
        opened: Makes it ready.
        handlers: The kinds of handlers that it takes.
        governs: Whether policies, rollback and events are all on this way.
        keeps: Whether it keeps the calls of a session, so that it may slow down with them.
        times_out: Whether it can be given a timeout for a sync handler.
    """

    name: str
    includes: str
    opened: Opened
    handlers: tuple[Handler, ...] = HANDLERS
    governs: bool = False
    keeps: bool = False
    times_out: bool = False


@dataclass(frozen=True)
class Attempt:
    """A call that writes a file and then fails.

    Args:
        fail: Makes the call.
        left: Whether the file is there.
    """

    fail: Callable[[], object]
    left: Callable[[], bool]


@dataclass(frozen=True)
class Contestant:
    """A peer.

    Args:
        distributions: The installed distributions whose versions count.
        ways: The ways to call a tool; what odd arguments do is watched on the first.
        rollback: Where a peer puts back the files that a failing call has changed: makes such a
            call possible, among so many files, kept in memory or on disk.
        kept: Where these files can be.
    """

    distributions: tuple[str, ...]
    ways: tuple[Way, ...]
    rollback: Callable[[int, Kept], AbstractContextManager[Attempt]] | None = None
    kept: tuple[Kept, ...] = ()

    @property
    def in_time(self) -> Way:
        """The first way that can be given a timeout, else the first."""
        return next((way for way in self.ways if way.times_out), self.ways[0])
