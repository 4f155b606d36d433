"""`toolstile stop` and `go`, and the stops in `status`."""

import json
import re
import subprocess
import sys
import time

import pytest

from toolstile_cli.exit_codes import Exit

HANGING = '''\
"""A tool whose commit hangs."""

import time
from pathlib import Path

from toolstile_hookspecs import hookimpl


class Hanging:
    def prepare(self):
        pass

    def commit(self):
        Path("deciding").touch()
        time.sleep(60)

    def rollback(self):
        pass


@hookimpl
def toolstile_snapshot():
    return Hanging()
'''


@pytest.fixture
def stops(toolstile, tmp_path, monkeypatch):
    """Run a command in a folder with a configuration."""
    (tmp_path / "toolstile.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return toolstile


@pytest.mark.parametrize("words", [["stop", "--reason", "Wrong prices."], ["go"]])
def test_without_a_configuration_nothing_is_stopped(stops, tmp_path, words):
    (tmp_path / "toolstile.toml").unlink()
    status, out, err = stops(*words)
    assert (status, out) == (Exit.USAGE, "")
    assert "There is no configuration here, so no host hears of it." in err
    assert "--config" in err


def test_a_stop_is_made_listed_and_ended(stops):
    listed = r"calls of tool a\*, by \S+ at [0-9-]{10} [0-9:]{5} UTC: Wrong prices\.\n"
    status, out, _ = stops("stop", "--tool", "a*", "--reason", "Wrong prices.")
    assert status == Exit.OK
    assert re.fullmatch(f"Stopped: {listed}", out)
    status, out, err = stops("call", "add", "a=1", "b=2")
    assert (status, out) == (Exit.FAILED, "")
    assert "add was stopped: Wrong prices. Nothing of it has run." in err
    assert stops("call", "say", "text=Hello")[0] == Exit.OK
    _, out, err = stops("status")
    assert re.match(f"Stopped: {listed}", out)
    assert err == ""
    assert re.fullmatch(f"Ended: {listed}", stops("go")[1])
    assert stops("status")[1].startswith("Nothing is stopped.\n")
    assert stops("call", "add", "a=1", "b=2")[:2] == (Exit.OK, "3\n")


def test_without_a_reason_it_says_who_stopped_the_calls(stops):
    status, out, _ = stops("stop")
    assert status == Exit.OK
    who, told = re.match(r"Stopped: all calls, by (\S+) at [^U]+UTC: (.+)\n", out).groups()
    assert told == f"{who} stopped these calls, and gave no reason."
    assert (
        f"add was stopped: {told} Nothing of it has run." in stops("call", "add", "a=1", "b=2")[2]
    )


def test_the_same_as_json(stops):
    words = ("--session", "desk", "--reason", "Circles.", "--for", "1h", "--json")
    (made,) = json.loads(stops("stop", *words)[1])["stops"]
    assert (made["reason"], made["kind"], made["name"]) == ("Circles.", "session", "desk")
    assert made["until"] > made["at"]
    assert json.loads(stops("status", "--json")[1])["stops"] == [made]
    assert json.loads(stops("go", "--json")[1]) == {"stops": [made]}
    assert json.loads(stops("go", "--json")[1]) == {"stops": []}


def test_a_name_that_no_tool_has_is_stopped_with_a_warning(stops):
    status, _, err = stops("stop", "--tool", "ad", "--reason", "x")
    assert status == Exit.OK
    assert err == (
        "toolstile: warning: the stop holds, but no tool has the name 'ad' now; did you mean "
        "'add'?\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reason", " "), "A stop has a reason, which models read, and at most one of"),
        (("--reason", "x", "--for", "soon"), "'soon' is not a time such as 90s, 10m, 1h or 2d"),
        (("--reason", "x", "--for", "0h"), "'0h' is not a time such as 90s, 10m, 1h or 2d"),
        (("--reason", "x", "--all", "--tool", "a"), "not allowed with argument"),
    ],
)
def test_wrong_words_stop_nothing(stops, words, said):
    status, _, err = stops("stop", *words)
    assert status == Exit.USAGE
    assert said in err
    assert stops("status")[1].startswith("Nothing is stopped.\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a stop reaches no other process there")
def test_a_process_that_hangs_within_a_decision_is_named(stops, tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "toolstile", "call", "list_orders", "--example"]
    with subprocess.Popen([*command, "--plugin", "hanging.py"], cwd=tmp_path) as hanging:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "deciding").exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            status, out, err = stops("stop", "--reason", "x")
        finally:
            hanging.kill()
    assert (status, out) == (Exit.FAILED, "")
    assert f"A decision of process {hanging.pid} has not ended, and may still be committed;" in err
    assert stops("stop", "--reason", "x")[0] == Exit.OK
    assert stops("status")[1].count("Stopped: all calls") == 2
