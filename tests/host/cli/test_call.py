"""`toolstile call` makes one call and prints what a model would read."""

import io
import json
import os
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

from toolstile import tool
from toolstile_cli.call_reader import typed_by


def test_the_text_goes_to_stdout(toolstile):
    assert toolstile("call", "add", '{"a": 1, "b": 2}') == (0, "3\n", "")


def test_arguments_may_be_left_out(toolstile):
    status, out, err = toolstile("call", "fail")
    assert (status, out) == (1, "")
    assert err == "toolstile: failed: It did not work. Try another way, then retry.\n"


def test_arguments_come_from_standard_input(process):
    started = process("call", "add", "-", stdin=-1)
    assert started.communicate('{"a": 1, "b": 2}', timeout=60) == ("3\n", "")
    assert started.returncode == 0


def test_arguments_are_words_beside_json(toolstile):
    assert toolstile("call", "add", "a=1", "b=2") == (0, "3\n", "")
    assert toolstile("call", "say", "text=5")[1] == "5\n"
    assert toolstile("call", "say", "text=a=b c")[1] == "a=b c\n"
    assert toolstile("call", "add", "a=1", "--dry-run", "b=2", "--json")[0] == 0


def test_an_argument_is_given_once(toolstile):
    assert toolstile("call", "add", "a=1", "a=2") == (
        2,
        "",
        "toolstile: error: the argument 'a' is given twice; give it once.\n",
    )


def test_an_unknown_tool_is_told_as_with_json(toolstile):
    assert toolstile("call", "ad", "a=1") == toolstile("call", "ad", '{"a": 1}')


class Colour(Enum):
    RED = "red"
    ONE = "1"


@dataclass
class Point:
    x: int
    y: int


def drawn(  # noqa: PLR0917 - a tool of all types
    name: str,
    count: int,
    ratio: float,
    flag: bool,
    numbers: list[int],
    at: Point,
    either: int | str,
    maybe: str | None,
    colour: Colour,
    size: Literal[1, 2],
    rest: Any,
) -> None:
    """Draw."""


VALUES = {
    "name": [("5", "5"), ("true", "true"), ("null", "null"), ("", ""), ('"a"', '"a"')],
    "count": [("5", 5), ("5.0", 5.0), ("five", "five")],
    "ratio": [("5", 5), ("0.5", 0.5)],
    "flag": [("true", True), ("yes", "yes")],
    "numbers": [("[1, 2]", [1, 2]), ("1", "1")],
    "at": [('{"x": 1, "y": 2}', {"x": 1, "y": 2})],
    "either": [("5", 5), ("a", "a")],
    "maybe": [("null", None), ("5", "5")],
    "colour": [("red", "red"), ("1", "1")],
    "size": [("1", 1)],
    "rest": [("5", 5), ("[1", "[1"), ("a", "a"), ("NaN", "NaN")],
    "unknown": [("5", 5), ("a", "a")],
}


def test_each_value_is_read_by_the_schema_of_the_tool():
    schema = tool(drawn).params_codec.schema()
    for name, cases in VALUES.items():
        for text, value in cases:
            found = typed_by(schema, {name: text})[name]
            assert (found, type(found)) == (value, type(value)), (name, text)


def test_json_is_the_envelope(toolstile):
    status, out, err = toolstile("call", "add", '{"a": 1, "b": 2}', "--json")
    (line,) = out.splitlines()
    envelope = json.loads(line)
    assert (status, err) == (0, "")
    assert list(envelope) == ["status", "tool", "fetchedAt", "data"]
    assert envelope["data"] == 3


def test_json_of_a_failure_is_on_stdout_too(toolstile):
    status, out, err = toolstile("call", "nope", "--json")
    assert (status, err) == (1, "")
    assert list(json.loads(out)) == ["status", "tool", "fetchedAt", "error"]


def test_all_faults_of_the_arguments_are_told(toolstile):
    status, _, err = toolstile("call", "add", '{"a": "1", "c": 2}')
    assert status == 1
    assert all(f"- {name}: " in err for name in "abc")


def test_arguments_that_are_not_json_are_status_2(toolstile):
    status, _, err = toolstile("call", "add", "{a: 1}")
    assert status == 2
    assert err.startswith("toolstile: error: the arguments cannot be read: not JSON (expecting")
    assert "Quote them for the shell: '{" in err


