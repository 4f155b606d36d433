"""Tools that do nothing, for policies to be asked about, and the test bench."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, get_args

import pytest

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.calls import Outcome, ToolCall, ToolInvoked
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.handles import Dialect, ExecutorHandle, HostHandle
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Category, Consequence, Tool


@dataclass
class Thing:
    """The mutable params of the stub tools; a policy must not change them.

    Args:
        name: A name.
        count: A number.
        path: A path.
        tags: Texts.
    """

    name: str = ""
    count: int = 0
    path: str = "a.txt"
    tags: tuple[str, ...] = ()


def _do_nothing(params: Thing, *, context: ToolContext) -> ToolResult[str]:  # noqa: ARG001 - a handler
    return ToolResult.ok("Done.")


def _stand_in(
    name: str, category: Category = "side_effect", consequence: Consequence = "medium"
) -> Tool[Any, Any]:
    return Tool[Thing, str](
        name=name,
        description="Do nothing.",
        handler=_do_nothing,
        category=category,
        consequence=consequence,
        contained=True,
    )


STAND_INS: Final[tuple[Tool[Any, Any], ...]] = (
    *(_stand_in(f"{each}_thing", category=each) for each in get_args(Category)),
    *(_stand_in(f"{each}_thing", consequence=each) for each in get_args(Consequence)),
)
"""`read_thing`, `write_thing`, `delete_thing`, `side_effect_thing`, and `low_thing`,
`medium_thing`, `high_thing` of these consequences; each takes a `Thing`."""

_STRANGE: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"name": "", "count": 0, "path": "", "tags": []},
    {"name": "\N{SNOWMAN}\0'\"\\;--", "count": -1, "path": "../../etc/passwd"},
    {"name": "x" * 10_000, "count": 10**18, "tags": ["x"] * 1_000},
)

STRANGE_CALLS: Final = tuple((tool.name, arguments) for tool in STAND_INS for arguments in _STRANGE)
"""Calls that no policy expects, of every stand-in."""


# --- The test bench


class BenchHost(HostHandle, Protocol):
    """A host that tells of all its dialects."""

    def dialects(self) -> Mapping[str, Dialect]:
        """Return the dialects of all plugins by name."""
        ...


class Bench(Protocol):
    """Calls tools in one session of one host."""

    @property
    def host(self) -> BenchHost:
        """The host."""
        ...

    @property
    def executor(self) -> ExecutorHandle:
        """The executor of its calls."""
        ...

    @property
    def session(self) -> SessionProtocol:
        """The session that the calls run in."""
        ...

    @property
    def events(self) -> Sequence[ToolInvoked]:
        """The events of all calls so far."""
        ...

    def settings_of(self, plugin: object) -> Any:
        """Return the validated settings of a plugin that was given."""
        ...

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        """Call a tool, and wait for what becomes of it."""
        ...

    def dispatch(self, call: ToolCall) -> Outcome:
        """Dispatch a call, and wait for what becomes of it."""
        ...


AnyTool = Tool[Any, Any]

MakeBench = Callable[..., Bench]
"""The fixture `toolstile_tools`: takes plugins and options, see the guide to testing."""

OpenBench = Callable[..., Bench]
"""The function that opens a bench with the subject of the suite and further plugins."""

both_drivers = pytest.mark.parametrize("toolstile_driver", ["sync", "async"])


def state_of(bench: Bench) -> str:
    """Return the state of a bench's session as JSON, to be compared."""
    return bench.session.snapshot().to_json()


# --- An approver that agrees


def approve(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG001 - whatever it is
    """Answer as a person who agrees to anything."""
    return ApprovalAnswer.approve()


_BEGINNINGS: Final = ("Plugin ", "Policy ")


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the host has logged of plugins and policies that failed."""
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("toolstile")
        and each.levelno >= logging.ERROR
        and each.getMessage().startswith(_BEGINNINGS)
    ]
