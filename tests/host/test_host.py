"""A host is opened and closed, and starts and stops what its plugins keep running."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from toolstile import Host, Session, Settings
from toolstile.runtime import Engine
from toolstile_hookspecs import (
    Binding,
    ConfigurationError,
    Deadline,
    DefinitionError,
    HostHandle,
    MarkdownSection,
    PluginError,
    Prompt,
    PromptEvaluationError,
    RunContext,
    Secret,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def prompt_of(*tools: Any) -> Prompt:
    return Prompt.of("tests", "host", (MarkdownSection(key="tools", title="Tools", tools=tools),))


class OfferedExtensions:
    """A plugin with one section."""

    def __init__(self, *tools: Any, key: str = "offers") -> None:
        self.tools = tools
        self.key = key

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key=self.key, title="OfferedExtensions", tools=self.tools)]


class Runs:
    """A plugin that keeps something running."""

    def __init__(self, log: list[str], name: str, *, fails_on: str = "") -> None:
        self.log = log
        self.name = name
        self.fails_on = fails_on

    def note(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if what == self.fails_on:
            msg = f"{self.name} cannot be {what}"
            raise RuntimeError(msg)

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self) -> Iterator[None]:
        self.note("started")
        yield
        self.note("stopped")


class RunsAsync(Runs):
    """One that runs on the event loop."""

    @hookimpl
    @asynccontextmanager
    async def toolstile_lifespan(self) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        self.note("started")
        yield
        await asyncio.sleep(0)
        self.note("stopped")


def host_of(*plugins: Any, **options: Any) -> Host:
    host = Host(discover=False, **options)
    for number, plugin in enumerate(plugins):
        host.register(plugin, f"plugin{number}")
    return host


@pytest.mark.parametrize("kinds", [(Runs, Runs), (RunsAsync, RunsAsync), (Runs, RunsAsync)])
def test_lifespans_are_left_in_the_reverse_order_in_which_they_were_entered(
    kinds: tuple[type[Runs], type[Runs]],
) -> None:
    log: list[str] = []
    host = host_of(kinds[0](log, "a"), kinds[1](log, "b"))
    assert log == []
    with host:
        assert log in (["a started", "b started"], ["b started", "a started"])
        entered = [each.split()[0] for each in log]
    left = [each.split()[0] for each in log[2:]]

    assert left == entered[::-1]
    assert log[2:] == [f"{name} stopped" for name in left]


@pytest.mark.parametrize("kind", [Runs, RunsAsync])
def test_an_error_on_starting_stops_what_was_started(kind: type[Runs]) -> None:
    log: list[str] = []
    good, bad = kind(log, "good"), kind(log, "bad", fails_on="started")
    host = host_of(bad, good)
    with pytest.raises(PluginError, match="bad cannot be started") as caught:
        host.open()

    assert str(caught.value).startswith("Plugin 'plugin0' cannot be started: toolstile_lifespan")
    assert "block it with TOOLSTILE_BLOCK" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)

    assert not host.is_open
    assert log == ["good started", "bad started", "good stopped"]
    with pytest.raises(StateError, match="not open"):
        host.executor()


@pytest.mark.parametrize(("answer", "told"), [(5, "an instance of int"), (Runs, "the class Runs")])
def test_a_lifespan_that_is_none_is_told_as_what_the_hook_must_not_answer(
    answer: Any, told: str
) -> None:
    class Wrong:
        @hookimpl
        def toolstile_lifespan(self) -> Any:
            return answer

    with pytest.raises(PluginError) as caught:
        host_of(Wrong()).open()
    assert str(caught.value) == (
        f"Plugin 'plugin0' cannot be started: toolstile_lifespan returned {told}, which it must "
        "not. Return a context manager, such as a function with @contextmanager makes, or None."
    )


@pytest.mark.parametrize("kind", [Runs, RunsAsync])
def test_an_error_on_stopping_is_logged_and_the_others_are_stopped(
    kind: type[Runs], caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    with host_of(kind(log, "first"), kind(log, "bad", fails_on="stopped"), kind(log, "last")):
        log.clear()

    assert sorted(log) == ["bad stopped", "first stopped", "last stopped"]
    assert "Plugin plugin1 failed to stop" in caplog.text
    assert "bad cannot be stopped" in caplog.text


def test_an_async_lifespan_that_fails_while_the_host_is_open_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Crashes:
        @hookimpl
        @asynccontextmanager
        async def toolstile_lifespan(self) -> AsyncIterator[None]:
            async def crash() -> None:
                msg = "connection lost"
                raise ConnectionError(msg)

            async with asyncio.TaskGroup() as group:
                group.create_task(crash())
                yield

    with host_of(Crashes()):
        ends = time.monotonic() + 10
        while "plugin0 kept running has failed" not in caplog.text:
            assert time.monotonic() < ends
            time.sleep(0.005)

    assert "connection lost" in caplog.text


@pytest.mark.parametrize("seconds", [60, 0])
def test_an_async_lifespan_is_left_on_an_interrupt_while_it_is_entered(seconds: float) -> None:
    log: list[str] = []

    class Starts:
        @hookimpl
        @asynccontextmanager
        async def toolstile_lifespan(self) -> AsyncIterator[None]:
            try:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                await asyncio.sleep(seconds)
                yield
            finally:
                await asyncio.sleep(0.01)
                log.append("stopped")

    with pytest.raises(KeyboardInterrupt):
        host_of(Starts()).open()

    assert log == ["stopped"]


def test_lifespans_are_left_when_the_block_raises() -> None:
    log: list[str] = []
    with pytest.raises(KeyError), host_of(Runs(log, "a"), RunsAsync(log, "b")):
        raise KeyError

    assert len(log) == 4


def test_an_async_lifespan_is_entered_and_left_in_one_task() -> None:
    tasks: list[Any] = []
    ticks: list[int] = []

    class Serves:
        @hookimpl
        @asynccontextmanager
        async def toolstile_lifespan(self) -> AsyncIterator[None]:
            async def tick() -> None:
                while True:
                    ticks.append(1)
                    ticked.set()
                    await asyncio.sleep(0.001)

            tasks.append(asyncio.current_task())
            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(tick())
                yield
                ticking.cancel()
            tasks.append(asyncio.current_task())

    ticked = threading.Event()
    with host_of(Serves()):
        assert ticked.wait(10)

    assert tasks[0] is tasks[1]


def test_a_lifespan_may_dispatch_once_the_host_is_open() -> None:
    texts: list[str] = []

    class Dispatches:
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self, host: Any) -> Iterator[None]:
            yield
            texts.append("stopped")

    with host_of(Dispatches(), OfferedExtensions(add)) as host, host.executor() as tools:
        texts.append(tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text)

    assert texts == ["3", "stopped"]


def test_a_host_that_is_not_open_says_how_to_open_it() -> None:
    host = Host(discover=False)
    with pytest.raises(StateError, match="with Host"):
        host.executor()
    with host:
        host.executor().close()
    with pytest.raises(StateError, match="not open"):
        host.executor()


def test_an_executor_of_a_closed_host_refuses_calls_and_starts_nothing() -> None:
    with host_of(OfferedExtensions(add)) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).success
    before = threading.active_count()

    with pytest.raises(StateError, match="host is closed"):
        tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))
    with host, pytest.raises(StateError, match="host is closed"):
        tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))
    assert threading.active_count() <= before


def test_an_executor_that_is_closed_refuses_calls_and_keeps_its_session() -> None:
    call = ToolCall("add", {"a": 1, "b": 2})
    with host_of(OfferedExtensions(add)) as host:
        with host.executor() as tools:
            assert tools.dispatch(call).success
        with pytest.raises(StateError, match="executor is closed"):
            tools.dispatch(call)
        with host.executor(session=tools.session) as again:
            assert again.dispatch(call).success


def test_a_lifespan_may_dispatch_while_it_is_left() -> None:
    texts: list[str] = []

    class Flushes:
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self) -> Iterator[None]:
            yield
            texts.append(tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text)

    with host_of(Flushes(), OfferedExtensions(add)) as host:
        tools = host.executor()

    assert texts == ["3"]


def test_opening_and_closing_twice_does_nothing_more() -> None:
    log: list[str] = []
    host = host_of(Runs(log, "a"))
    host.open()
    host.open()
    host.close()
    host.close()

    assert log == ["a started", "a stopped"]


def test_a_host_can_be_opened_again() -> None:
    log: list[str] = []
    host = host_of(RunsAsync(log, "a"), OfferedExtensions(add))
    for _ in range(2):
        with host, host.executor() as tools:
            assert tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text == "3"

    assert log == ["a started", "a stopped"] * 2


def test_a_host_is_opened_and_closed_on_an_event_loop_without_blocking_it() -> None:
    log: list[str] = []

    async def scenario() -> None:
        async with host_of(Runs(log, "a"), RunsAsync(log, "b"), OfferedExtensions(add)) as host:
            with host.executor() as tools:
                outcome = await tools.adispatch(ToolCall("add", {"a": 1, "b": 2}))
                assert outcome.text == "3"

    asyncio.run(scenario())
    assert len(log) == 4


def test_plugins_are_registered_from_python_before_and_after_opening() -> None:
    @tool
    def late() -> str:
        """Be offered late."""
        return "better than never"

    host = host_of(OfferedExtensions(add))
    with host, host.executor() as tools:
        assert list(host.catalog.names()) == ["add"]
        host.register(OfferedExtensions(late, key="late"), "late")
        assert sorted(host.catalog.names()) == ["add", "late"]
        assert tools.dispatch(ToolCall("late")).text == "better than never"


@pytest.mark.parametrize("kind", [Runs, RunsAsync])
def test_a_plugin_registered_with_an_open_host_is_started_at_once(kind: type[Runs]) -> None:
    log: list[str] = []
    with host_of(kind(log, "early")) as host:
        host.register(kind(log, "late"), "late")
        assert log == ["early started", "late started"]

    assert log[2:] == ["late stopped", "early stopped"]


@pytest.mark.slow
def test_a_plugin_that_cannot_be_started_is_not_registered() -> None:
    log: list[str] = []
    with host_of(OfferedExtensions(add)) as host:
        with pytest.raises(PluginError, match="late cannot be started"):
            host.register(Runs(log, "late", fails_on="started"), "late")
        host.register(Runs(log, "again"), "late")

    assert log == ["late started", "again started", "again stopped"]


class Brings:
    """A plugin that registers another while the host is open."""

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self, host: HostHandle) -> Iterator[None]:
        host.register(OfferedExtensions(add), "brought")
        yield
        host.unregister("brought")


def test_a_plugin_may_register_another_for_as_long_as_the_host_is_open() -> None:
    host = host_of(Brings())
    for _ in range(2):
        assert "add" not in host.catalog.names()
        with host, host.executor() as tools:
            assert tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text == "3"
    assert "add" not in host.catalog.names()


def test_what_is_not_registered_cannot_be_removed() -> None:
    with pytest.raises(PluginError, match="Unknown plugin 'brought'"):
        host_of().unregister("brought")


def test_a_wrong_plugin_is_refused_and_leaves_nothing() -> None:
    class Wrong:
        @hookimpl
        def toolstile_lookupp(self) -> None: ...

    with host_of(OfferedExtensions(add)) as host:
        with pytest.raises(PluginError, match="Did you mean toolstile_lookup"):
            host.register(Wrong())
        assert list(host.catalog.names()) == ["add"]


def test_files_may_be_given_by_their_names(tmp_path: Path) -> None:
    config, file = tmp_path / "toolstile.toml", tmp_path / "quiet.py"
    config.write_text("timeout = 3")
    file.write_text('"""Does nothing."""')
    host = Host(discover=False, config=str(config), plugin_files=[str(file)])
    assert host.configuration.timeout == 3
    assert [each.name for each in host.plugins.reports] == ["quiet"]
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml cannot be read"):
        Host(config=str(tmp_path / "nowhere.toml"))


HOURS = """
from pydantic import BaseModel
from toolstile_hookspecs import hookimpl

