"""A call that no thread and no event loop can run fails, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolstile import Executor, Host
from toolstile_hookspecs import MarkdownSection, Outcome, Prompt, Tool, ToolCall, tool

# Only what never comes takes this long.
PATIENCE = 60.0


@tool(timeout=None)
async def say(text: str) -> str:
    """Say something, in time."""
    await asyncio.sleep(0)
    return text


@tool
def where() -> str:
    """Say which thread it is called on."""
    return threading.current_thread().name


def executor(host: Host, *tools: Tool[Any, Any]) -> Executor:
    prompt = Prompt.of("tests", "yard", (MarkdownSection(key="tools", title="Tools", tools=tools),))
    return host.executor(prompt=prompt)


def test_an_async_call_that_the_loop_would_have_to_wait_for_itself_fails_at_once() -> None:
    told: list[Outcome] = []

    @tool(timeout=20.0)
    async def careless() -> None:
        """Dispatch where it should await."""
        told.append(tools.dispatch(ToolCall("say", {"text": "late"})))
        told.extend(
            each
            for each in tools.dispatch_all([ToolCall("say", {"text": "late"})])
            if isinstance(each, Outcome)
        )

    with Host(discover=False) as host, executor(host, say, careless) as tools:
        assert tools.dispatch(ToolCall("careless")).success
        assert tools.dispatch(ToolCall("say", {"text": "next"})).text == "next"

    assert len(told) == 2
    for each in told:
        assert "write: await executor.adispatch(call)" in each.text


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_call_of_a_batch_that_gets_no_thread_fails_alone(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    started: list[str] = []

    def run_out(thread: threading.Thread) -> None:
        if thread.name == "toolstile-worker":
            started.append(thread.name)
            if len(started) == 1:
                msg = "can't start new thread"
                raise RuntimeError(msg)
        start(thread)

    calls = [ToolCall("where") for _ in range(3)]
    with Host(discover=False) as host, executor(host, where) as tools:
        monkeypatch.setattr(threading.Thread, "start", run_out)

        async def at_once() -> Any:
            return await tools.adispatch_all(calls)

        outcomes = tools.dispatch_all(calls) if driver == "sync" else asyncio.run(at_once())

    assert sorted(each.text for each in outcomes if isinstance(each, Outcome)) == [
        "Internal error in where: can't start new thread",
        "toolstile-worker",
        "toolstile-worker",
    ]


def test_a_host_that_is_closed_lets_handlers_end_on_its_loop() -> None:
    begun = threading.Event()
    tidied: list[str] = []

    @tool(timeout=None)
    async def tidy() -> None:
        """Tidy up when cancelled."""
        try:
            begun.set()
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0.01)
            tidied.append("up")

    ended: list[Outcome] = []
    host = Host(discover=False).open()
    tools = executor(host, tidy)
    waiting = threading.Thread(
        target=lambda: ended.append(tools.dispatch(ToolCall("tidy"))), daemon=True
    )
    waiting.start()
    assert begun.wait(PATIENCE)

    host.close()

    waiting.join(20.0)
    assert tidied == ["up"]
    assert [each.success for each in ended] == [False]
