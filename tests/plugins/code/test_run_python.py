"""Scripts whose functions are governed calls, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.plugins.code.suite import (
    OUTSIDE,
    Note,
    note,
    note_and_fail,
    notes,
    offer,
    run,
    run_python_of,
    running,
    send,
)

from toolstile import Host
from toolstile.settings import Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Cancellation,
    ConfigurationError,
    ForeignTool,
    MarkdownSection,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolSelector,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.code import CodeConfig, CodeSection, code_tool
from toolstile_plugins.code.settings import Workers

PATIENCE = 30.0
WITH_CODE = Settings(plugins={"code": {}})


class NoKettles:
    @hookimpl
    def toolstile_check(self, tool, params):
        if tool.name == "offer" and params.item == "kettle":
            return PolicyDecision.deny("Kettles are not for sale.")
        return None


@pytest.fixture
def shop():
    with running(plugins=[NoKettles()]) as executor:
        yield executor


# --- The transaction --------------------------------------------------------------------------


def test_a_script_calls_tools_as_functions_and_returns_its_last_value(shop):
    outcome = run(
        shop,
        "total = sum(offer('mug')['price'] for _ in range(3))\n"
        "print('noted', note(text=f'total {total}'))\n"
        "{'total': total}",
    )
    assert outcome.result.value.value == {"total": 13.5}
    assert outcome.text == 'Printed:\nnoted 1\n\nValue: {"total": 13.5}'
    assert notes(shop) == ["total 13.5"]


def test_a_denied_call_leaves_nothing_of_the_script_and_the_model_reads_where(shop):
    outcome = run(
        shop, "note('half')\nprint('so far')\n\nfor item in ['mug', 'kettle']:\n  offer(item)"
    )
    assert outcome.text == (
        "The script stopped at line 5, in offer: Kettles are not for sale. Its changes are rolled "
        "back. Change the script, then retry.\nPrinted before:\nso far"
    )
    assert outcome.status is Status.FAILED
    assert notes(shop) == []


def test_a_failed_call_leaves_nothing_of_the_script(shop):
    outcome = run(shop, "note('half')\nnote_and_fail('x')")
    assert "at line 2, in note_and_fail: There is no ink for x." in outcome.text
    assert notes(shop) == []


def test_an_error_of_the_script_itself_leaves_nothing(shop):
    outcome = run(shop, "def half():\n  return 1 / (note('half') - 1)\nhalf()")
    assert outcome.text.startswith("The script stopped at line 2: ZeroDivisionError")
    assert notes(shop) == []


def test_a_failure_that_is_caught_undoes_its_own_call_alone(shop):
    outcome = run(
        shop,
        "note('before')\n"
        "try:\n  note_and_fail('x')\nexcept RuntimeError as error:\n  print(error)\n"
        "try:\n  offer('kettle')\nexcept PermissionError as error:\n  print(error)\n"
        "note('after')",
    )
    assert outcome.result.value.printed == (
        "There is no ink for x. Buy some, then retry.\nKettles are not for sale.\n"
    )
    assert notes(shop) == ["before", "after"]


def test_effects_outside_are_named_when_a_script_fails():
    with running([send, note_and_fail]) as executor:
        outcome = run(executor, "send('a')\nsend('b')\nnote_and_fail('x')")
        assert "rolled back, except the effects of send outside: check these." in outcome.text
        assert OUTSIDE[-2:] == ["a", "b"]


def test_each_nested_call_has_one_event_within_that_of_the_script(shop):
    run(shop, "offer('mug')\nnote('x')")
    *nested, whole = shop.session[ToolInvoked].all()
    assert [each.tool_name for each in nested] == ["offer", "note"]
    assert {each.parent_id for each in nested} == {whole.call_id}


def test_what_must_leave_the_call_leaves_the_script_which_cannot_catch_it(shop):
    with pytest.raises(VisibilityExpansionRequired):
        run(shop, "note('x')\ntry:\n  look_closer()\nexcept BaseException:\n  pass\n1")
    assert notes(shop) == []
    assert run(shop, "1").success


def test_a_script_runs_within_an_event_loop_with_async_tools():
    @tool(category="write", contained=True)
    async def anote(text: str, *, context: ToolContext) -> str:
        """Write a note down."""
        await asyncio.sleep(0)
        context.session[Note].append(Note(text))
        return text

    async def go(executor) -> Any:
        return await executor.adispatch(
            ToolCall("run_python", {"code": "anote('x') + note_and_()"})
        )

    @tool(category="read")
    def note_and_() -> str:
        """Return a letter."""
        return "y"

    with running([anote, note_and_]) as executor:
        assert asyncio.run(go(executor)).result.value.value == "xy"
        assert notes(executor) == ["x"]


class AskingForScripts:
    @hookimpl
    def toolstile_check(self, tool):
        return PolicyDecision.ask("It is a script.") if tool.name == "run_python" else None


def test_a_person_approves_what_a_script_has_changed_where_all_its_tools_are_contained():
    def asked(request):
        shown.append(request.diff)
        return False

    shown: list[str] = []
    settings = Settings(approve_diff=True)
    with running(
        [note], plugins=[AskingForScripts()], approver=asked, settings=settings
    ) as executor:
        assert run(executor, "note('x')\nnote('y')").status is Status.DENIED
        assert notes(executor) == []
    assert "Note(text='x')" in shown[0]
    assert "Note(text='y')" in shown[0]
    with running([note, send]) as executor:
        assert not run_python_of(executor).contained


# --- People -----------------------------------------------------------------------------------


def test_a_nested_question_waits_for_a_person_whose_time_counts_for_nothing():
    asked, answered = threading.Event(), threading.Event()

    def approver(request):
        asked.set()
        assert request.tool.name == "sign"
        assert answered.wait(PATIENCE)
        return True

    config = CodeConfig(timeout=0.6, compute_seconds=0.3)
    with running(approver=approver, config=config) as executor:
        script = threading.Thread(
            target=lambda: found.append(run(executor, "note('a')\nsign('b')"))
        )
        found: list[Any] = []
        script.start()
        assert asked.wait(PATIENCE)
        time.sleep(0.8)  # longer than its limits
        answered.set()
        script.join(PATIENCE)
        assert found[0].result.value.value == "signed b"
        assert notes(executor) == ["a", "signed b"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (False, "A person did not approve sign"),
        (ApprovalAnswer.pending(), "a call within another cannot wait for it"),
        (ApprovalAnswer.unanswered("Nobody is there."), "sign needs a person's approval"),
    ],
    ids=["denied", "pending", "unanswered"],
)
def test_without_a_yes_the_script_ends_where_it_asked(answer, told):
    with running(approver=lambda request: answer) as executor:
        outcome = run(executor, "note('a')\nsign('b')\nnote('c')")
        assert outcome.text.startswith("The script stopped at line 2, in sign: ")
        assert told in outcome.text
        assert notes(executor) == []


# --- The functions ----------------------------------------------------------------------------


def test_the_description_shows_the_signatures():
    with running([note, offer]) as executor:
        assert run_python_of(executor).long_description.endswith(
            "```python\n"
            "def note(text: str) -> int: ...\n"
            "class Offer(TypedDict):\n    item: str\n    price: float\n"
            "def offer(item: str, currency: str = ...) -> Offer: ...\n```"
        )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("offer(3)", "line 1:7: error[invalid-argument-type]"),
        ("offer('mug')['cost']", 'Unknown key "cost" for TypedDict `Offer`'),
        ("offer('mug'", "error[invalid-syntax]"),
        ("delete_all()", "`delete_all` used when not defined"),
    ],
)
def test_a_script_that_does_not_fit_its_functions_does_not_run(shop, code, told):
    outcome = run(shop, f"{code}\nnote('x')")
    assert outcome.text.startswith("The script did not run, as it does not fit its functions:\n")
    assert told in outcome.text
    assert len(shop.session[ToolInvoked].all()) == 1


def test_arguments_are_refused_by_the_tool_where_types_are_not_checked():
    with running(config=CodeConfig(type_check=False)) as executor:
        assert "Invalid arguments for offer" in run(executor, "offer(item=3)").text
        assert "offer() takes 2 arguments, and 3 are given" in run(executor, "offer(1, 2, 3)").text
        assert "offer() is given item twice" in run(executor, "offer('a', item='b')").text
        assert "is not defined" in run(executor, "delete_all()").text


def test_code_is_offered_the_tools_that_are_selected():
    config = CodeConfig(functions=ToolSelector(category={"read"}))
    with running(config=config) as executor:
        offered = run_python_of(executor)
        assert offered.depends_on == ("offer", "look_closer")
        assert (offered.category, offered.contained) == ("read", True)
        assert "`note` used when not defined" in run(executor, "note('x')").text


def test_a_script_cannot_call_itself(shop):
    assert "`run_python` used when not defined" in run(shop, "run_python('1')").text


CORRECTED = {"timeout": 7.0, "requires_confirmation": True}


def test_tools_keep_what_the_configuration_corrects():
    settings = Settings(plugins={"code": {}}, tools={"run_python": CORRECTED})
    with Host(tools=[offer], settings=settings) as host, host.executor() as executor:
        tool_ = run_python_of(executor)
        assert (tool_.timeout, tool_.requires_confirmation) == (7.0, True)
        assert "def offer(item: str" in tool_.long_description


def test_a_prompt_that_is_offered_twice_describes_its_functions_once():
    prompt = Prompt.of("a", "b", [MarkdownSection(key="c", title="C", tools=[note, code_tool()])])
    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt) as first,
        host.executor(prompt=first.prompt) as second,
    ):
        described = run_python_of(second).long_description
    assert described is not None
    assert described.count("def note") == 1


def test_names_that_python_does_not_have_are_made_names():
    @tool(name="look-up", category="read")
    def look_up(options: dict[str, Any]) -> dict[str, Any]:
        """Return the options."""
        return options

    @tool(name="class", category="read")
    def of_class() -> str:
        """Return a word."""
        return "x"

    @tool(name="list", category="read")
    def of_list() -> str:
        """Return a word."""
        return "y"

    with running([look_up, of_class, of_list]) as executor:
        outcome = run(executor, "look_up({'from': 1}), tool_class(), tool_list(), list('z')")
        assert outcome.result.value.value == [{"from": 1}, "x", "y", ["z"]]


def test_tools_that_only_a_caller_can_run_are_no_functions():
    foreign = ForeignTool("SendMail", "Send a mail.", {"type": "object"})
    with running([offer, foreign]) as executor:
        assert run_python_of(executor).depends_on == ("offer",)


def test_a_script_may_call_its_functions_where_dependencies_are_strict():
    with running(settings=Settings(strict_depends=True)) as executor:
        assert run(executor, "note('x')").success


def test_secrets_of_a_result_are_masked_for_a_script():
    @tool(category="read")
    def log_in() -> dict[str, SecretStr]:
        """Log in."""
        return {"token": SecretStr("tok-12345678")}

    with running([log_in]) as executor:
        assert "tok-12345678" not in run(executor, "print(log_in())\nlog_in()").text


@pytest.mark.parametrize("value", ["10**5000", "float('nan')", "{1: {2: (3, {4})}}"])
def test_arguments_that_do_not_fit_are_an_error_of_the_script(value):
    with running(config=CodeConfig(type_check=False)) as executor:
        outcome = run(executor, f"try:\n  note({value})\nexcept Exception as error:\n  'told'")
        assert outcome.success, outcome.text
        assert notes(executor) == []


def test_scripts_of_a_batch_are_isolated_and_keep_their_order():
    codes = ["note('a')\nnote('b')", "note('c')\n1 / 0", "note('d')"]
    with running([note]) as executor:
        calls = [ToolCall("run_python", {"code": code}) for code in codes]
        done = executor.dispatch_all(calls)
        assert [getattr(outcome, "success", None) for outcome in done] == [True, False, True]
        assert notes(executor) == ["a", "b", "d"]


# --- Limits -----------------------------------------------------------------------------------

LIMITED = CodeConfig(
    compute_seconds=0.3, memory=20_000_000, max_calls=5, max_output=50, type_check=False
)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("while True: pass", "TimeoutError"),
        ("while True:\n  try:\n    while True: pass\n  except BaseException: pass", "TimeoutError"),
        ("'a' * 10**9", "MemoryError"),
        ("9**9**9", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("for _ in range(9): offer('mug')", "suspension limit 5 exceeded"),
        ("10**5000", "Exceeds the limit (4300 digits)"),
    ],
)
def test_limits_end_a_script_and_say_which(code, told):
    with running(config=LIMITED) as executor:
        outcome = run(executor, f"note('x')\n{code}")
        assert not outcome.success
        assert told in outcome.text
        assert notes(executor) == []


def test_long_output_is_cut_where_it_is_told():
    config = CodeConfig(max_output=200, type_check=False)
    with running(config=config) as executor:
        value = run(executor, "print('a' * 999)\nprint('b')\n'c' * 999").result.value
        assert value.printed == "a" * 200 + "... (cut; print or return less)"
        assert value.value.startswith("ccc")
        assert "\n[cut here: of 999 characters, 200 may be shown." in value.value
        assert len(value.value) == 200


def test_a_long_value_that_is_no_text_fails_with_its_size():
    with running([note], config=LIMITED) as executor:
        outcome = run(executor, "note('x')\n['c' * 99]")
        assert outcome.text == (
            "The value of the script takes 103 characters as JSON, and 50 are the most. Return "
            "less. Its changes are rolled back. Change the script, then retry."
        )
        assert notes(executor) == []


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("float('nan')", "NaN"),
        ("{'most': float('inf')}", {"most": "Infinity"}),
        ("{1: {2}}", {"1": [2]}),
    ],
)
def test_values_that_json_does_not_have_are_written_as_it_can(shop, code, value):
    assert run(shop, code).result.value.value == value


def test_sleeping_takes_no_time_and_the_clock_is_the_hosts(shop):
    began = time.monotonic()
    code = "import time, datetime\ntime.sleep(3600)\nstr(datetime.datetime.now())[:4]"
    assert run(shop, code).result.value.value == str(time.gmtime().tm_year)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("way", ["timeout", "cancelled"])
def test_a_script_that_is_given_up_is_killed_at_once(way):
    config = CodeConfig(timeout=0.3 if way == "timeout" else None, compute_seconds=PATIENCE)
    with running(config=config) as executor:
        cancellation = Cancellation()
        if way == "cancelled":
            threading.Timer(0.3, cancellation.cancel).start()
        began = time.monotonic()
        outcome = run(executor, "while True: pass", cancellation=cancellation)
        assert time.monotonic() - began < PATIENCE
        assert outcome.status is (Status.TIMED_OUT if way == "timeout" else Status.CANCELLED)
        # On a busy machine a script may need longer than its time to begin.
        while not run(executor, "1").success:
            assert time.monotonic() - began < PATIENCE


def test_a_call_waits_for_a_worker_and_says_so_when_none_comes(monkeypatch):
    monkeypatch.setattr("toolstile_plugins.code.settings.FREE_WITHIN", 0.1)
    inside, go_on = threading.Event(), threading.Event()

    @tool(category="read", timeout=None)
    def hold() -> None:
        """Hold the worker."""
        inside.set()
        assert go_on.wait(PATIENCE)

    with running([hold], config=CodeConfig(workers=1)) as executor:
        holding = threading.Thread(target=run, args=(executor, "hold()"))
        holding.start()
        assert inside.wait(PATIENCE)
        outcome = run(executor, "1")
        go_on.set()
        holding.join(PATIENCE)
        assert outcome.text == "All 1 workers for scripts are busy. Wait a while, then retry."


# --- Processes --------------------------------------------------------------------------------

HOLDS = """
import sys, time
from toolstile import Host
from toolstile.settings import Settings
from toolstile_hookspecs import ToolCall, tool

