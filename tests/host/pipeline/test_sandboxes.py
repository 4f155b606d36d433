"""A plugin runs handlers elsewhere, through what the contract gives everyone."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    ConfigurationError,
    HandlerState,
    MarkdownSection,
    PolicyDecision,
    ProcessDied,
    Status,
    ToolCall,
    ToolContext,
    applies_to,
    hookimpl,
    tool,
)

PATIENCE = 30.0


@tool(isolation="process", timeout=30)
def weigh(word: str) -> int:
    """Weigh a word."""
    return len(word)


@tool(isolation="process", timeout=0.2)
def hang() -> None:
    """Never end."""


@tool(isolation="process", timeout=30, contained=True)
def wait() -> None:
    """Wait to be cancelled."""


def is_isolated(tool: Any) -> bool:
    return tool.isolation == "process"


class Sandbox:
    """Runs handlers as the plugin of a stranger may; remembers the contexts and what it killed."""

    def __init__(self) -> None:
        self.contexts: list[ToolContext] = []
        self.crossings: list[object] = []
        self.began = threading.Event()
        self.killed: list[str] = []

    @hookimpl
    @applies_to(is_isolated)
    def toolstile_execute(self, tool: Any) -> Any:
        return Cell(self, tool)


class Cell:
    """A call in the sandbox."""

    def __init__(self, sandbox: Sandbox, tool: Any) -> None:
        self.sandbox = sandbox
        self.tool = tool
        self.is_over = threading.Event()

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        context.on_abandoned(self.kill)
        self.sandbox.contexts.append(context)
        assert context.control is not None
        self.sandbox.crossings += map(json.loads, context.control.crossings())
        self.sandbox.began.set()
        if self.tool.name in {"hang", "wait"}:
            assert self.is_over.wait(PATIENCE)
            raise ProcessDied("its cell was closed")
        if params.word == "die":
            raise ProcessDied("its cell fell down")
        return self.tool.signature.invoke(params, context=context)

    def kill(self) -> None:
        self.sandbox.killed.append(self.tool.name)
        self.is_over.set()


class Asked:
    """A plugin that remembers which calls were checked."""

    def __init__(self) -> None:
        self.names: list[str] = []

    @hookimpl
    def toolstile_check(self, tool: Any) -> PolicyDecision | None:
        self.names.append(tool.name)
        return None


class Declining:
    """A plugin whose sandbox is full."""

    @hookimpl
    def toolstile_execute(self) -> None:
        return None


def test_it_runs_what_needs_a_process(yard: Any) -> None:
    sandbox = Sandbox()
    yard.open(weigh, plugins=(sandbox,))

    assert yard.call("weigh", word="four").result.value == 4
    assert sandbox.killed == []


def test_it_is_told_to_stop_what_takes_too_long(yard: Any) -> None:
    sandbox = Sandbox()
    yard.open(hang, plugins=(sandbox,))

    outcome = yard.call("hang")

    assert outcome.status is Status.TIMED_OUT
    assert "It was asked to stop, but may have had effects outside" in outcome.text
    assert sandbox.killed == ["hang"]


def test_it_is_told_to_stop_what_is_cancelled(yard: Any) -> None:
    sandbox = Sandbox()
    yard.open(wait, plugins=(sandbox,))
    stop = Cancellation()

    def cancel() -> None:
        sandbox.began.wait(PATIENCE)
        stop.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    outcome = yard.dispatch(ToolCall("wait", {}, cancellation=stop))

    assert outcome.status is Status.CANCELLED
    assert sandbox.killed == ["wait"]


def test_the_effect_of_what_died_is_unknown(yard: Any) -> None:
    sandbox = Sandbox()
    states: list[HandlerState] = []

    class Settling:
        @hookimpl
        def toolstile_rollback(self, context: ToolContext) -> None:
            assert context.control is not None
            states.append(context.control.handler_state)

    yard.open(weigh, plugins=(sandbox, Settling()))

    outcome = yard.call("weigh", word="die")

    assert outcome.text == "Internal error in weigh: its cell fell down"
    assert (outcome.status, states) == (Status.ERROR, [HandlerState.BEGUN])


class Trace:
    """A trace that goes along, unless it is no data."""

    def __init__(self, crossing: Any) -> None:
        self._crossing = crossing

    @hookimpl
    def toolstile_trace(self) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def crossing(self) -> Any:
        return self._crossing


@pytest.mark.parametrize("crossing", ["one", None, lambda: None], ids=["one", "none", "unfit"])
def test_it_takes_traces_along(yard: Any, crossing: Any, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox()
    yard.open(weigh, plugins=(sandbox, Trace(crossing)))

    with caplog.at_level(logging.ERROR):
        assert yard.call("weigh", word="four").success

    assert sandbox.crossings == (["one"] if crossing == "one" else [])
    assert ("Trace cannot go along" in caplog.text) is callable(crossing)


def test_it_learns_what_may_travel(yard: Any) -> None:
    sandbox = Sandbox()
    resources = (Binding.instance(int, 1, portable=True), Binding.instance(str, "one"))
    yard.open(weigh, plugins=(sandbox,), resources=resources)

    assert yard.call("weigh", word="four").success

    (context,) = sandbox.contexts
    # What is over is still known.
    portable = [kind for kind in (int, str, bytes) if context.resources.is_portable(kind)]
    assert portable == [int]


@pytest.mark.parametrize("plugins", [(), (Declining(),)], ids=["nobody", "full"])
def test_a_tool_that_nothing_runs_in_a_process_is_refused(
    yard: Any, plugins: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    asked = Asked()
    yard.open(weigh, plugins=(*plugins, asked))

    with caplog.at_level(logging.ERROR):
        outcome = yard.call("weigh", word="four")

    assert outcome.status is Status.ERROR
    assert outcome.text == (
        "weigh cannot run: it declares isolation='process', and no loaded plugin runs its handler "
        "in a process; load one that does, such as the built-in 'isolation'. This "
        "requires human intervention."
    )
    assert outcome.text in caplog.text
    # Nothing was raised that a person could look for in a traceback.
    assert "Traceback" not in caplog.text
    assert asked.names == (["weigh"] if plugins else [])
    yard.assert_untouched()


class Weighing:
    """A plugin with a tool that asks for a process of its own."""

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="scales", title="Scales", tools=(weigh,))]


def test_a_plugins_tool_that_nothing_runs_in_a_process_keeps_the_host_closed() -> None:
    told = r"^weigh cannot run: .*isolation='process'.* load one that does"
    with (
        pytest.raises(ConfigurationError, match=told),
        Host(discover=False, plugins=[Weighing()]),
    ):
        pass
    with Host(discover=False, plugins=[Weighing(), Sandbox()]) as host:
        assert host.unmet() == []
