"""What suites are given by the test kit's fixture `toolstile_tools`, as far as they use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pytest

from toolstile_hookspecs.calls import Outcome, ToolCall, ToolInvoked
from toolstile_hookspecs.host import Dialect, ExecutorHandle, HostHandle
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool


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
        """What dispatches its calls."""
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
"""What opens a bench with what is tried, and with further plugins."""

both_drivers = pytest.mark.parametrize("toolstile_driver", ["sync", "async"])


def state_of(bench: Bench) -> str:
    """Return the state of a bench's session as JSON, to be compared."""
    return bench.session.snapshot().to_json()