@tool(category="read", timeout=None)
def tell() -> None:
    "Tell of the workers."
    import subprocess, os
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
                           capture_output=True, text=True).stdout
    print(*[line.split()[0] for line in found.splitlines() if "monty" in line], flush=True)

with Host(tools=[tell], settings=Settings(plugins={"code": {"compute_seconds": 2.0}})) as host:
    with host.executor() as executor:
        executor.dispatch(ToolCall("run_python", {"code": "tell()\\nwhile True: pass"}))
"""


def is_there(number: int) -> bool:
    stat = Path(f"/proc/{number}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_gone(*numbers: int) -> None:
    until = time.monotonic() + PATIENCE
    while any(map(is_there, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_there, numbers))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="/proc")
def test_workers_end_with_a_host_that_is_killed(tmp_path):
    program = tmp_path / "holds.py"
    program.write_text(HOLDS)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        workers = [int(word) for word in child.stdout.readline().split()]
        assert workers
        os.kill(child.pid, signal.SIGKILL)
    assert_gone(*workers)


def test_no_process_is_left_when_the_host_closes():
    with Host(settings=WITH_CODE) as host, host.executor() as executor:
        run(executor, "1")
        workers = executor.resources.get(Workers)
        with workers.session(ToolContext(session=executor.session)) as session:
            worker = session.worker_pid
        assert worker is not None
        assert is_there(worker) or not Path("/proc").is_dir()
    assert_gone(worker)


def test_without_its_library_a_host_with_scripts_does_not_open(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    remedy = rf"run_python needs pydantic-monty, .* {re.escape(extra_remedy('workspace'))}"
    with pytest.raises(ConfigurationError, match=remedy):
        CodeSection()
    with pytest.raises(Exception, match=remedy), Host(settings=WITH_CODE):
        pass
    with Host() as host:
        assert "run_python" not in host.catalog.names()