def test_piped_arguments_that_are_not_json_are_told_what_they_should_be(toolstile, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    status, _, err = toolstile("call", "add", "-")
    assert status == 2
    assert err.endswith('(expecting value at column 1). Give a JSON object: {"a": 1}.\n')


def test_what_leaves_dispatch_is_told(toolstile):
    status, out, err = toolstile("call", "pause")
    assert (status, out) == (1, "")
    assert "a person is needed" in err


def test_an_exception_is_told_without_a_traceback(toolstile):
    status, out, err = toolstile("call", "fail_after_note", '{"text": "x"}')
    assert (status, out) == (1, "")
    assert "broken" in err
    assert "Traceback" not in err


def test_tracebacks_come_with_vv(toolstile):
    _, _, err = toolstile("call", "fail_after_note", '{"text": "x"}', "-vv")
    assert "Traceback" in err


def test_terminal_escapes_do_not_pass(toolstile):
    _, out, _ = toolstile("call", "say", r'{"text": "[31m\u001b[31m"}')
    assert out == r"[31m\x1b[31m" + "\n"


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text there")
def test_an_argument_that_is_not_utf_8_is_refused(process):
    called = process("call", "say", os.fsdecode(b'{"text": "\xff"}'))
    _, err = called.communicate(timeout=30)
    assert called.returncode == 1
    assert "lone surrogate" in err


def test_the_timeout_can_be_given(toolstile, folder):
    arguments = json.dumps({"seconds": 5, "flag": str(folder / "flag")})
    path = folder / "slow.py"
    path.write_text((folder / "desk.py").read_text().replace("@tool(timeout=600)", "@tool"))
    status, _, err = toolstile(
        "call", "sleep_on_worker", arguments, "--plugin", path, "--timeout", "0.1", plugin=False
    )
    assert status == 1
    assert err.startswith("toolstile: timed out: ")


CHATTY = '''
import logging

from toolstile_hookspecs import NOTICE, MarkdownSection, hookimpl, tool


@tool
def chat() -> str:
    """Talk while at it."""
    logging.getLogger("stranger.works").info("at work")
    logging.getLogger("stranger.works").warning("not well")
    logging.getLogger("stranger.works").debug("step 1")
    logging.getLogger("stranger.works").warning("2 lines no longer work", extra=NOTICE)
    return "done"


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="chat", title="Chat", tools=[chat])]
'''


NOTICED = "warning: 2 lines no longer work"


@pytest.mark.parametrize(
    ("options", "logged"),
    [
        ([], [NOTICED]),
        (["-v"], ["info: at work", "warning: not well", NOTICED]),
        (["-vv"], ["info: at work", "warning: not well", "debug: step 1", NOTICED]),
    ],
)
def test_what_plugins_log_is_shown_as_the_host_s_own(toolstile, folder, options, logged):
    (folder / "chatty.py").write_text(CHATTY, encoding="utf-8")
    status, out, err = toolstile("--plugin", "chatty.py", "call", "chat", *options, plugin=False)
    assert (status, out) == (0, "done\n")
    lines = err.splitlines()
    assert [each for each in lines if "work" in each or "well" in each or "step" in each] == [
        f"toolstile: {each}" for each in logged
    ]


FAILING = """
from toolstile_hookspecs import hookimpl


class Trace:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        raise OSError("no collector")


@hookimpl
def toolstile_trace():
    return Trace()


@hookimpl
def toolstile_telemetry(event):
    1 / 0
"""


@pytest.mark.parametrize(("option", "times"), [([], 1), (["-v"], 3)])
def test_an_observer_that_fails_is_told_once_for_each_hook(toolstile, folder, calls, option, times):
    (folder / "failing.py").write_text(FAILING)
    three = calls(*[("add", {"a": 1, "b": 2})] * 3)
    status, _, err = toolstile("run", three, "--plugin=failing.py", *option)
    assert status == 0
    told = "toolstile: error: Plugin failing failed"
    counted = f"{told} in toolstile_telemetry; the call is not affected. ZeroDivisionError: div"
    traced = f"{told} to end its trace of a call. OSError: no collector\n"
    assert (err.count(counted), err.count(traced)) == (times, times)


VETOING = """
from toolstile_hookspecs import hookimpl


@hookimpl
def toolstile_on_result():
    1 / 0
"""


def test_a_cause_that_the_message_tells_is_not_told_twice(toolstile, folder):
    (folder / "vetoing.py").write_text(VETOING)
    _, _, err = toolstile("call", "add", '{"a": 1, "b": 2}', "--plugin=vetoing.py", "-v")
    assert (
        "error: Internal error in add: division by zero. Plugin vetoing raised it in on_result.\n"
    ) in err
    assert "ZeroDivisionError" not in err


UNSURE = """
from toolstile_hookspecs import hookimpl


@hookimpl
def toolstile_check():
    try:
        open("rules.txt")
    except OSError as error:
        raise ValueError("the rules\\nare gone") from error
"""


@pytest.mark.parametrize(
    ("option", "cause"),
    [
        ([], " ValueError: the rules are gone\n"),
        (["-v"], " ValueError: the rules are gone\n"),
        (["-vv"], "\nTraceback (most recent call last):\n  File "),
    ],
)
def test_why_a_policy_could_not_decide_is_told(toolstile, folder, option, cause):
    (folder / "unsure.py").write_text(UNSURE)
    status, out, err = toolstile("call", "add", '{"a": 1, "b": 2}', "--plugin=unsure.py", *option)
    assert (status, out) == (1, "")
    told = "toolstile: error: Policy plugin unsure failed to check; the call is denied."
    assert f"{told}{cause}" in err
    assert "toolstile: denied: The policy plugin unsure could not decide" in err
