"""The fixtures, as the author of a plugin uses them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from toolstile import Host, Settings
from toolstile.testing import Answers, FakeClock, InOrder, assert_failed, assert_ok
from toolstile_hookspecs import (
    ConfigurationError,
    MarkdownSection,
    PluginError,
    PolicyDecision,
    StateError,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_plugins import planning
from toolstile_plugins.planning import Plan


@dataclass(frozen=True)
class Note:
    text: str


@tool
def note(text: str, *, context: ToolContext) -> int:
    """Keep a note, and count the notes."""
    context.session[Note].append(Note(text))
    return len(context.session[Note].all())


@tool(category="read")
def what_time(*, context: ToolContext) -> str:
    """Tell the time."""
    return context.clock.now().isoformat()


class Greeting(BaseModel):
    word: str = "Hello"


class Greeter:
    @hookimpl
    def toolstile_settings(self):
        return Greeting

    @hookimpl
    def toolstile_sections(self, settings):
        @tool(category="read")
        def greet(name: str) -> str:
            """Greet somebody."""
            return f"{settings.word}, {name}."

        return [MarkdownSection(key="greet", title="Greet", tools=[greet])]


@pytest.mark.parametrize("toolstile_driver", ["sync", "async"])
def test_tools_are_called_through_either_driver(toolstile_tools):
    tools = toolstile_tools(note)
    assert assert_ok(tools.call("note", text="a"), value=1) == 1
    assert tools.session[Note].latest() == Note("a")
    values = [assert_ok(each) for each in tools.call_all(("note", {"text": "b"}))]
    assert values == [2]
    assert [each.tool_name for each in tools.events] == ["note", "note"]


def test_tools_are_called_from_async_code(toolstile_tools):
    tools = toolstile_tools(note)

    async def main() -> int:
        await tools.acall("note", text="a")
        (second,) = await tools.acall_all(("note", {"text": "b"}))
        return assert_ok(second)

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("toolstile_driver", ["async"])
def test_a_call_that_would_block_the_loop_it_is_made_on_is_told_with_the_other_way(toolstile_tools):
    tools = toolstile_tools(note)

    async def main() -> None:
        with pytest.raises(StateError, match=r"write: await tools\.acall\(\.\.\.\)"):
            tools.call("note", text="a")
        with pytest.raises(StateError, match=r"write: await tools\.acall_all\(\.\.\.\)"):
            tools.call_all(("note", {"text": "b"}))

    asyncio.run(main())
    assert tools.events == ()


def test_only_chosen_plugins_are_there(toolstile_host):
    host = toolstile_host("planning", note)
    loaded = [each.name for each in host.plugins.reports if each.status == "loaded"]
    assert loaded == ["planning", "tools"]
    assert isinstance(host, Host)
    assert host.is_open


def test_a_module_goes_by_the_name_of_its_entry_point(toolstile_tools):
    tools = toolstile_tools(planning, settings={"planning": {"strategy": "plan_act_reflect"}})
    assert tools.host.settings("planning").strategy.value == "plan_act_reflect"
    assert_ok(tools.call("planning_setup_plan", objective="Ship"))
    assert tools.session[Plan].latest() is not None


def test_settings_reach_a_plugin(toolstile_tools):
    tools = toolstile_tools(Greeter(), settings={"Greeter": {"word": "Hi"}})
    assert_ok(tools.call("greet", name="Ada"), value="Hi, Ada.")
    whole = Settings(timeout=3, plugins={"Greeter": {"word": "Ahoy"}})
    other = toolstile_tools(Greeter(), settings=whole)
    assert_ok(other.call("greet", name="Ada"), contains="Ahoy")
    assert other.host.configuration.timeout == 3


def test_a_plugin_that_is_not_installed_is_told_with_the_nearest(toolstile_host):
    with pytest.raises(PluginError, match=r"'planing' is installed. Did you mean 'planning'\?"):
        toolstile_host("planing")


def test_a_wrong_setting_is_told(toolstile_host):
    with pytest.raises(PluginError, match="strategy"):
        toolstile_host("planning", settings={"planning": {"strategy": "none"}})


def test_a_host_is_closed_with_the_test(toolstile_host, request):
    host = toolstile_host()
    assert host.is_open
    toolstile_host.close()
    assert not host.is_open


def test_options_reach_the_host_and_the_executor(toolstile_tools, toolstile_clock):
    tools = toolstile_tools(what_time, clock=toolstile_clock, session_id="s-1", user_id="ada")
    toolstile_clock.advance(timedelta(hours=1))
    outcome = tools.call("what_time")
    assert_ok(outcome, value="2026-01-01T13:00:00+00:00")
    assert (outcome.event.session_id, outcome.event.user_id) == ("s-1", "ada")


class Nobody:
    @hookimpl
    def toolstile_check(self):
        return PolicyDecision.deny("Nobody may. Ask for something else.")


# --- the clock ---------------------------------------------------------------------------


def test_the_clock_goes_on_when_told_to():
    clock = FakeClock(datetime(2026, 5, 1, 9, 0, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 5, 1, 9, 0, tzinfo=UTC), 0.0)
    clock.advance(1.5)
    assert (clock.now().second, clock.monotonic()) == (1, 1.5)


def test_the_clock_does_not_go_back():
    with pytest.raises(ValueError, match="cannot go back"):
        FakeClock().advance(-1)
    with pytest.raises(ValueError, match="no time zone"):
        FakeClock(datetime(2026, 5, 1))  # noqa: DTZ001 - that is the fault


# --- answers -----------------------------------------------------------------------------


def test_answers_take_the_place_of_handlers(toolstile_tools):
    tools = toolstile_tools(note, what_time, answers={"note": InOrder(7, 8), "what_time": "late"})
    assert [assert_ok(tools.call("note", text="a")) for _ in range(2)] == [7, 8]
    assert_ok(tools.call("what_time"), value="late")
    assert tools.session[Note].all() == ()
    assert [name for name, _ in tools.answers.answered] == ["note", "note", "what_time"]


def test_answers_may_fail_raise_and_be_worked_out(toolstile_tools):
    tools = toolstile_tools(
        note,
        answers={
            "note": InOrder(
                ToolResult.error("The pen is dry. Fill it, then retry."),
                RuntimeError("broken"),
                lambda params: len(params.text),
            )
        },
    )
    assert_failed(tools.call("note", text="a"), status="failed", contains="pen")
    assert_failed(tools.call("note", text="a"), status="error", contains="broken")
    assert_ok(tools.call("note", text="four"), value=4)


def test_others_run_where_that_is_said(toolstile_tools):
    tools = toolstile_tools(note, what_time, answers=Answers({"what_time": "x"}, others_run=True))
    assert_ok(tools.call("note", text="a"), value=1)


def test_arguments_and_policies_count_as_ever(toolstile_tools):
    tools = toolstile_tools(note, Nobody(), answers={"note": 1})
    assert_failed(tools.call("note"), status="invalid", contains="text")
    assert_failed(tools.call("note", text="a"), status="denied", contains="Nobody may")
    assert tools.answers.answered == []


def test_an_unexpected_call_is_refused_and_told_of_at_the_end(toolstile_tools):
    tools = toolstile_tools(note, what_time, answers={"note": InOrder(1)})
    assert_ok(tools.call("note", text="a"))
    assert_failed(tools.call("what_time"), contains=["no answer for a call of what_time", "note"])
    assert_failed(tools.call("note", text="a"), contains="used up")
    assert len(toolstile_tools.close()) == 2
    tools.answers.unexpected.clear()


def test_a_record_answers(toolstile_tools, tmp_path):
    path = tmp_path / "calls.jsonl"
    live = toolstile_tools("record", note, settings={"record": {"file": str(path)}})
    assert_ok(live.call("note", text="a"), value=1)
    live.host.close()
    tools = toolstile_tools(note, answers=path)
    outcome = tools.call("note", text="a")
    assert_ok(outcome, value=1)
    assert outcome.event.replayed
    assert tools.session[Note].latest() == Note("a")
    assert_failed(tools.call("note", text="b"), contains="is in the record")


# --- in a run of pytest --------------------------------------------------------------------

A_TEST = """
import sys

