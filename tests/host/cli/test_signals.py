"""Ctrl-C, SIGTERM and SIGHUP end the process: cleanly, and at once where a handler never ends."""

import json
import os
import pty
import signal
import time

import pytest

pytestmark = pytest.mark.slow

GRACE = 2.0
MARGIN = 6.0
# Whether the process waits shows beyond doubt where it would wait long: a machine may stop a while.
LONG_GRACE = 60.0
INSTANTLY = 30.0

LOUD = """
import logging
import time
from toolstile_hookspecs import MarkdownSection, hookimpl, tool

@tool
def warn() -> str:
    '''Log something while the run shows that it is running.'''
    time.sleep(0.3)
    logging.getLogger("toolstile.policies").warning("Something is odd.")
    return "logged"

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="loud", title="Loud", tools=[warn])]
"""


def wait_for(flag):
    deadline = time.monotonic() + 60
    while not flag.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def interrupt(process, calls, folder):
    """Interrupts a run while its second call runs; gives status, output and seconds it took."""

    def interrupted(tool, *options, signals=(signal.SIGINT,), grace=LONG_GRACE, **arguments):
        flag = folder / "flag"
        path = calls(
            ("say", {"text": "first"}),
            (tool, {**arguments, "flag": str(flag)}),
            ("say", {"text": "third"}),
        )
        started = process("run", path, *options, env={**os.environ, "GRACE": str(grace)})
        deadline = time.monotonic() + 60
        while not flag.exists():
            assert time.monotonic() < deadline, started.communicate(timeout=1)
            assert started.poll() is None, started.communicate()
            time.sleep(0.02)
        time.sleep(0.1)
        began = time.monotonic()
        for each in signals:
            started.send_signal(each)
            time.sleep(0.2)
        out, err = started.communicate(timeout=120)
        return started.returncode, out, err, time.monotonic() - began - 0.2 * len(signals)

    return interrupted


@pytest.mark.parametrize("tool", ["sleep", "sleep_on_worker", "wait"])
def test_ctrl_c_ends_the_run_at_once_and_sums_it_up(interrupt, tool):
    status, out, err, seconds = interrupt(tool, seconds=60)
    assert status == 130
    assert "interrupted" in out
    assert "1 of 3 calls" in out
    assert "1 succeeded" in out
    assert "third" not in out
    assert err == ""
    assert seconds < INSTANTLY


def test_sigterm_is_status_143(interrupt):
    status, out, err, seconds = interrupt("sleep_on_worker", seconds=60, signals=[signal.SIGTERM])
    assert (status, err) == (143, "")
    assert "1 of 3 calls" in out
    assert seconds < INSTANTLY


def test_a_closed_terminal_is_status_129(interrupt):
    status, out, err, seconds = interrupt("sleep_on_worker", seconds=60, signals=[signal.SIGHUP])
    assert (status, err) == (129, "")
    assert "1 of 3 calls" in out
    assert seconds < INSTANTLY


def test_a_sighup_that_nohup_has_ignored_ends_nothing(process, calls, folder):
    flag = folder / "flag"
    started = process(
        "run",
        calls(("sleep", {"seconds": 1, "flag": str(flag)})),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_for(flag)
    started.send_signal(signal.SIGHUP)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, "")
    assert "1 succeeded" in out


def test_ctrl_c_in_a_parallel_run_ends_at_once(interrupt):
    status, _, err, seconds = interrupt("sleep_on_worker", "--parallel", seconds=60)
    assert (status, err) == (130, "")
    assert seconds < INSTANTLY


def test_with_json_stdout_stays_json(interrupt):
    status, out, err, _ = interrupt("sleep", "--json", seconds=60)
    assert status == 130
    assert "interrupted: running calls are rolled back" in err
    assert [json.loads(line)["data"] for line in out.splitlines()] == ["first"]


def test_a_single_call_says_that_it_is_rolled_back(process, folder):
    flag = folder / "flag"
    started = process("call", "sleep", json.dumps({"seconds": 60, "flag": str(flag)}))
    wait_for(flag)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (130, "")
    assert err == "toolstile: interrupted: running calls are rolled back.\n"


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["never_end", "leave_a_thread"])
def test_a_handler_that_never_ends_is_ended_over(interrupt, tool):
    status, out, _, seconds = interrupt(tool, grace=GRACE)
    assert status == 130
    assert "1 of 3 calls" in out
    assert seconds < GRACE + MARGIN


def test_a_second_ctrl_c_does_not_wait(interrupt):
    status, out, _, seconds = interrupt("never_end", signals=[signal.SIGINT, signal.SIGINT])
    assert status == 130
    assert "1 of 3 calls" in out
    assert seconds < INSTANTLY


def test_the_reader_may_stop_reading(process, calls):
    path = calls(*[("say", {"text": "x" * 1000})] * 400)
    for options in ((), ("--json",)):
        started = process("run", path, *options)
        started.stdout.readline()
        started.stdout.close()
        started.stdout = None
        _, err = started.communicate(timeout=60)
        assert (started.returncode, err) == (141, "")


@pytest.fixture
def on_a_terminal(process):
    """Runs a command on a terminal, with both of its streams; gives what it wrote there."""

    def run(*arguments):
        ours, theirs = pty.openpty()
        started = process(
            *arguments,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        )
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
        started.wait(timeout=60)
        os.close(ours)
        return said.decode()

    return run


def test_a_terminal_gets_colours_and_its_cursor_back(on_a_terminal, calls):
    said = on_a_terminal("run", calls(("say", {"text": "hi"}), ("fail",)))
    assert "\x1b[32m✓ succeeded" in said
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")


def test_what_is_logged_stands_on_lines_of_its_own(on_a_terminal, calls, folder):
    """Not behind the sign that something is running, which is taken away for it."""
    loud = folder / "loud.py"
    loud.write_text(LOUD)
    said = on_a_terminal("run", "--plugin", loud, calls(("warn",)))
    assert "\x1b[2Ktoolstile: warning: Something is odd.\r\n" in said