class Settings(BaseModel):
    hours: int = 8

@hookimpl
def {hook}():
    return Settings
"""
UNMET = {
    "is not there": (None, "hours.py"),
    "cannot be imported": ("import no_such_module", "no_such_module"),
    "misspells a hook": (HOURS.format(hook="toolstile_setings"), "Did you mean toolstile_settings"),
    "marks no hook": ("def toolstile_check(): pass", "Write @hookimpl above it"),
    "has no hook": ("RULES = 1", "implements no hook"),
    "has settings that do not fit": (HOURS.format(hook="toolstile_settings"), "mean 'hours'"),
}


@pytest.mark.parametrize("fault", UNMET)
def test_a_host_does_not_open_without_a_plugin_that_the_configuration_names(
    tmp_path: Path, fault: str
) -> None:
    code, told = UNMET[fault]
    table = "[plugins.hours]\nhuors = 3\n" if "settings" in fault else ""
    (tmp_path / "toolstile.toml").write_text(f"plugin_files = ['hours.py']\n{table}")
    if code is not None:
        (tmp_path / "hours.py").write_text(code)

    host = Host(config=tmp_path / "toolstile.toml")
    with pytest.raises(ConfigurationError, match=told):
        host.open()
    assert not host.is_open

    with Host(config=tmp_path / "toolstile.toml", block=["hours"]) as host:
        assert host.is_open


def test_a_host_logs_what_else_is_wrong_with_plugins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = 'optional_plugins = ["nowhere"]\n[plugins.nowhere]\na = 1'
    (tmp_path / "toolstile.toml").write_text(text)
    with Host(config=tmp_path / "toolstile.toml"):
        assert "has a table for 'nowhere', which is not installed" in caplog.text


@pytest.mark.parametrize("discover", [True, ["ledger"], False])
def test_a_table_of_an_absent_plugin_keeps_the_host_from_opening(
    discover: bool | list[str],
) -> None:
    def opened(name: str, **more: Any) -> None:
        with Host(settings=Settings(plugins={name: {}}, **more), discover=discover):
            pass

    told = (
        r"a table for 'recordr', which is not installed\. Did you mean 'record'\? .*optional_plug"
    )
    with pytest.raises(ConfigurationError, match=told):
        opened("recordr")
    opened("record")
    opened("recordr", optional_plugins=["recordr"])
    opened("my_tool", optional_plugins=["my-tool"])
    opened("recordr", block=["recordr"])


def test_an_unknown_dialect_is_an_error_that_names_the_known() -> None:
    class Speaks:
        @hookimpl
        def toolstile_dialects(self) -> list[Any]:
            return [Klingon()]

    class Klingon:
        name = "klingon"

        def schemas(self, tools: Any) -> list[Any]:
            return []

        def calls(self, reply: Any) -> list[Any]:
            return []

        def results(self, outcomes: Any) -> list[Any]:
            return []

    with (
        host_of() as host,
        pytest.raises(ConfigurationError, match=r"Known: none\. Plugins bring them"),
    ):
        host.dialect("klingon")
    with host_of(Speaks()) as host:
        assert host.dialect("klingon").name == "klingon"
        with pytest.raises(ConfigurationError, match="no dialect 'vulcan'"):
            host.dialect("vulcan")


@tool
def tells(*, context: ToolContext) -> ToolResult[dict[str, Any]]:
    """Tell what the context holds."""
    assert context.auth is not None
    assert context.run_context is not None
    assert context.deadline is not None
    return ToolResult.ok(
        {
            "user": context.user_id,
            "auth": str(context.auth),
            "revealed": context.auth.reveal() == "token",
            "client": context.client,
            "adapter": context.adapter,
            "run": context.run_context.run_id,
            "list": context.resources.get(list),
            "session": context.session.id,
        }
    )


def test_an_executor_gives_handlers_what_it_was_made_with() -> None:
    with (
        host_of(resources=(Binding.instance(list, ["host"]),)) as host,
        host.executor(
            session=Session(id="mine"),
            prompt=prompt_of(tells),
            user_id="ada",
            auth=Secret("token"),
            client="client",
            adapter="adapter",
            run_context=RunContext(run_id="run-1"),
            deadline=Deadline.after(60),
            resources=[Binding.instance(list, ["executor"])],
        ) as tools,
    ):
        outcome = tools.dispatch(ToolCall("tells"))

    assert outcome.result.value == {
        "user": "ada",
        "auth": "Secret(***)",
        "revealed": True,
        "client": "client",
        "adapter": "adapter",
        "run": "run-1",
        "list": ["executor"],
        "session": "mine",
    }
    assert (outcome.event.user_id, outcome.event.session_id) == ("ada", "mine")


@pytest.mark.parametrize("resources", [3, [3], "text"])
def test_resources_that_make_no_bindings_are_refused_where_they_are_given(resources: Any) -> None:
    with host_of() as host, pytest.raises(DefinitionError, match="is not a Binding; write"):
        host.executor(resources=resources)
    with pytest.raises(DefinitionError, match="is not a Binding; write"):
        host_of(resources=resources)


def test_resources_of_a_host_may_be_a_mapping() -> None:
    with host_of(resources={list: ["host"]}) as host, host.executor() as tools:
        assert tools.resources.get(list) == ["host"]


class Still:
    """A clock that stands still."""

    moment = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 7.0


@tool
def date(*, context: ToolContext) -> str:
    """Tell the date."""
    return context.clock.now().date().isoformat()


def test_an_executor_may_have_a_time_of_its_own() -> None:
    with host_of() as host, host.executor(prompt=prompt_of(date), clock=Still()) as tools:
        outcome = tools.dispatch(ToolCall("date"))
    assert outcome.text == "2026-01-15"
    assert outcome.envelope()["fetchedAt"] == "2026-01-15T10:30:00.000Z"


def test_an_unknown_option_of_an_executor_is_an_error() -> None:
    with host_of() as host, pytest.raises(ConfigurationError, match="colour: is not a known key"):
        host.executor(colour="red")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def test_a_host_takes_plain_functions_as_tools() -> None:
    with Host(discover=False, tools=[double, add]) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("double", {"number": 4})).text == "8"
        assert tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text == "3"
        assert sorted(host.catalog.names()) == ["add", "double"]


def test_an_executor_takes_tools_beside_those_of_its_prompt() -> None:
    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt_of(add), tools=[double]) as tools,
    ):
        assert [each.name for each in tools.prompt.tools()] == ["add", "double"]
        assert tools.dispatch(ToolCall("double", {"number": 4})).text == "8"


def test_an_executors_tools_come_to_those_of_the_host() -> None:
    with Host(discover=False, tools=[add]) as host, host.executor(tools=[double]) as tools:
        assert [each.name for each in tools.prompt.tools()] == ["add", "double"]


@pytest.mark.parametrize("wrong", [[5], [lambda number: number]])
def test_what_cannot_be_a_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        Host(discover=False, tools=wrong)
    with Host(discover=False) as host, pytest.raises(DefinitionError):
        host.executor(tools=wrong)


def test_executors_of_one_host_have_sessions_of_their_own_unless_given_one() -> None:
    session = Session()
    with host_of(OfferedExtensions(add)) as host:
        first, second = host.executor(), host.executor()
        third, fourth = host.executor(session=session), host.executor(session=session)

        assert first.session is not second.session
        assert third.session is fourth.session is session
        for each in (first, second, third, fourth):
            each.close()


def test_the_elapsed_deadline_of_an_executor_refuses_calls() -> None:
    with (
        host_of(OfferedExtensions(add)) as host,
        host.executor(deadline=Deadline.after(-1)) as tools,
        pytest.raises(PromptEvaluationError),
    ):
        tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))


@pytest.mark.parametrize(("given", "expected"), [(None, None), (0.5, 0.5), (..., 15.0)])
def test_the_timeout_of_tools_that_do_not_say_is_the_hosts(given: Any, expected: Any) -> None:
    options = {} if given is ... else {"timeout": given}
    assert Host(discover=False, **options).configuration.timeout == expected
    settings = Settings(timeout=7.0)
    configured = Host(discover=False, settings=settings, **options).configuration.timeout
    assert configured == (7.0 if given is ... else expected)


@pytest.mark.slow
def test_the_hosts_timeout_holds_for_tools_that_do_not_say() -> None:
    release = threading.Event()

    @tool
    def sleeps() -> None:
        """Sleep."""
        release.wait(20)

    with host_of(OfferedExtensions(sleeps), timeout=0.2) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("sleeps")).status is Status.TIMED_OUT
        release.set()


@pytest.mark.slow
def test_closing_waits_for_no_handler_that_does_not_end() -> None:
    release = threading.Event()

    @tool(timeout=0.1)
    async def stays() -> None:
        """Ignore being cancelled."""
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with host_of(OfferedExtensions(stays)) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("stays")).status is Status.TIMED_OUT
    release.set()


class OnDuty:
    """A plugin that approves, which the settings name."""

    @hookimpl
    def toolstile_approve(self) -> None:
        return None


def test_an_argument_that_is_not_what_it_should_be_is_named(subtests: pytest.Subtests) -> None:
    for arguments, told in [
        ({"timeout": -1}, "Settings: timeout: expected a positive number of seconds, or "),
        ({"timeout": "5"}, "Settings: timeout: expected a positive number of seconds, or "),
        ({"block": "vfs"}, "Host: block: expected an array, found the text 'vfs'."),
        ({"block": (1,)}, "Host: block[0]: expected text, found the number 1."),
        ({"plugin_files": "a.py"}, "Host: plugin_files: expected an array, found the text"),
        ({"plugins": 5}, "Host: plugins: expected an array, found the number 5."),
        ({"interrupts": KeyError}, "Host: interrupts: expected an array, found the class KeyE"),
        ({"interrupts": [KeyError()]}, "Host: interrupts[0]: expected a subclass of BaseExcep"),
        ({"tools": 5}, "Host: tools: expected an array, found the number 5."),
        ({"policies": None}, "Host: policies: expected an array, found nothing."),
        ({"settings": {"timeout": 5}}, "Host: settings: expected an instance of Settings, found"),
        ({"approver": 5}, "Host: approver: expected a function, found the number 5."),
        ({"approver": "duty"}, "Host: approver: expected a function, found the text 'duty'."),
        ({"approver": OnDuty()}, "Host: approver: expected a function, found an instance of"),
        ({"clock": 5}, "Host: clock: expected an instance of Clock, found the number 5."),
    ]:
        with subtests.test(arguments=arguments, told=told):
            with pytest.raises(ConfigurationError) as caught:
                Host(discover=False, **arguments)
            assert str(caught.value).startswith(told)


class OnDutyHere(OnDuty):
    """A plugin that approves, and that is asked as a function, too."""

    def __call__(self, request: object) -> bool:
        return True


@pytest.mark.parametrize("approver", [OnDutyHere(), Mock(return_value=True)])
def test_a_plugin_that_can_be_called_may_be_the_approver(approver: Any) -> None:
    assert Host(discover=False, approver=approver).approver is approver


def test_settings_made_in_python_are_checked(subtests: pytest.Subtests) -> None:
    for fields, told in [
        ({"block": "a,b"}, "block: expected an array, found the text 'a,b'."),
        ({"timeout": 0}, "timeout: expected a positive number of seconds, or "),
        ({"timeout": True}, "timeout: expected a positive number of seconds, or "),
        ({"approval_timeout": "x"}, "approval_timeout: expected a positive number of seconds, or"),
        ({"approval_expiry": None}, "approval_expiry: expected a positive number of seconds, fou"),
        (
            {"approval_key": "hunter2"},
            "approval_key: expected a key that cannot be guessed; give at",
        ),
        ({"max_arguments": 0}, "max_arguments: expected greater than 0, found the number 0."),
        ({"approver": 3}, "approver: expected text, found the number 3."),
        ({"plugins": {"vfs": 3}}, "plugins.vfs: expected a table, found the number 3."),
        ({"approve_diff": "add"}, "approve_diff: expected true or false, found the text 'add'."),
        ({"approve_diff": 1}, "approve_diff: expected true or false, found the number 1."),
        (
            {"policies": {"kind": "quota"}},
            "policies: expected an array, found a table; did you mean [[policies]]?",
        ),
        ({"policies": ("quota",)}, "policies[0]: expected a table, found the text 'quota'."),
        ({"prompt_overrides": 3}, "prompt_overrides: expected a path, as text, found the number"),
    ]:
        with subtests.test(fields=fields, told=told):
            with pytest.raises(ConfigurationError) as caught:
                Settings(**fields)
            assert str(caught.value).startswith(f"Settings: {told}")


def test_all_faults_of_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"block: expected .*\n.*timeout: expected"):
        Settings(block="a", timeout=-1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"policies": [{"kind": "nope"}]}, "nope"),
        ({"prompt_overrides": "none.toml"}, r"none\.toml cannot be read"),
    ],
)
def test_a_host_is_configured_as_a_whole_or_not_at_all(values: Any, told: str) -> None:
    host = Host(discover=["dialects"], settings=Settings())
    before = host.configuration, host.plugins.settings, host.policies
    with pytest.raises(ConfigurationError, match=told):
        host.configure({"timeout": 3, "plugins.nowhere.a": 1, **values})
    assert (host.configuration, host.plugins.settings, host.policies) == before


def test_a_host_takes_the_texts_that_it_is_configured_with(tmp_path: Path) -> None:
    texts = tmp_path / "texts.toml"
    told = hashlib.sha256(b"Add two integers.").hexdigest()
    texts.write_text(
        f'[prompts."tests/host".tools.add]\ndescription = "Sum up."\nhash = "{told}"\n'
    )
    sums = MarkdownSection(key="sums", title="Sums", tools=[add], accepts_overrides=True)
    host = Host(discover=False)
    host.configure({"prompt_overrides": texts})
    with host, host.executor(prompt=Prompt.of("tests", "host", (sums,))) as tools:
        assert tools.prompt.render().tools[0].description == "Sum up."


@pytest.mark.slow
def test_each_section_is_set_up_once_however_many_there_were_before_it() -> None:
    made, set_up = 0, 0

    class Counting(MarkdownSection):
        def setup(self, session: Any) -> None:
            nonlocal set_up
            set_up += 1

    class Changing:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection]:
            nonlocal made
            made += 1
            return [Counting(key="sums", title="Sums", tools=[add])]

    with Host(discover=False) as host:
        host.register(Changing(), "changing")
        with host.executor() as tools:
            for _ in range(50):
                tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))
                # What comes next may be where this one was.
                host.catalog.invalidate("changing")
                gc.collect()
            tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))
    assert set_up == made


def test_threads_that_need_it_first_get_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Engine):
        def __init__(self, interrupts: Any, lifespans: Any) -> None:
            time.sleep(0.02)
            super().__init__(interrupts, lifespans)

    monkeypatch.setattr("toolstile.runtime.Engine", Slow)
    host = Host(discover=False)
    with ThreadPoolExecutor(4) as pool:
        engines = set(pool.map(lambda _: host.engine, range(4)))
    assert len(engines) == 1
    host.close()


def test_an_executor_is_closed_on_a_loop_as_well() -> None:
    closed: list[bool] = []

    class Shop:
        def close(self) -> None:
            closed.append(threading.current_thread() is threading.main_thread())

    @tool
    async def opens(*, context: ToolContext) -> None:
        """Open the shop."""
        context.resources.get(Shop)

    async def main() -> None:
        bound = (Binding(Shop, lambda _: Shop()),)
        async with (
            Host(discover=False) as host,
            host.executor(prompt=prompt_of(opens), resources=bound) as tools,
        ):
            assert (await tools.adispatch(ToolCall("opens"))).success
            assert closed == []

    asyncio.run(main())
    assert closed == [False]


def test_a_new_session_has_the_id_that_is_given() -> None:
    with Host(discover=False) as host, host.executor(session_id="mine") as tools:
        assert tools.session.id == "mine"


def test_options_of_an_executor_are_checked(subtests: pytest.Subtests) -> None:
    for options, told in [
        ({"deadline": 5}, "deadline: expected an instance of Deadline, found the number 5"),
        ({"approver": 5}, "approver: expected a function, found the number 5"),
        ({"session": "mine"}, "session: expected an instance of Session, found the text 'mine'"),
        ({"session_id": 5}, "session_id: expected text, found the number 5"),
        (
            {"session": Session(), "session_id": "a"},
            "session and session_id are both given; the session has its id",
        ),
        ({"tools": 5}, "tools: expected an array, found the number 5"),
        ({"heartbeat": 3}, "heartbeat: expected an instance of Heartbeat, found the number 3"),
        ({"user_id": 5}, "user_id: expected text, found the number 5"),
        ({"dry_run": "no"}, "dry_run: expected true or false, found the text 'no'"),
        ({"auth": "key"}, "auth: expected an instance of Secret, found a value that is not shown"),
        ({"clock": time}, "clock: expected an instance of Clock, found an instance of module"),
    ]:
        with subtests.test(options=options, told=told):
            with Host(discover=False) as host, pytest.raises(ConfigurationError) as caught:
                host.executor(**options)
            assert str(caught.value) == f"host.executor: {told}."


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"vulcan": 5}, "returned an instance of dict, which it must not. Return a list."),
        (
            [5],
            "returned an instance of int, which it must not. Return dialects: objects with a name.",
        ),
    ],
)
def test_a_dialect_that_is_missed_may_have_been_offered_wrongly(answer: Any, told: str) -> None:
    class Desk:
        @hookimpl
        def toolstile_dialects(self) -> Any:
            return answer

    with Host(discover=False, plugins=[Desk()]) as host:
        with pytest.raises(ConfigurationError) as caught:
            host.dialect("vulcan")
        assert str(caught.value) == (
            f"There is no dialect 'vulcan'. Known: none. Plugin 'Desk': toolstile_dialects {told}"
        )


def test_a_dialect_that_is_missed_is_told_with_the_one_that_is_meant_or_where_they_come_from() -> (
    None
):
    with Host(settings=Settings(), discover=["dialects"]) as host:
        with pytest.raises(ConfigurationError, match=r"'opnai'; did you mean 'openai'\?$"):
            host.dialect("opnai")
        with pytest.raises(
            ConfigurationError, match=r"'vulcan'\. Known: anthropic, .*responses\.$"
        ):
            host.dialect("vulcan")
    needed = r"Write Host\(discover=\['dialects'\]\)"
    with Host(discover=False) as host, pytest.raises(ConfigurationError, match=needed):
        host.dialect("openai")


def test_a_dialect_that_is_missed_may_be_switched_off() -> None:
    with (
        Host(settings=Settings(), block=("dialects",)) as host,
        pytest.raises(ConfigurationError, match=r"Switched off: 'dialects'\.$"),
    ):
        host.dialect("openai")


def test_only_the_installed_plugins_that_are_named_are_loaded():
    host = Host(discover=["planning", "policies"], settings=Settings())
    assert [each.name for each in host.plugins.reports] == ["planning", "policies"]
    with pytest.raises(ConfigurationError, match="discover: expected an array"):
        Host(discover="planning")


def test_a_plugin_that_is_named_and_not_installed_is_an_error():
    with pytest.raises(PluginError, match=r"no installed plugin 'vsf'\. Did you mean 'vfs'\?$"):
        Host(discover=["planning", "vsf"], settings=Settings())
    with pytest.raises(PluginError, match=r"no installed plugin 'zq'\. Those are: .*planning"):
        Host(discover=["zq"], settings=Settings())


def test_what_is_configured_of_installed_plugins_that_are_not_asked_for_is_no_fault():
    settings = Settings(plugins={"vfs": {}, "zq": {}}, block=("mcp",))
    host = Host(discover=["planning"], settings=settings)
    absent = [each.name for each in host.plugins.reports if each.status == "absent"]
    assert absent == ["zq"]
