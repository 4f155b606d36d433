"""`toolstile run` dispatches recorded calls in one session and shows what became of each."""

import json
import re

import pytest

from toolstile_cli.examples import named_examples


def rows(out):
    return [line for line in out.splitlines() if re.match(r" c\d", line)]


def envelopes(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.slow
def test_all_succeeded_is_status_0(toolstile, calls):
    status, out, err = toolstile("run", calls(("add", {"a": 1, "b": 2}), ("say", {"text": "hi"})))
    assert (status, err) == (0, "")
    first, second = rows(out)
    assert re.search(r"c1 +add +✓ succeeded +done +[\d.]+ ms +3$", first)
    assert second.endswith("hi")
    assert re.search(r"2 calls in .*: 2 succeeded", out)


@pytest.mark.slow
def test_of_a_success_the_message_is_shown_with_its_notes_and_the_value_is_hinted_at(
    toolstile, calls
):
    _, out, _ = toolstile("run", calls(("listing",), ("listing", {"notes": 2}), ("listing",)))
    told = [re.split(r"  +", line.strip())[-1] for line in out.splitlines()[1:6]]
    assert told == ["There are three: ...", "There are three: ...", "Note: 0", "Note: 1", told[0]]


def test_of_a_success_without_a_message_the_first_line_of_the_value_is_shown(toolstile, calls):
    _, out, _ = toolstile("run", calls(("say", {"text": "one\ntwo"}), ("say", {"text": ""})))
    first, second = rows(out)
    assert first.endswith("  one ...")
    assert second.endswith(" ms")


def test_of_a_long_message_a_dozen_lines_are_shown(toolstile, calls):
    _, out, _ = toolstile("run", calls(("listing", {"notes": 40})))
    assert "Note: 10" in out
    assert "Note: 11" not in out


def test_a_failed_call_is_status_1_and_the_rest_is_run(toolstile, calls):
    status, out, _ = toolstile(
        "run",
        calls(("add", {"a": 1}), ("nope",), ("refused",), ("fail",), ("add", {"a": 1, "b": 2})),
    )
    assert status == 1
    told = [re.split(r"  +", line.strip()) for line in rows(out)]
    assert [(each[1], each[2], each[3]) for each in told] == [
        ("add", "✗ invalid", "parse"),
        ("nope", "✗ unknown tool", "lookup"),
        ("refused", "⊘ denied", "check"),
        ("fail", "✗ failed", "execute"),
        ("add", "✓ succeeded", "done"),
    ]
    assert "1 succeeded, 1 failed, 1 unknown tool, 1 invalid, 1 denied" in out


def test_all_faults_of_the_arguments_are_shown(toolstile, calls):
    _, out, _ = toolstile("run", calls(("add", {"a": "1", "c": 2})))
    assert all(f"- {name}: " in out for name in "abc")


def test_all_calls_run_in_one_session(toolstile, calls):
    _, out, _ = toolstile("run", calls(("note", {"text": "x"}), ("note", {"text": "y"})), "--json")
    assert [each["data"] for each in envelopes(out)] == [1, 2]


def test_a_failed_call_leaves_nothing_behind_and_says_so(toolstile, calls):
    path = calls(("fail_after_note", {"text": "x"}), ("note", {"text": "y"}))
    _, out, _ = toolstile("run", path, "--json")
    assert envelopes(out)[1]["data"] == 1
    _, out, _ = toolstile("run", path)
    assert "rolled back" in out
    assert "Traceback" not in out


def test_json_is_the_id_and_the_envelope(toolstile, calls):
    status, out, err = toolstile("run", calls(("add", {"a": 1, "b": 2}), ("fail",)), "--json")
    good, bad = envelopes(out)
    assert (status, err) == (1, "")
    assert list(good) == ["id", "status", "tool", "fetchedAt", "data"]
    assert list(bad) == ["id", "status", "tool", "fetchedAt", "error"]
    assert (good["id"], good["tool"], good["data"]) == ("c1", "add", 3)
    assert (good["status"], bad["status"]) == ("succeeded", "failed")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", good["fetchedAt"])


@pytest.mark.slow
def test_what_a_handler_prints_is_not_on_stdout_with_json(toolstile, calls):
    _, out, err = toolstile("run", calls(("print_much",)), "--json")
    assert [each["data"] for each in envelopes(out)] == ["quiet"]
    assert "printed by the handler" in err


@pytest.mark.slow
def test_what_programs_and_plugins_print_is_not_on_stdout_with_json(process, calls, folder):
    text = (folder / "desk.py").read_text() + "\n\nprint('printed by the import')\n"
    (folder / "desk.py").write_text(text)
    out, err = process("run", calls(("print_much",)), "--json").communicate(timeout=60)
    assert [each["data"] for each in envelopes(out)] == ["quiet"]
    assert {f"printed by {who}" for who in ("the handler", "a program", "the import")} <= set(
        err.splitlines()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("stop_evaluation", "enough of it"),
        ("pause", "a person is needed"),
    ],
)
@pytest.mark.parametrize("mode", [(), ("--parallel",)])
def test_what_leaves_dispatch_becomes_an_envelope(toolstile, calls, tool, told, mode):
    path = calls((tool,), ("add", {"a": 1, "b": 2}))
    status, out, _ = toolstile("run", path, "--json", *mode)
    first, second = envelopes(out)
    assert status == 1
    assert told in first["error"]
    assert second["data"] == 3
    _, out, _ = toolstile("run", path, *mode)
    assert re.search(rf"{tool} +✗ raised +execute", out)