import pytest

IMPORTED = [name for name in sys.modules if name.split(".")[0].startswith("toolstile")]


def test_nothing_is_imported_before_it_is_used():
    assert sorted(IMPORTED) == [
        "toolstile", "toolstile._version", "toolstile.testing", "toolstile.testing.fixtures"
    ]


def test_an_unexpected_call(toolstile_tools):
    tools = toolstile_tools("planning", answers={})
    tools.call("planning_read_plan")


def test_a_failed_assertion(toolstile_tools):
    from toolstile.testing import assert_ok

    assert_ok(toolstile_tools("planning").call("planning_add_step", steps=[]))
"""


@pytest.mark.slow
def test_in_a_run_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(A_TEST, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed, 1 error" in run.stdout, run.stdout
    assert "There is no answer for a call of planning_read_plan." in run.stdout
    assert "A call of planning_add_step should succeed, but it was" in run.stdout
    assert "outcomes.py" not in run.stdout


def test_single_calls_can_be_dispatched(toolstile_tools):
    tools = toolstile_tools(note)
    assert_failed(tools.dispatch(ToolCall("note", "{not json")), status="invalid")


@pytest.mark.parametrize(
    ("option", "near"), [("policy", "policies"), ("setting", "settings"), ("answer", "answers")]
)
def test_an_unknown_option_is_told_with_the_nearest(toolstile_tools, option, near):
    with pytest.raises(ConfigurationError, match=rf"no option {option}\. Did you mean {near}\?"):
        toolstile_tools(note, **{option: {}})


def test_an_option_like_no_other_is_told_with_all_there_are(toolstile_tools):
    with pytest.raises(ConfigurationError, match=r"There are .*\banswers, .*\bsettings, "):
        toolstile_tools(note, colour="red")


@pytest.mark.parametrize("others", [(), ("planning",)])
def test_a_table_that_no_plugin_reads_is_refused(toolstile_host, others):
    with pytest.raises(PluginError, match=r"table for 'Gretter', .* Did you mean 'Greeter'\?"):
        toolstile_host(Greeter(), *others, settings={"Gretter": {"word": "Bye"}})


@pytest.mark.parametrize("toolstile_driver", ["sync", "async"])
def test_the_hooks_of_a_call_have_the_settings_of_their_plugin(toolstile_tools):
    class Strict:
        @hookimpl
        def toolstile_settings(self):
            return Greeting

        @hookimpl
        def toolstile_check(self, params, settings):
            if params.text == settings.word:
                return PolicyDecision.deny(f"{settings.word} cannot be noted.")
            return None

        @hookimpl(wrapper=True)
        def toolstile_execute(self, settings):
            result = yield
            return ToolResult.ok(result.value, message=settings.word)

    strict = Strict()
    tools = toolstile_tools(strict, note, settings={"Strict": {"word": "Bye"}})
    assert_failed(tools.call("note", text="Bye"), status="denied", contains="Bye cannot be noted")
    assert_ok(tools.call("note", text="Hello"), contains="Bye")
    assert tools.settings_of(strict) == Greeting(word="Bye")
    assert tools.settings_of(object()) is None


@pytest.mark.parametrize("toolstile_driver", ["asynchronous"])
def test_an_unknown_driver_is_refused(request, toolstile_driver):
    with pytest.raises(pytest.UsageError, match="toolstile_driver is 'asynchronous'"):
        request.getfixturevalue("toolstile_tools")


@pytest.mark.parametrize("check", [assert_ok, assert_failed])
def test_what_is_no_outcome_is_told_from_one(toolstile_tools, check):
    tools = toolstile_tools(what_time)
    with pytest.raises(TypeError, match=r"A coroutine is not an outcome\. Await it first"):
        check(tools.acall("what_time"))
    with pytest.raises(TypeError, match=r"A list is not an outcome\. Give each"):
        check(tools.call_all(("what_time", {})))
    with pytest.raises(TypeError, match=r"A str is not an outcome\. Give the outcome of a call"):
        check("12:00")
