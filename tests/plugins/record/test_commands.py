"""Calls are recorded, looked at, verified and replayed on the command line."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest

from toolstile import Host, ToolCall
from toolstile_cli.main import main
from toolstile_hookspecs import Command, Status
from toolstile_plugins.record import RecordFile, verify
from toolstile_plugins.record.cli import OUTCOMES, commands
from toolstile_plugins.record.schema import FORMAT, VERSION
from toolstile_plugins.record.serialize import written

pytestmark = pytest.mark.slow

PLUGIN = '''\
"""Tools whose handlers leave a mark."""

from pathlib import Path

from pydantic import SecretStr

from toolstile_hookspecs import MarkdownSection, Tool, ToolResult, hookimpl, tool


@tool
def mark(text: str) -> str:
    """Leave a mark."""
    with Path("marks.txt").open("a") as marks:
        marks.write(text)
    return Path("marks.txt").read_text()


@tool
def log_in(password: SecretStr) -> str:
    """Sign in."""
    return "in"


@tool
def transfer(account: SecretStr, amount: str) -> str:
    """Leave a mark of money."""
    Path("marks.txt").write_text(amount)
    return "done"


@tool(requires_confirmation=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool
def badge() -> dict[str, SecretStr]:
    """Make a badge."""
    return ToolResult.ok({"key": SecretStr("hunter2")}, message="The key is hunter2.")


pin = Tool(
    name="pin",
    description="Tell a pin.",
    handler=lambda params, *, context: ToolResult.ok({"pin": "hunter2"}),
    params_schema={"type": "object"},
    result_schema={"type": "object", "properties": {"pin": {"writeOnly": True}}},
)


@hookimpl
def toolstile_sections():
    tools = [mark, log_in, transfer, pay, badge, pin]
    return [MarkdownSection(key="desk", title="Desk", tools=tools)]
'''

BEGIN = {"kind": "begin", "format": FORMAT, "version": VERSION}
AT = "2026-01-01T00:00:00+00:00"

FOLDED = '''\
"""A section that is shown as a summary."""

from toolstile_hookspecs import MarkdownSection, hookimpl


@hookimpl
def toolstile_sections():
    drawer = MarkdownSection(
        key="drawer", title="Drawer", template="Pens.", summary="Closed.", visibility="summary"
    )
    return [drawer]
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "desk.py").write_text(PLUGIN)
    (tmp_path / "toolstile.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def toolstile(folder, capsys):
    """Runs the command line in this process; gives its status, stdout and stderr."""

    def run(*arguments, plugin=True):
        status = main([*(["--plugin", "desk.py"] if plugin else []), *map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def example(toolstile):
    """A record of the example that comes with Toolstile, and the envelopes of the run."""
    _, out, _ = toolstile("run", "--example", "--record", "calls.jsonl", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    # The status of a line is that of its outcome; a record has it beside the envelope.
    return [{name: line[name] for name in line if name != "status"} for line in told]


def lines() -> list[bytes]:
    return Path("calls.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("how", [(), ("--strict",)])
def test_the_example_replays_to_the_same_envelopes(toolstile, example, how, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a handler ran")

    monkeypatch.setattr("toolstile.pipeline.execute.run_elsewhere", refuse)
    status, out, _ = toolstile("replay", "--example", *how, "calls.jsonl", "--json")
    replayed = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [{"id": each["id"], **each["now"]} for each in replayed] == example
    assert all(each["same"] for each in replayed)


def test_the_example_of_files_replays_to_the_same_envelopes(toolstile):
    toolstile("run", "--example", "workspace", "--record", "calls.jsonl")
    status, out, err = toolstile("replay", "--example", "workspace", "calls.jsonl")
    assert (status, err) == (0, "")
    assert out.endswith("the same\n")


def test_a_run_is_recorded_beside_its_own_output(toolstile, example):
    recorded = [json.loads(line) for line in lines()]
    calls = [each for each in recorded if each["kind"] == "call"]
    assert [{"id": each["id"], **each["envelope"]} for each in calls] == example


def test_single_calls_continue_one_record(toolstile):
    for text in "ab":
        toolstile("call", "--record", "calls.jsonl", "mark", f'{{"text": "{text}"}}')
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert (status, out.splitlines()[0]) == (
        0,
        " 6 lines, 2 calls: every line is as it was written",
    )


@pytest.mark.parametrize("answers", [("all", "none"), ("none", "all"), ("all", "none", "all")])
def test_several_runs_in_one_record_replay_to_the_same(toolstile, answers):
    Path("calls").write_text('{"id": "1", "name": "pay", "arguments": {}}')
    for answer in answers:
        toolstile("run", "--approve", answer, "--record", "calls.jsonl", "calls")
    status, out, _ = toolstile("replay", "calls.jsonl")
    assert (status, out) == (0, f" {len(answers)} calls replayed: {len(answers)} the same\n")


RULE = """\
from toolstile_hookspecs import PolicyDecision, hookimpl