def test_a_tool_cannot_end_the_process(toolstile, calls):
    path = calls(("leave",), ("add", {"a": 1, "b": 2}))
    status, out, _ = toolstile("run", path, "--json")
    assert status == 1
    assert "cannot" in envelopes(out)[0]["error"]
    assert envelopes(out)[1]["data"] == 3


def test_what_an_observer_raises_afterwards_leaves_the_result_as_it_is(toolstile, calls, tmp_path):
    (tmp_path / "leaving.py").write_text(
        "from toolstile_hookspecs import hookimpl\n\n\n"
        "@hookimpl\ndef toolstile_telemetry(event):\n"
        "    if event.tool_name == 'add':\n        raise SystemExit(3)\n"
    )
    run = ("run", calls(("add", {"a": 1, "b": 2})), "--plugin", tmp_path / "leaving.py")
    status, out, _ = toolstile(*run, "--json")
    assert (status, envelopes(out)[0]["data"]) == (0, 3)
    _, out, _ = toolstile(*run)
    assert "kept; after it, something asked the process to exit" in " ".join(out.split())


def test_a_tool_that_exits_leaves_the_calls_beside_it_as_they_are(toolstile, calls):
    path = calls(("add", {"a": 1, "b": 2}), ("leave",), ("fail",), ("stop_evaluation",))
    status, out, err = toolstile("run", path, "--parallel", "--json")
    added, left, failed, stopped = envelopes(out)
    assert (status, err) == (1, "")
    assert added["data"] == 3
    assert "asked the process to exit, which it cannot" in left["error"]
    assert "error" in failed
    assert "enough of it" in stopped["error"]


def test_what_exits_after_a_parallel_call_leaves_its_result_as_it_is(toolstile, calls, tmp_path):
    (tmp_path / "leaving.py").write_text(
        "from toolstile_hookspecs import hookimpl\n\n\n"
        "@hookimpl\ndef toolstile_telemetry(event):\n"
        "    if event.tool_name == 'add':\n        raise SystemExit(3)\n"
    )
    path = calls(("add", {"a": 1, "b": 2}), ("leave",))
    _, out, _ = toolstile("run", path, "--plugin", tmp_path / "leaving.py", "--parallel", "--json")
    added, left = envelopes(out)
    assert added["data"] == 3
    assert "cannot" in left["error"]


