"""The progress of long commands: on a terminal at standard error, and nowhere else."""

import io
import json
import sys
import time

import pytest
from tests.plugins.pseudo_terminal import ESCAPES, at_stderr

from toolstile_cli.main import main
from toolstile_plugins.cli_support import unseen
from toolstile_plugins.screen import progress

ERASED = "\r\x1b[1A\x1b[2K"


def test_a_line_says_how_much_is_done_and_how_long_the_rest_takes_and_is_erased(monkeypatch):
    with at_stderr(monkeypatch) as written:
        with progress("Replay") as note:
            for done in (1, 6_000, 9_000, 12_500):
                note(done, 50_000)
                time.sleep(0.3)
        came = ESCAPES.sub("", whole := written())
    assert "Replay" in came
    assert " 25% 0:00:0" in came
    assert whole.endswith(ERASED)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_nothing(monkeypatch, variables):
    with at_stderr(monkeypatch) as written:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with progress("Replay") as note:
            note(1, 2)
        assert written() == ""
        assert note is unseen


def test_elsewhere_nothing_is_drawn_even_if_colours_are_forced(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress("Replay") as note:
        assert note is unseen
    assert sys.stderr.getvalue() == ""


def test_the_line_is_erased_before_an_error_is_shown(monkeypatch):
    with at_stderr(monkeypatch) as written:
        with pytest.raises(ValueError, match="broken"), progress("Replay"):
            raise ValueError("broken")
        assert written().endswith(ERASED)


@pytest.mark.slow
def test_long_commands_show_their_progress(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    calls = [json.dumps({"name": "list_orders", "arguments": {}})] * 7
    (tmp_path / "calls").write_text("\n".join(calls), encoding="utf-8")
    assert main(["run", "--example", "--record", "r.jsonl", "calls"]) == 0
    for command in (
        ["record", "verify", "r.jsonl"],
        ["policy", "backtest", "--example", "r.jsonl"],
        ["replay", "--example", "r.jsonl"],
    ):
        capsys.readouterr()
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert "7 calls" in out
        assert err == ""
        with at_stderr(monkeypatch) as written:
            assert main(command) == 0
            came = written()
        assert "100%" in came
        assert came.endswith(ERASED)
        assert capsys.readouterr().out == out
