"""`toolstile policy` tries the policies of a configuration, without any effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolstile_cli.main import main

CONFIG = """
[plugins.vfs]
[[policies]]
kind = "category"
name = "no writes"
category = {write = "deny"}
"""
WITH_FILES = ["--config", "open.toml"]
CASES = """
[[cases]]
name = "Nobody writes"
calls = [{tool = "write_file", arguments = {path = "a.txt", content = "x"}, expect = "deny"}]

[[cases]]
name = "Anybody lists"
calls = [{tool = "list_directory", expect = "%s"}]
"""
CALLS = [
    {"name": "list_directory", "arguments": {}},
    {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    calls = "".join(f"{json.dumps(call)}\n" for call in CALLS)
    (tmp_path / "open.toml").write_text("[plugins.vfs]\n", encoding="utf-8")
    (tmp_path / "calls.jsonl").write_text(calls, encoding="utf-8")
    return tmp_path


def configured(folder: Path) -> list[str]:
    (folder / "tight.toml").write_text(CONFIG, encoding="utf-8")
    return ["--config", "tight.toml"]


def test_cases_that_hold_and_cases_that_fail(folder: Path, capsys: pytest.CaptureFixture[str]):
    for expected, status, told in (("allow", 0, "2 cases, 0 failed"), ("ask", 1, "1 failed")):
        (folder / "cases.toml").write_text(CASES % expected, encoding="utf-8")
        assert main(["policy", "test", "cases.toml", *configured(folder)]) == status
        out = capsys.readouterr().out
        assert "holds  Nobody writes" in out
        assert told in out
    assert main(["policy", "test", "cases.toml", "--json", *configured(folder)]) == 1
    _, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert last["case"] == "Anybody lists"
    assert not last["holds"]
    assert last["faults"] == ["call 1, list_directory: expected ask, got allow"]


@pytest.mark.slow
def test_a_changed_configuration_is_tried_against_a_record(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", "calls.jsonl", "--record", "records.jsonl", *WITH_FILES]) == 0
    written = (folder / "records.jsonl").read_bytes()
    capsys.readouterr()
    assert main(["policy", "backtest", "records.jsonl", *WITH_FILES]) == 0
    assert "2 calls: 0 decided otherwise" in capsys.readouterr().out

    assert main(["policy", "backtest", "records.jsonl", *configured(folder)]) == 1
    shown = capsys.readouterr().out
    assert "no writes" in shown
    assert "2 calls: 1 decided otherwise" in shown
    assert main(["policy", "backtest", ".", "--json", *configured(folder)]) != 0
    assert main(["policy", "backtest", "records.jsonl", "--json", *configured(folder)]) == 1
    [change] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (change["tool"], change["was"], change["now"]) == ("write_file", "allow", "deny")
    assert (folder / "records.jsonl").read_bytes() == written


RULES = """
[plugins.vfs]
[[policies]]
kind = "rule"
name = "secrets"
tools = ["write_file"]
when = "path(args.path) == 'secret.txt'"
effect = "deny"
[[policies]]
kind = "rule"
name = "etc"
tools = ["write_file", "read_file"]
when = "path(args.path).startsWith('%s')"
effect = "deny"
"""


def test_a_rule_that_denies_more_than_it_did_is_found_by_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    (folder / "wide.toml").write_text(RULES % "a", encoding="utf-8")
    (folder / "right.toml").write_text(RULES % "etc/", encoding="utf-8")
    assert main(["run", "calls.jsonl", "--record", "records.jsonl", "--config", "right.toml"]) == 0
    capsys.readouterr()
    command = ["policy", "backtest", "records.jsonl", "--json", "--config"]
    assert main([*command, "right.toml"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*command, "wide.toml"]) == 1
    [change] = map(json.loads, capsys.readouterr().out.splitlines())
    found = {key: change[key] for key in ("policy", "tool", "was", "now", "calls")}
    assert found == {
        "policy": "etc",
        "tool": "write_file",
        "was": "allow",
        "now": "deny",
        "calls": 1,
    }
    saved = folder / "made" / "records.jsonl.backtest.json"
    assert main([*command, "wide.toml", "--save", str(saved)]) == 1
    result = json.loads(saved.read_text(encoding="utf-8"))
    assert (result["format"], result["calls"], result["changes"]) == (
        ("toolstile.backtest", 2, [change])
    )
    assert main([*command, "wide.toml", "--save", str(folder)]) == 2
    assert "cannot be saved" in capsys.readouterr().err
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_what_cannot_be_read_is_told(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["policy", "test", "none.toml"]) == 2
    assert "none.toml cannot be read" in capsys.readouterr().err
    assert main(["policy", "backtest", "calls.jsonl"]) == 2
    assert "is not a record" in capsys.readouterr().err


def test_groups_of_nobody_are_told(folder: Path, capsys: pytest.CaptureFixture[str]):
    given = ["policy", "explain", "list_directory", "--group", "staff"]
    assert main([*given, *configured(folder)]) == 2
    assert "--group needs --user: give --user ID, too." in capsys.readouterr().err