@pytest.mark.slow
def test_parallel_gives_the_same_in_the_same_order(toolstile, calls):
    path = calls(*(("add", {"a": number, "b": 1}) for number in range(30)), ("fail",))
    status, out, _ = toolstile("run", path, "--parallel", "--json")
    assert status == 1
    assert [each.get("data") for each in envelopes(out)] == [*range(1, 31), None]
    status, out, _ = toolstile("run", path, "--parallel")
    assert [line.split()[0] for line in rows(out)] == [f"c{number}" for number in range(1, 32)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--json",), ("--parallel",)])
def test_a_wrong_line_is_status_2_and_nothing_is_run(toolstile, folder, mode):
    flag = folder / "flag"
    good = json.dumps({"name": "sleep", "arguments": {"seconds": 0, "flag": str(flag)}})
    (folder / "wrong.jsonl").write_text(f'{good}\n{{"names": "add"}}\n')
    status, out, err = toolstile("run", "wrong.jsonl", *mode)
    assert (status, out) == (2, "")
    assert err.startswith(
        "toolstile: error: wrong.jsonl, line 2: unknown key 'names'; did you mean"
    )
    assert not flag.exists()


@pytest.mark.slow
def test_a_file_that_is_not_there_is_status_2(toolstile):
    status, _, err = toolstile("run", "none.jsonl")
    assert status == 2
    assert "none.jsonl cannot be read: No such file" in err


def test_no_file_at_all_is_status_2(toolstile):
    status, _, err = toolstile("run")
    assert status == 2
    assert "--example" in err


@pytest.mark.slow
def test_calls_come_from_standard_input(process):
    started = process("run", "-", "--json", stdin=-1)
    out, err = started.communicate('{"name": "add", "arguments": {"a": 1, "b": 2}}', timeout=60)
    assert (started.returncode, err) == (0, "")
    assert json.loads(out)["data"] == 3


def test_a_recorded_conversation_is_run(toolstile, folder):
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    conversation = [
        {"role": "user", "content": "What is 1 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]
    (folder / "chat.json").write_text(json.dumps({"messages": conversation}, indent=2))
    status, out, _ = toolstile("run", "chat.json", "--json")
    assert status == 0
    assert [(each["id"], each["data"]) for each in envelopes(out)] == [("call_1", 3)]


def test_of_a_conversation_without_calls_it_is_said_that_there_are_none(toolstile, folder):
    (folder / "chat.json").write_text(json.dumps([{"role": "user", "content": "Hello."}]))
    status, out, err = toolstile("run", "chat.json", "--json")
    assert (status, out) == (0, "")
    assert err == ("toolstile: note: chat.json is a recorded conversation without a call.\n")


@pytest.mark.slow
def test_terminal_escapes_do_not_pass(toolstile, calls):
    path = calls(
        ("say", {"text": "\x1b[31mred\x07"}), ("\x1b]0;title\x07",), ("fail", {"text": "\r\x9b2J"})
    )
    _, out, err = toolstile("run", path)
    assert not set("\x1b\x07\x9b\r") & set(out + err)
    assert r"\x1b[31mred\x07" in out


@pytest.mark.slow
def test_the_example_tells_its_story(toolstile):
    status, out, err = toolstile("run", "--example", plugin=False)
    assert (status, err) == (0, "")
    assert out.endswith("1 denied; in this example, some are meant to fail\n")
    for told in (
        "There are no orders.",
        "products: not known; did you mean 'product'?",
        "Did you mean check_credit?",
        "Call check_credit first, then retry.",
        "rolled back",
        "10 x kettle, shipped",
    ):
        assert told in out, told


def test_the_examples_dry_run_denies_only_what_goes_to_the_carrier(toolstile):
    _, out, _ = toolstile("run", "--example", "--dry-run", "--json", plugin=False)
    errors = {each["tool"]: each["error"] for each in envelopes(out) if "error" in each}
    denied = [tool for tool, error in errors.items() if "is not contained" in error]
    assert denied == ["ship_order"]


@pytest.mark.slow
def test_another_example_works_on_files(toolstile):
    status, out, err = toolstile("run", "--example", "workspace", "--approve", "all", plugin=False)
    assert (status, err) == (0, "")
    story = (
        "The plan is set up.",
        "There is no prices.txt. Did you mean prices.ini?",
        "so nothing is kept",
        "rolled back: nothing it changed remains",
        "prices.ini: 1.2, README.md: 1.2",
        "the file CHANGELOG.md exists and was not read",
        "Replaced 1 occurrence in CHANGELOG.md",
        "prices.ini: 1.3, README.md: 1.3",
        "Deleted drafts/ideas.md.",
        "approved when asked for",
        "the plan is completed",
    )
    place = 0
    for told in story:
        assert told in out[place:], told
        place = out.index(told, place)


def test_an_example_deletes_nothing_that_nobody_approves(toolstile):
    _, out, _ = toolstile("run", "--example", "workspace", "--json", plugin=False)
    errors = {each["tool"]: each["error"] for each in envelopes(out) if "error" in each}
    assert "delete_file" in errors


def test_an_example_works_on_a_copy_of_its_files(toolstile, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    call = ("call", "--example", "workspace", "read_file", '{"path": "prices.ini"}')
    status, out, _ = toolstile(*call, plugin=False)
    assert status == 0
    assert "version = 1.2" in out
    assert not any("toolstile-example" in each.name for each in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_examples_session_does_not_run_on_somebody_elses_files(toolstile, folder, more):
    (folder / "here").mkdir()
    (folder / "here" / "VERSION").write_text("mine")
    run = ("run", "--workspace", "here", "--example", "workspace", "--approve", "all")
    status, out, err = toolstile(*run, *more, plugin=False)

    assert (status, out) == (2, "")
    assert "the session of this example works on files of its own" in err
    assert "Leave --workspace out" in err
    assert [each.name for each in (folder / "here").iterdir()] == ["VERSION"]


def test_an_examples_tools_serve_other_calls_on_a_workspace(toolstile, folder, calls):
    (folder / "here").mkdir()
    (folder / "here" / "mine.txt").touch()
    run = ("run", calls(("list_directory", {})), "--example", "workspace", "--workspace", "here")
    status, out, _ = toolstile(*run, "--json", plugin=False)

    assert status == 0
    assert "mine.txt" in out


def test_an_example_leaves_a_workspace_that_is_given_to_it(toolstile, folder):
    (folder / "here").mkdir()
    call = ("call", "--example", "workspace", "list_directory", "--workspace", "here")
    assert toolstile(*call, plugin=False)[1] == "The root of the workspace is empty.\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "--example"], ["run", "--example=orders"]),
        (["--example", "run"], ["--example=orders", "run"]),
        (["run", "--example", "workspace"], ["run", "--example=workspace"]),
        (["--example", "workspace", "run"], ["--example=workspace", "run"]),
        (["run", "--example", "x.jsonl"], ["run", "--example=orders", "x.jsonl"]),
        (["run", "workspace"], ["run", "workspace"]),
    ],
)
def test_an_examples_name_can_be_left_out(arguments, named):
    assert named_examples(arguments) == named


def test_an_example_that_is_not_there_is_a_usage_error(toolstile):
    status, _, err = toolstile("run", "--example=nope", plugin=False)
    assert status == 2
    assert "invalid choice: 'nope'" in err


def test_the_example_rolls_back_what_did_not_ship(toolstile):
    _, out, _ = toolstile("run", "--example", "--json", plugin=False)
    orders = {each["id"]: each["data"] for each in envelopes(out) if each["tool"] == "list_orders"}
    status = {
        number: [order["status"] for order in data["orders"]] for number, data in orders.items()
    }
    assert list(status.values()) == [[], ["open", "open"], ["open", "shipped"]]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--approve", "none"]])
def test_a_run_with_nobody_to_approve_says_so_at_the_end(toolstile, options):
    status, out, _ = toolstile("run", "--example", "workspace", *options, plugin=False)
    assert status == 1
    assert "A person did not" not in out
    assert "delete_file needs a person's approval" in out
    assert out.splitlines()[-1].startswith(
        " 1 call denied: a person has to approve, but no one answered."
    )
    assert "--approve" in out.splitlines()[-1]


def test_a_run_in_which_nobody_is_missed_says_nothing_of_it(toolstile, calls):
    _, out, _ = toolstile("run", calls(("refused",), ("add", {"a": 1, "b": 2})))
    assert "1 denied" in out
    assert "--approve" not in out


def test_what_was_meant_as_the_name_of_an_example_is_told_those_there_are(toolstile):
    status, out, err = toolstile("run", "--example", "nothere", plugin=False)
    assert (status, out) == (2, "")
    assert err == (
        "toolstile: error: there is neither an example nor a file 'nothere'. The examples are "
        "orders and workspace. Name one of these, or a file of calls.\n"
    )


@pytest.mark.parametrize("command", [["run", "--example"], ["call", "list_orders", "{}"]])
def test_what_keeps_every_call_from_running_is_told_once(toolstile, tmp_path, command):
    plugin = tmp_path / "faulty.py"
    plugin.write_text(
        "from toolstile_hookspecs import MarkdownSection, hookimpl\n\n\n"
        "@hookimpl\n"
        "def toolstile_sections():\n"
        "    return [MarkdownSection(key='x', title='X', on_session=lambda session: 1 / 0)]\n"
    )
    example = [] if "--example" in command else ["--example"]
    status, out, err = toolstile(*command, *example, "--plugin", plugin, plugin=False)
    assert (status, out) == (2, "")
    assert err.count("ZeroDivisionError") == 1
    assert f"its on_session raised ZeroDivisionError: division by zero ({plugin}, line 6)" in err