@hookimpl
def toolstile_check(tool):
    return PolicyDecision.deny("Not here.") if tool.name == "mark" else None
"""


@pytest.mark.parametrize("kept", [True, False])
def test_that_nothing_denies_a_call_any_more_is_told(toolstile, kept):
    Path("rule.py").write_text(RULE)
    call = ("--record", "calls.jsonl", "mark", '{"text": "a"}')
    toolstile("call", "--plugin", "rule.py", *call)
    rules = ["--plugin", "rule.py"] if kept else []
    status, out, _ = toolstile("replay", *rules, "calls.jsonl")
    made = json.loads(lines()[1])["id"]
    told = f" line 2: mark ({made}) was denied then, and nothing denies it now\n"
    assert (status, out) == (0, f"{'' if kept else told} 1 call replayed: 1 the same\n")
    _, out, _ = toolstile("replay", *rules, "calls.jsonl", "--json")
    assert json.loads(out).get("passes", False) is not kept


def test_what_a_dry_run_denied_is_not_denied_to_the_run_after_it(toolstile):
    Path("calls").write_text('{"id": "1", "name": "pay", "arguments": {}}')
    for how in (("--dry-run",), ("--approve", "all")):
        toolstile("run", *how, "--record", "calls.jsonl", "calls")
    status, out, _ = toolstile("replay", "calls.jsonl")
    assert (status, out) == (0, " 2 calls replayed: 2 the same\n")


def test_faults_of_several_runs_in_one_record_are_each_their_own(toolstile):
    for arguments in ({"account": 1, "amount": "5"}, {"account": "1", "amount": 5}):
        call = {"id": "1", "name": "transfer", "arguments": arguments}
        Path("calls").write_text(json.dumps(call))
        toolstile("run", "--record", "calls.jsonl", "calls")
    status, out, _ = toolstile("replay", "calls.jsonl")
    assert (status, out) == (0, " 2 calls replayed: 2 the same\n")


def test_runs_at_the_same_time_have_records_of_their_own(toolstile, folder):
    Path("toolstile.toml").write_text('[plugins.record]\nfolder = "kept/records"\n')
    with Host(config="toolstile.toml") as host, host.executor() as tools:
        tools.dispatch(ToolCall("planning_read_plan"))
        status, _, err = toolstile("call", "mark", '{"text": "a"}')
    assert (status, err) == (0, "")
    records = [*Path("kept/records").iterdir()]
    assert [(verify(each).calls, verify(each).faults) for each in records] == [(1, ()), (1, ())]


def test_one_record_goes_before_a_folder_of_them(toolstile, folder):
    Path("toolstile.toml").write_text('[plugins.record]\nfolder = "records"\n')
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    assert Path("calls.jsonl").exists()
    assert not Path("records").exists()


def test_a_record_has_one_place(toolstile, folder):
    Path("toolstile.toml").write_text('[plugins.record]\nfolder = "a"\nfile = "b"\n')
    status, _, err = toolstile("call", "mark", '{"text": "a"}')
    assert status == 2
    assert "either a file for all runs, or a folder with one for each" in err


def test_a_folder_that_cannot_be_made_is_named(toolstile, folder):
    Path("toolstile.toml").write_text('[plugins.record]\nfolder = "desk.py/records"\n')
    status, _, err = toolstile("call", "mark", '{"text": "a"}')
    assert status == 2
    assert "desk.py/records for records cannot be made: Not a directory." in err


def test_other_calls_are_answered_from_a_record(toolstile, folder):
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    before = Path("marks.txt").read_text()
    status, out, _ = toolstile("call", "--replay", "calls.jsonl", "mark", '{"text": "a"}')
    assert (status, out) == (0, "a\n")
    status, _, err = toolstile("call", "--replay", "calls.jsonl", "mark", '{"text": "b"}')
    assert status == 1
    assert "No call of mark with these arguments is in the record" in err
    assert Path("marks.txt").read_text() == before


def test_the_setting_records_commands_that_make_calls_and_no_others(toolstile, folder):
    (folder / "toolstile.toml").write_text('[plugins.record]\nfile = "calls.jsonl"\n')
    for command in (("tools",), ("plugins",), ("prompt",), ("ledger", "list")):
        assert toolstile(*command)[0] == 0
    assert not Path("calls.jsonl").exists()
    toolstile("call", "mark", '{"text": "a"}')
    before = lines()
    assert len(before) == 3
    assert toolstile("replay", "calls.jsonl")[0] == 0
    assert toolstile("record", "show", "calls.jsonl")[0] == 0
    assert lines() == before


def test_the_ledger_is_looked_at_while_a_record_is_written(toolstile, folder):
    (folder / "toolstile.toml").write_text('[plugins.record]\nfile = "calls.jsonl"\n')
    with Host(config="toolstile.toml"):
        status, _, err = toolstile("ledger", "list")
    assert (status, err) == (0, "")


def test_executing_again_shows_what_is_different(toolstile):
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl")
    assert status == 1
    heading, *rest = out.splitlines()
    assert re.fullmatch(r" line 2: mark \([0-9a-f]{32}\) came out differently", heading)
    assert rest == [
        "   --- recorded",
        "   +++ now",
        "   @@ -1 +1 @@",
        "   -data: a",
        "   +data: aa",
        " 1 call executed: 0 the same, 1 different",
    ]
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl", "--json")
    [compared] = [json.loads(line) for line in out.splitlines()]
    assert (compared["same"], compared["recorded"]["data"]) == (False, "a")
    assert compared["now"]["data"] == "aaa"


def test_what_a_dry_run_denied_is_not_executed_again(toolstile, folder):
    toolstile("call", "--dry-run", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    assert toolstile("replay", "--execute", "calls.jsonl")[0] == 0
    assert toolstile("replay", "calls.jsonl")[0] == 0
    assert not Path("marks.txt").exists()


KEPT = """\
[[policies]]
kind = "quota"
name = "marks"
per_tool = { mark = 2 }
keep = "kept.json"
"""


@pytest.mark.parametrize("how", [(), ("--strict",), ("--execute",)])
def test_making_calls_again_uses_up_nothing_that_policies_keep(toolstile, how):
    Path("toolstile.toml").write_text(KEPT)
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    before = Path("kept.json").read_bytes()
    toolstile("replay", *how, "calls.jsonl")
    assert Path("kept.json").read_bytes() == before
    assert toolstile("call", "mark", '{"text": "b"}')[0] == 0


@pytest.mark.parametrize("configured", [False, True])
def test_answering_other_calls_uses_up_nothing_that_policies_keep(toolstile, configured):
    Path("toolstile.toml").write_text(KEPT)
    for _ in range(2):
        toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    before = Path("kept.json").read_bytes()
    how = [] if configured else ["--replay", "calls.jsonl"]
    if configured:
        settings = '[plugins.record]\nreplay = "calls.jsonl"\n'
        Path("toolstile.toml").write_text(KEPT + settings)
    assert toolstile("call", *how, "mark", '{"text": "a"}')[0] == 0
    assert Path("kept.json").read_bytes() == before
    assert Path("marks.txt").read_text() == "aa"


def test_a_limit_that_is_kept_comes_out_the_same_over_all_runs_of_a_record(toolstile):
    Path("toolstile.toml").write_text(KEPT)
    for _ in range(3):
        toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    status, out, _ = toolstile("replay", "calls.jsonl")
    assert (status, out) == (0, " 3 calls replayed: 3 the same\n")


def test_a_limit_that_is_used_up_holds_for_what_is_executed_again(toolstile):
    Path("toolstile.toml").write_text(KEPT)
    for _ in range(2):
        toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl")
    assert (status, "2 different" in out) == (1, True), out
    assert Path("marks.txt").read_text() == "aa"


def test_executing_again_takes_a_workspace_and_an_approver(toolstile, folder):
    Path("files").mkdir()
    calls = [
        {"id": "1", "name": "write_file", "arguments": {"path": "a.txt", "content": "hello"}},
        {"id": "2", "name": "pay", "arguments": {}},
    ]
    Path("calls").write_text("\n".join(map(json.dumps, calls)))
    places = ("--workspace", "files", "--approve", "all")
    assert toolstile("run", "--record", "calls.jsonl", *places, "calls")[0] == 0
    assert Path("files/a.txt").read_text() == "hello"
    Path("files/a.txt").unlink()
    status, out, _ = toolstile("replay", "--execute", *places, "calls.jsonl")
    assert (status, "2 calls executed: 2 the same" in out) == (0, True), out
    assert Path("files/a.txt").read_text() == "hello"
    Path("files/a.txt").unlink()
    status, out, _ = toolstile(
        "replay", "--execute", "--workspace", "files", "--approve", "none", "calls.jsonl"
    )
    assert (status, "1 different" in out) == (1, True), out


def test_without_the_record_no_command_tells_of_it(toolstile, folder):
    Path("toolstile.toml").write_text('block = ["record"]\n')
    status, _, err = toolstile("tools")
    assert (status, err) == (0, "")


def test_without_the_ledger_the_record_does_not_miss_its_command(toolstile, folder):
    Path("toolstile.toml").write_text('block = ["ledger"]\n')
    status, _, err = toolstile("record", "--help")
    assert (status, err) == (0, "")


def test_calls_with_masked_secrets_are_not_executed(toolstile):
    toolstile("call", "--record", "calls.jsonl", "log_in", '{"password": "hunter2"}')
    assert b"hunter2" not in b"".join(lines())
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl")
    assert status == 0
    assert "was not made: its arguments hold secrets, which the record masks" in out
    assert "0 calls executed: 0 the same; 1 not made" in out
    assert toolstile("replay", "calls.jsonl")[0] == 0


def test_calls_with_what_only_looks_like_a_mask_are_executed(toolstile):
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a *** b"}')
    Path("marks.txt").unlink()
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl")
    assert (status, out.strip()) == (0, "1 call executed: 1 the same")


def test_a_line_that_does_not_say_so_is_taken_for_masked(toolstile):
    toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a *** b"}')
    contents = [json.loads(line) for line in lines()]
    Path("calls.jsonl").unlink()
    file = RecordFile(Path("calls.jsonl"))
    for each in contents:
        kept = each.keys() - {"n", "prev", "hash", "masked"}
        file.append(written({name: each[name] for name in each if name in kept}))
    file.close()
    assert (
        "0 calls executed: 0 the same; 1 not made"
        in toolstile("replay", "--execute", "calls.jsonl")[1]
    )


@pytest.mark.parametrize(
    ("amount", "known"), [(5, True), ("5", False)], ids=["did not fit", "unknown tool"]
)
def test_calls_that_were_never_understood_are_not_executed_masked(toolstile, amount, known):
    arguments = json.dumps({"account": "1", "amount": amount})
    toolstile("call", "--record", "calls.jsonl", "transfer", arguments, plugin=known)
    status, out, _ = toolstile("replay", "--execute", "calls.jsonl")
    assert status == 0
    assert "was not made: its arguments were not understood, and the record masks them" in out
    assert not Path("marks.txt").exists()


@pytest.mark.parametrize("how", [(), ("--strict",), ("--execute",)])
@pytest.mark.parametrize("name", ["badge", "pin"])
def test_values_with_secrets_are_compared_and_shown_masked(toolstile, name, how):
    toolstile("call", "--record", "calls.jsonl", name)
    assert b"hunter2" not in b"".join(lines())
    status, out, _ = toolstile("replay", *how, "calls.jsonl", "--json")
    assert "hunter2" not in out
    [compared] = [json.loads(line) for line in out.splitlines()]
    assert (status, compared["same"]) == (0, True), out


def test_the_table_has_a_row_for_each_call(toolstile, example):
    status, out, _ = toolstile("record", "show", "calls.jsonl")
    rows = out.splitlines()
    assert status == 0
    assert " ".join(rows[0].split()) == "line made at call tool outcome time text for the model"
    assert len(rows) == 1 + 12 + 2
    assert "Unknown tool 'chek_credit'. Did you mean check_credit?" in rows[5]
    assert "Invalid arguments for place_order: product: required, but missing" in out
    assert rows[-1] == " 12 calls in 1 session"


def test_one_call_is_shown_with_all_there_is(toolstile, example):
    status, out, _ = toolstile("record", "show", "calls.jsonl", "--line", "5")
    assert status == 0
    assert out.startswith(" place_order, denied\n")
    assert '"verdict": "deny"' in out
    status, out, _ = toolstile("record", "show", "calls.jsonl", "--line", "5", "--json")
    shown = json.loads(out)
    assert (shown["line"], shown["status"], shown["stage"]) == (5, "denied", "check")
    status, _, err = toolstile("record", "show", "calls.jsonl", "--line", "1")
    assert status == 2
    assert "Line 1 of calls.jsonl is not a call." in err
    status, _, err = toolstile("record", "show", "calls.jsonl", "--line", "x")
    assert status == 2
    assert "'x' is not the number of a line" in err


def test_every_call_is_shown_as_json(toolstile, example):
    _, out, _ = toolstile("record", "show", "calls.jsonl", "--json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == [e["id"] for e in example]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            lambda made: [*made[:4], made[4].replace(b"Grace", b"Gracf", 1), *made[5:]],
            "line 5: changed; it differs from the written line: its hash does not fit it.",
        ),
        (
            lambda made: [*made[:4], *made[5:]],
            "line 5: missing; it comes after a gap: number 5 of the record is missing.",
        ),
        (lambda made: [*made[:-1], made[-1][:40]], "line 14: torn; it ends in the middle"),
        (
            lambda made: [*made[:3], made[4], made[3], *made[5:]],
            "line 5: misplaced; it was put in or moved",
        ),
    ],
    ids=["flipped", "removed", "torn", "moved"],
)
def test_what_was_done_to_a_record_is_found_and_named(toolstile, example, harm, told):
    Path("calls.jsonl").write_bytes(b"".join(harm(lines())))
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert status == 1
    assert told in out
    status, out, _ = toolstile("record", "verify", "calls.jsonl", "--json")
    found = json.loads(out)
    assert (status, found["intact"]) == (1, False)
    assert found["faults"]


def test_calls_are_shown_as_json_while_they_are_read_up_to_what_was_changed(toolstile, example):
    made = lines()
    Path("calls.jsonl").write_bytes(b"".join([*made[:4], *made[5:]]))
    status, out, err = toolstile("record", "show", "calls.jsonl", "--json")
    assert (status, [json.loads(line)["line"] for line in out.splitlines()]) == (2, [2, 3, 4])
    assert "line 5: it comes after a gap" in err
    status, out, err = toolstile("record", "show", "calls.jsonl")
    assert (status, out) == (2, "")
    assert "line 5: it comes after a gap" in err


def test_of_many_faults_some_are_shown(toolstile, example):
    # Every line has its end torn off.
    many = [line[:-9] + b"\n" for line in lines() * 2]
    Path("calls.jsonl").write_bytes(b"".join(many))
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert status == 1
    *faults, more, total = out.splitlines()
    assert len(faults) == 20
    assert more.strip() == f"... {len(many) - 20} more faults; --json lists all of them."
    assert total.endswith(f": {len(many)} faults")
    _, out, _ = toolstile("record", "verify", "calls.jsonl", "--json")
    assert len(json.loads(out)["faults"]) == len(many)


def test_calls_that_could_not_be_recorded_are_told(toolstile):
    file = RecordFile(Path("calls.jsonl"))
    file.append(written({**BEGIN, "at": AT}))
    for number in range(1, 23):
        file.append(written({"kind": "end", "at": AT, "lost": number}))
    file.close()
    places = ", ".join(f"{number} before line {number + 1}" for number in range(1, 21))
    told = f" 253 more calls could not be recorded: {places}, ...\n"
    for what, before in [("verify", "every line is as it was written"), ("show", "0 sessions")]:
        status, out, _ = toolstile("record", what, "calls.jsonl")
        assert (status, f"{before}\n{told}" in out) == (0, True)
    _, out, _ = toolstile("record", "verify", "calls.jsonl", "--json")
    assert json.loads(out)["lost"][-1] == {"line": 23, "calls": 22}
    Path("calls.jsonl").write_bytes(b"".join(lines()[:2] + lines()[3:4]))
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert (status, out.splitlines()[1:]) == (
        1,
        [
            " 3 lines, 0 calls: 1 fault",
            " 4 more calls could not be recorded: 1 before line 2, 3 before line 3",
        ],
    )


def test_lines_missing_at_the_end_are_found_by_the_noted_hash(toolstile, example):
    _, out, _ = toolstile("record", "verify", "calls.jsonl", "--json")
    noted = json.loads(out)["last"]
    assert toolstile("record", "verify", "calls.jsonl", "--last", noted)[0] == 0
    Path("calls.jsonl").write_bytes(b"".join(lines()[:-2]))
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert status == 0
    assert "The last run has no end" in out
    status, out, _ = toolstile("record", "verify", "calls.jsonl", "--last", noted)
    assert status == 1
    assert "lines are missing" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("record", "show", "gone.jsonl"), "gone.jsonl cannot be read"),
        (("record", "show", "desk.py"), "desk.py is not a record: no line of it is part of one"),
        (("replay", "gone.jsonl"), "gone.jsonl cannot be read"),
        (("record", "verify", "a" * 300), "a cannot be read: File name too long. Name a record"),
        (("replay", "a" * 300), "a cannot be read: File name too long. Name a record"),
        (("call", "mark", "--record", "desk.py"), "desk.py: its last line is not part of a record"),
        (
            ("call", "mark", "--replay", "desk.py"),
            "desk.py is not a record: no line of it is part of one",
        ),
    ],
)
def test_what_is_no_record_is_refused(toolstile, arguments, told):
    status, _, err = toolstile(*arguments)
    assert status == 2
    assert told in err


def test_a_replay_without_the_tools_says_how_to_load_them(toolstile, example):
    status, _, err = toolstile("replay", "calls.jsonl")
    assert status == 2
    assert "No plugin here offers the tools of calls.jsonl" in err


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_section", '{"section_key": "drawer"}'),
        ("open_sections", '{"section_keys": ["drawer"]}'),
    ],
)
def test_a_record_of_what_was_opened_is_replayed(toolstile, folder, name, arguments):
    (folder / "desk.py").write_text(FOLDED)
    toolstile("call", "--record", "calls.jsonl", name, arguments)
    status, out, _ = toolstile("replay", "calls.jsonl")
    assert (status, out) == (0, " 1 call replayed: 1 the same\n")


def test_a_call_of_no_characters_takes_nothing_else_of_the_record(toolstile):
    toolstile("call", "--record", "r.jsonl", "mark\udcff", '{"text": "\\ud83d"}')
    toolstile("call", "--record", "r.jsonl", "mark", '{"text": "\U0001f600"}')
    _, out, _ = toolstile("record", "verify", "r.jsonl")
    assert "2 calls: every line is as it was written" in out
    _, out, _ = toolstile("record", "show", "r.jsonl", "--json")
    named = [json.loads(line)["envelope"]["tool"] for line in out.splitlines()]
    assert named == ["mark?", "mark"]


def test_help_has_examples(toolstile):
    for command in ("record", "replay"):
        status, out, _ = toolstile(command, "--help")
        assert status == 0
        assert "examples:\n  toolstile" in out


def test_on_a_terminal_the_last_column_is_wrapped_to_fit(toolstile, example, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda console: True))
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    _, out, _ = toolstile("record", "show", "calls.jsonl")
    rows = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert max(map(len, rows)) <= 110
    assert " ".join(rows[0].split()) == "line made at call tool outcome time text for the model"
    assert "…" not in out
    assert "then retry." in " ".join(out.split())


def test_an_emptied_record_is_no_intact_one(toolstile):
    Path("calls.jsonl").touch()
    status, _, err = toolstile("record", "verify", "calls.jsonl")
    assert status == 2
    assert "calls.jsonl is empty: nothing was recorded, or all of it was removed" in err


@pytest.mark.parametrize("command", [("replay",), ("record", "show"), ("record", "verify")])
@pytest.mark.parametrize(
    "content",
    [
        b"abc",
        b"\xff\x00\xfe",
        b"\n",
        b'\n{"id": "1", "name": "pay", "arguments": {}}\n',
        b'[\n  {"role": "user"}\n]\n',
        b"[" * 100_000,
    ],
    ids=["text", "bytes", "blank", "calls", "json", "deep"],
)
def test_a_file_of_another_kind_is_no_damaged_record(toolstile, command, content):
    Path("other").write_bytes(content)
    status, out, err = toolstile(*command, "other")
    assert (status, out) == (2, "")
    assert err.startswith("toolstile: error: other is not a record: no line of it is part of one.")
    assert "use `toolstile run other`." in err


@pytest.mark.parametrize("end", [1, 5, 40])
def test_a_record_that_was_torn_in_its_first_line_is_one(toolstile, example, end):
    Path("calls.jsonl").write_bytes(lines()[0][:end])
    status, out, _ = toolstile("record", "verify", "calls.jsonl")
    assert (status, "line 1: torn;" in out) == (1, True)


def test_an_order_to_replay_in_without_a_record_is_refused(toolstile):
    status, _, err = toolstile("call", "--strict", "mark", "{}")
    assert status == 2
    assert "give --replay FILE, too" in err


@pytest.fixture
def records(toolstile):
    """A folder with records of two runs, and one of a single call that was refused."""
    Path("records").mkdir()
    for name in ("a", "b"):
        toolstile("run", "--example", "--record", f"records/{name}.jsonl")
    toolstile("call", "--record", "records/c.jsonl", "mark", "{}")
    return Path("records")


def listed(out):
    return [json.loads(line) for line in out.splitlines()]


def test_the_records_of_a_folder_are_listed_with_what_they_hold(toolstile, records):
    status, out, _ = toolstile("record", "list", "records", "--json")
    assert status == 0
    assert [(Path(each["file"]).name, each["calls"]) for each in listed(out)] == [
        ("a.jsonl", 12),
        ("b.jsonl", 12),
        ("c.jsonl", 1),
    ]
    assert listed(out)[0]["tools"]["place_order"] == 4
    assert listed(out)[0]["outcomes"]["denied"] == 1

    status, out, _ = toolstile("record", "list", "records")
    rows = [line.split() for line in out.splitlines()]
    assert (rows[0][0], rows[1][0], rows[3][0]) == ("record", "a.jsonl", "c.jsonl")
    assert "8 succeeded, 1 denied, 1 failed, 1 invalid, 1 unknown tool" in out
    assert out.endswith("\n 25 calls in 3 records\n")


def test_the_help_names_every_outcome():
    assert tuple(Status) == OUTCOMES


@pytest.mark.parametrize(
    ("filters", "calls"),
    [
        (("--outcome", "invalid"), {"a": 1, "b": 1, "c": 1}),
        (("--outcome", "unknown-tool"), {"a": 1, "b": 1}),
        (("--tool", "mark"), {"c": 1}),
        (("--tool", "ship_*", "--tool", "mark"), {"a": 2, "b": 2, "c": 1}),
        (("--tool", "ship_*", "--outcome", "failed"), {"a": 1, "b": 1}),
        (("--outcome", "failed", "--outcome", "denied"), {"a": 2, "b": 2}),
        (("--since", "1h", "--tool", "mark"), {"c": 1}),
        (("--since", "2999-01-01"), {}),
        (("--until", "1d"), {}),
        (("--until", "2999-01-01T00:00:00+02:00", "--tool", "mark"), {"c": 1}),
    ],
)
def test_records_and_calls_are_listed_by_tool_outcome_and_time(toolstile, records, filters, calls):
    status, out, _ = toolstile("record", "list", "records", *filters, "--json")
    assert status == 0
    assert {Path(each["file"]).stem: each["calls"] for each in listed(out)} == calls

    status, out, _ = toolstile("record", "show", "records", *filters, "--json")
    assert status == 0
    shown = [Path(each["file"]).stem for each in listed(out)]
    assert {name: shown.count(name) for name in shown} == calls

    for name in "abc":
        _, out, _ = toolstile("record", "show", f"records/{name}.jsonl", *filters, "--json")
        assert len(listed(out)) == calls.get(name, 0)


def test_the_calls_of_a_folder_are_shown_with_their_record(toolstile, records):
    status, out, _ = toolstile("record", "show", "records", "--outcome", "invalid")
    rows = [line.split()[:1] for line in out.splitlines()]
    assert status == 0
    assert rows[:4] == [["record"], ["a.jsonl"], ["b.jsonl"], ["c.jsonl"]]
    assert out.endswith("\n 3 calls in 3 sessions\n")


@pytest.mark.parametrize(
    "words",
    [
        ("record", "show", "records", "--line", "2"),
        ("record", "show", "records", "--html", "a.html"),
        ("record", "verify", "records"),
        ("replay", "records"),
    ],
)
def test_a_folder_in_place_of_a_record_is_named_with_the_remedy(toolstile, records, words):
    status, _, err = toolstile(*words)
    assert status == 2
    assert "`toolstile record list records`." in err


def test_one_damaged_record_does_not_hide_the_others(toolstile, records):
    Path("records/b.jsonl").write_text('{"some": "thing"}\n')
    for command in ("list", "show"):
        status, out, _ = toolstile("record", command, "records")
        assert status == 1
        assert "records/b.jsonl is not a record" in out
        assert "c.jsonl" in out
        status, out, _ = toolstile("record", command, "records", "--json")
        assert status == 1
        assert [each["file"] for each in listed(out) if each.get("fault")] == ["records/b.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("list", "nowhere"), "nowhere does not exist. Name a folder of records, or a record."),
        (("list", "."), "holds no record (*.jsonl)"),
        (("list", "records", "--outcome", "failedd"), "not an outcome; did you mean 'failed'?"),
        (("list", "records", "--since", "yesterday"), "'yesterday' is not a time; write 2026-"),
    ],
)
def test_a_listing_that_cannot_be_made_is_refused(toolstile, folder, arguments, told):
    status, _, err = toolstile("record", *arguments)
    assert status == 2
    assert told in err


def test_a_run_records_beside_a_file_that_another_process_writes(toolstile, folder):
    (folder / "toolstile.toml").write_text('[plugins.record]\nfile = "calls.jsonl"\n')
    with closing(RecordFile(folder / "calls.jsonl")):
        status, _, err = toolstile("call", "mark", '{"text": "a"}')
        [beside] = folder.glob("calls-*.jsonl")
        assert (status, "calls.jsonl is being written" in err, beside.name in err) == (
            0,
            True,
            True,
        )
        status, _, err = toolstile("call", "--record", "calls.jsonl", "mark", '{"text": "a"}')
        assert (status, "Record to another file" in err) == (2, True)
    toolstile("call", "mark", '{"text": "b"}')
    found = listed(toolstile("record", "list", "calls.jsonl", "--json")[1])
    assert [Path(each["file"]).name for each in found] == ["calls.jsonl", beside.name]


def test_a_replay_leaves_the_next_command_of_the_process_alone():
    (call,) = [each for each in commands(Command) if each.name == "call"]
    replayed = call.settings(Namespace(record=None, replay="calls.jsonl", strict=True))
    assert replayed["plugins.record.replay"] == "calls.jsonl"
    after = call.settings(Namespace(record=None, replay=None, strict=False))
    assert after == {"plugins.record.beside": True}
