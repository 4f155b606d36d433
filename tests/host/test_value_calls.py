"""`Host.call` and `Host.acall` return values, open the host, and close it with the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import CallFailed, Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    ConfigurationError,
    HostHandle,
    StateError,
    Status,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def slowly(text: str) -> str:
    """Return a text in time."""
    await asyncio.sleep(0)
    return text


@tool
def refuse(reason: str) -> ToolResult[int]:
    """Fail."""
    return ToolResult.error(reason)


@tool(requires_confirmation=True)
def erase(name: str) -> str:
    """Erase a thing."""
    return f"Erased {name}."


@dataclass(frozen=True)
class Line:
    text: str


@tool
def note(text: str, *, context: ToolContext) -> int:
    """Keep a line; return how many there are."""
    context.session[Line].append(Line(text))
    return len(context.session[Line].all())


class Lives:
    """A plugin that counts how often it is started and stopped."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self, host: HostHandle) -> Iterator[None]:
        time.sleep(0.02)  # other threads come meanwhile
        self.log.append("start")
        yield
        self.log.append("stop")


def host_of(*tools: Any, **options: Any) -> Host:
    return Host(discover=False, tools=tools, **options)


@pytest.fixture(params=["sync", "async"])
def called(request: pytest.FixtureRequest) -> Any:
    def acall(host: Host, name: str, /, **arguments: Any) -> Any:
        return asyncio.run(host.acall(name, **arguments))

    return Host.call if request.param == "sync" else acall


def test_a_call_returns_the_value_and_opens_the_host_once(called: Any) -> None:
    lives = Lives()
    host = host_of(add, slowly, plugins=[lives])
    assert lives.log == []
    assert [called(host, "add", a=1, b=2), called(host, "add", a=2, b=2)] == [3, 4]
    assert called(host, "slowly", text="hello") == "hello"
    host.close()
    assert lives.log == ["start", "stop"]


def test_the_calls_of_a_host_share_a_session_and_leave_other_sessions_alone(called: Any) -> None:
    with host_of(note) as host:
        assert [called(host, "note", text=text) for text in "abc"] == [1, 2, 3]
        with host.executor() as tools:
            assert not tools.session[Line].all()


FAILURES: dict[str, tuple[str, dict[str, Any], Status, str]] = {
    "arguments that do not fit": ("add", {"a": "x", "c": 1}, Status.INVALID, "a: input should be"),
    "a tool that nobody has": ("ad", {"a": 1, "b": 1}, Status.UNKNOWN_TOOL, "add"),
    "a failure of the tool": ("refuse", {"reason": "Too late."}, Status.FAILED, "Too late."),
    "a person who says no": ("erase", {"name": "a"}, Status.DENIED, "not approve"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_call_that_does_not_succeed_raises_the_text_of_the_model(case: str, called: Any) -> None:
    name, arguments, status, told = FAILURES[case]
    host = host_of(add, refuse, erase, approver=lambda request: False)
    with host, pytest.raises(CallFailed) as failed:
        called(host, name, **arguments)
    assert failed.value.outcome.status is status
    assert failed.value.call == failed.value.outcome.call
    assert str(failed.value) == failed.value.outcome.text
    assert told in str(failed.value)


def test_a_call_that_waits_for_a_person_raises_with_its_token() -> None:
    with host_of(erase, approver=lambda request: ApprovalAnswer.pending(ticket="t-1")) as host:
        with pytest.raises(CallFailed) as waits:
            host.call("erase", name="a")
        outcome = waits.value.outcome
        assert (outcome.status, outcome.approval_ticket) == (Status.PENDING, "t-1")
        with host.executor(session_id=outcome.event.session_id) as tools:
            resumed = tools.resume(outcome.call, str(outcome.approval_token), True)
        assert resumed.text == "Erased a."


def test_tools_may_have_any_names_of_arguments() -> None:
    def odd(self: int, tool: int, name: int) -> int:
        """Add three integers."""
        return self + tool + name

    with host_of(odd) as host:
        assert host.call("odd", self=1, tool=2, name=3) == 6


def test_a_call_on_an_event_loop_names_the_async_one() -> None:
    async def blocked(host: Host) -> int:
        with pytest.raises(StateError, match=r"await host\.acall\('add', \.\.\.\)"):
            host.call("add", a=1, b=2)
        assert not host.is_open
        value: int = await host.acall("add", a=1, b=2)
        return value

    host = host_of(add)
    assert asyncio.run(blocked(host)) == 3
    host.close()


def test_first_calls_on_many_threads_open_the_host_once() -> None:
    lives = Lives()
    host = host_of(add, plugins=[lives])
    with ThreadPoolExecutor(8) as threads:
        sums = list(threads.map(lambda n: host.call("add", a=n, b=1), range(40)))
    assert sums == list(range(1, 41))
    host.close()
    assert lives.log == ["start", "stop"]


def test_opening_on_many_threads_enters_each_lifespan_once() -> None:
    lives = Lives()
    host = host_of(add, plugins=[lives])
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: host.open().is_open, range(8))) == [True] * 8
    host.close()
    assert lives.log == ["start", "stop"]


def test_first_calls_of_many_tasks_open_the_host_once() -> None:
    lives = Lives()
    host = host_of(add, plugins=[lives])

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(host.acall("add", a=n, b=1) for n in range(20)))

    assert asyncio.run(all_at_once()) == list(range(1, 21))
    host.close()
    assert lives.log == ["start", "stop"]


def test_a_closed_host_is_opened_again_only_on_purpose(called: Any) -> None:
    host = host_of(add)
    assert called(host, "add", a=1, b=2) == 3
    host.close()
    with pytest.raises(StateError, match=r"This host was closed\. Make a new Host, or open it"):
        called(host, "add", a=1, b=2)
    with host:
        assert called(host, "add", a=1, b=2) == 3


def test_a_host_that_could_not_be_opened_tries_again_with_the_next_call(called: Any) -> None:
    class Late(Lives):
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self, host: HostHandle) -> Iterator[None]:
            self.log.append("tried")
            if len(self.log) == 1:
                raise ConfigurationError("Not yet.")
            yield

    host = host_of(add, plugins=[Late()])
    with pytest.raises(ConfigurationError, match="Not yet"):
        called(host, "add", a=1, b=2)
    assert called(host, "add", a=1, b=2) == 3
    host.close()


@pytest.mark.slow
def test_a_host_that_a_call_has_opened_closes_with_the_process() -> None:
    script = """
        import asyncio
        from contextlib import asynccontextmanager, contextmanager
        from toolstile import Host
        from toolstile_hookspecs import hookimpl

        class Lives:
            @hookimpl
            @contextmanager
            def toolstile_lifespan(self):
                yield
                print("stopped")

        class AsyncLives:
            @hookimpl
            @asynccontextmanager
            async def toolstile_lifespan(self):
                yield
                await asyncio.sleep(0)
                print("stopped on the loop")

        async def add(a: int, b: int) -> int:
            "Add two integers."
            return a + b

        host = Host(tools=[add], plugins=[Lives(), AsyncLives()])
        print(host.call("add", a=1, b=2))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == ["3", "stopped", "stopped on the loop", ""]


def test_hosts_and_executors_say_what_they_are() -> None:
    host = host_of(add)
    assert repr(host) == "<Host: not open, 1 tools, 1 plugins, no configuration file>"
    with host, host.executor(session_id="ada", user_id="ada") as tools:
        assert repr(host).startswith("<Host: open, 1 tools, ")
        assert repr(tools) == "<Executor: open, session 'ada', toolstile:default, 'ada'>"
    assert repr(tools).startswith("<Executor: closed, ")
