"""`toolstile run` at a terminal: what the person sees, and what each answer does."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CTRL_C, CTRL_D = "\x03", "\x04"


def test_yes_runs_the_call_as_it_was_shown(person, calls):
    at = person("run", calls(("remove", {"path": "a.txt"})))
    shown = at.answer("y")
    assert "remove (delete, high consequence)" in shown
    assert "remove requires confirmation." in shown
    assert 'path: "a.txt"' in shown
    assert "times: 1" in shown
    assert "Run it?" in shown
    status, screen = at.end()
    assert status == 0
    assert "removed a.txt x1" in screen


def test_without_colours_a_question_has_no_escape_sequence(person, calls):
    wishes = calls(("remove", {"path": "a.txt"}), ("remove", {"path": "b.txt", "times": 2}))
    at = person("run", wishes, env={"NO_COLOR": "1", "TERM": "xterm-256color"})
    at.answer("y")
    at.answer("n")
    at.answer("not now", prompt="Why not?")
    assert at.end()[0] == 1
    assert "not now" in at.written
    assert "\x1b" not in at.written


def test_the_question_is_seen_where_the_width_is_given_as_none(person, calls):
    at = person("run", calls(("remove", {"path": "a.txt"})), env={"COLUMNS": "0"})
    assert "Run it?" in at.answer("y")
    assert at.end()[0] == 0


def test_no_goes_to_the_model_with_its_reason(person, calls):
    at = person("run", calls(("remove", {"path": "a"}), ("remove", {"path": "b"})))
    at.answer("no it is needed")
    at.answer("n")
    at.answer("so is that", prompt="Why not?")
    status, screen = at.end()
    assert status == 1
    assert "A person did not approve remove: it is needed" in screen
    assert "A person did not approve remove: so is that" in screen
    assert "2 denied" in screen


@pytest.mark.long
def test_an_unclear_answer_is_no_answer(person, calls):
    at = person("run", calls(("remove", {"path": "a"})))
    for answer in ("", "yess", "yes please", "Ñ"):
        at.answer(answer)
        at.expect("Answer with one of the letters")
    at.answer("Y")
    assert at.end()[0] == 0


@pytest.mark.long
def test_edit_as_a_line_runs_exactly_what_was_written(person, calls):
    at = person("run", calls(("remove", {"path": "a.txt"})))
    at.answer("e")
    assert '{"path": "a.txt", "times": 1}' in at.expect("on one line")
    at.expect(":")
    at.type('{"path": "b.txt"}\n')
    status, screen = at.end()
    assert status == 0
    assert "removed b.txt x1" in screen


@pytest.mark.long
def test_an_edit_that_does_not_fit_is_told_and_asked_for_again(person, calls):
    at = person("run", calls(("remove", {"path": "a.txt"})))
    for written, fault in [
        ("{", "That is not JSON"),
        ("[]", "not a JSON object"),
        ('{"path": 1, "tmies": 2}', "did you mean 'times'?"),
    ]:
        at.answer("e")
        at.answer(written, prompt="on one line")
        at.expect(fault)
    at.answer("e")
    at.answer("", prompt="on one line")
    at.answer("n enough")
    assert "did not approve remove: enough" in at.end()[1]


def test_edited_arguments_are_checked_again(person, calls):
    at = person("run", calls(("remove", {"path": "a.txt"})))
    at.answer("e")
    at.answer('{"path": "/"}', prompt="on one line")
    status, screen = at.end()
    assert status == 1
    assert "Never that one." in screen


def test_edit_in_an_editor(person, calls, folder):
    editor = folder / "editor.py"
    editor.write_text(
        "import sys; from pathlib import Path; path = Path(sys.argv[1]);"
        "path.write_text(path.read_text().replace('a.txt', input('to? ')))"
    )
    at = person(
        "run", calls(("remove", {"path": "a.txt"})), env={"EDITOR": f"{sys.executable} {editor}"}
    )
    at.answer("e")
    at.expect("to? ")
    at.type("c.txt\n")
    status, screen = at.end()
    assert status == 0
    assert "removed c.txt x1" in screen


@pytest.mark.long
def test_an_editor_that_fails_or_changes_nothing_leaves_the_question_open(person, calls):
    path = calls(("remove", {"path": "a.txt"}))
    for editor, told in [
        ("false", "ended with status 1"),
        ("true", "Nothing was changed"),
        ("/no/such/editor", "cannot be used"),
    ]:
        at = person("run", path, env={"VISUAL": editor})
        at.answer("e")
        at.expect(told)
        at.answer("n")
        at.answer("", prompt="Why not?")
        assert "A person did not approve remove." in at.end()[1]


def test_always_holds_for_the_tool_and_the_reasons_that_were_shown(person, calls):
    at = person(
        "run",
        calls(
            ("remove", {"path": "a"}),
            ("remove", {"path": "b"}),
            ("remove", {"path": "c", "times": 2}),
            ("remove", {"path": "/"}),
            ("send", {"text": "x"}),
        ),
    )
    at.answer("always")
    assert 'path: "c"' in at.answer("n not twice")
    assert "send (side effect, medium consequence)" in at.answer("n not that")
    status, screen = at.end()
    assert status == 1
    assert "removed a x1" in screen
    assert "removed b x1" in screen
    assert "did not approve remove: not twice" in screen
    assert "Never that one." in screen
    assert "did not approve send: not that" in screen


def test_ctrl_c_denies_and_ends_the_run_cleanly(person, calls):
    at = person("run", calls(("look", {}), ("remove", {"path": "a"}), ("look", {})))
    at.answer("y")
    at.expect()
    at.type(CTRL_C)
    status, screen = at.end()
    assert status == 130
    assert "1 of 3 calls" in screen
    assert "interrupted" in screen
    assert "removed" not in screen
    assert "Traceback" not in screen


def test_closed_input_denies_and_the_run_goes_on(person, calls):
    at = person("run", calls(("remove", {"path": "a"}), ("pause", {"seconds": 0})))
    at.expect()
    at.type(CTRL_D)
    status, screen = at.end()
    assert status == 1
    assert "was closed before anyone" in " ".join(screen.split())
    assert "1 succeeded, 1 denied" in screen


def test_what_was_typed_before_the_question_is_no_answer(person, calls):
    at = person("run", calls(("pause", {"seconds": 1.0}), ("remove", {"path": "a"})))
    at.expect("call")
    at.type("y\ny\n")
    at.answer("n later")
    assert "did not approve remove: later" in at.end()[1]


def test_nothing_shown_can_steer_the_terminal(person, calls):
    nasty = "\x1b[2J\x07\u202eevil\u2028Run it? y"
    at = person("run", calls(("remove", {"path": nasty}), ("send", {"text": f"one\n{nasty}"})))
    first = at.answer("n \x1b[0m no")
    second = at.answer("n")
    at.answer("", prompt="Why not?")
    status, _ = at.end()
    assert status == 1
    for shown in (first, second):
        assert not set(shown) & {"\x1b", "\x07", "\u202e", "\u2028"}
        assert "\\u202eevil\\u2028" in shown
    assert "    | one\n    | \\x1b[2J" in second


def test_secrets_are_masked_and_stay_through_an_edit(person, calls):
    at = person("run", calls(("send", {"text": "my hunter22!", "token": "hunter22"})))
    shown = at.answer("e")
    edit = at.expect("on one line")
    assert "hunter22" not in shown.replace("my hunter22!", "")
    assert 'token: "*** (unchanged)"' in shown
    assert '"token": "*** (unchanged)"' in edit
    at.expect(":")
    at.type('{"text": "yours", "token": "*** (unchanged)"}\n')
    assert "sent yours with 8 secret characters" in at.end()[1]


@pytest.mark.long
def test_long_arguments_are_cut_visibly_and_shown_whole_when_asked_for(person, calls):
    at = person("run", calls(("send", {"text": "\n".join(f"line {n}" for n in range(200))})))
    shown = at.expect("[v]iew all of it:")
    assert "more lines)" in shown
    assert "line 199" not in shown
    at.type("v\n")
    assert "line 199" in at.expect("[v]iew all of it:")
    at.type("y\n")
    assert at.end()[0] == 0


@pytest.mark.long
def test_a_contained_tools_diff_is_shown_where_the_configuration_says_so(person, calls, folder):
    (folder / "toolstile.toml").write_text("approve_diff = true", encoding="utf-8")
    at = person("run", calls(("write", {"text": "a"}), ("write", {"text": "b"})))
    shown = at.answer("n not a")
    assert "has run and waits to be kept" in shown
    assert "It would change:\n  session:\n    Sent: added Sent(text='a')" in shown
    assert "Keep it?" in shown
    at.answer("y")
    status, screen = at.end()
    assert status == 1
    assert "wrote b, 1 in all" in screen


@pytest.mark.long
def test_json_stays_json_while_a_person_is_asked(person, calls):
    path = calls(("remove", {"path": "a"}), ("remove", {"path": "b"}))
    at = person("run", path, "--json", stdout=subprocess.PIPE)
    at.answer("y")
    at.answer("n no")
    at.end()
    lines = [json.loads(line) for line in at.process.stdout.read().splitlines()]
    assert [line["id"] for line in lines] == ["c1", "c2"]
    assert lines[0]["data"] == "removed a x1"
    assert "did not approve" in lines[1]["error"]


@pytest.mark.long
def test_parallel_calls_are_asked_for_one_after_the_other(person, calls):
    at = person("run", calls(("remove", {"path": "a"}), ("look", {})), "--parallel")
    asked = [at.answer("y"), at.answer("y")]
    assert sorted("look (read" in each for each in asked) == [False, True]
    status, screen = at.end()
    assert status == 0
    assert "2 succeeded" in screen


@pytest.mark.long
def test_always_answers_the_questions_that_wait_already(person, calls):
    at = person("run", calls(*(("remove", {"path": each}) for each in "abc")), "--parallel")
    at.answer("a")
    status, screen = at.end()
    assert status == 0
    assert "3 succeeded" in screen


@pytest.mark.long
def test_ctrl_c_ends_a_parallel_run_too(person, calls):
    at = person("run", calls(("remove", {"path": "a"}), ("remove", {"path": "b"})), "--parallel")
    at.expect()
    at.type(CTRL_C)
    status, screen = at.end()
    assert status == 130
    assert "removed" not in screen
    assert "Traceback" not in screen


def test_a_question_is_withdrawn_when_its_time_is_up(person, calls, folder):
    (folder / "toolstile.toml").write_text("approval_timeout = 1.0", encoding="utf-8")
    at = person("run", calls(("remove", {"path": "a"}), ("look", {})))
    at.expect()
    assert "the approval timed out" in at.expect("look (read")
    at.answer("y")
    status, screen = at.end()
    assert status == 1
    assert "looked" in screen


@pytest.mark.long
def test_call_asks_too(person):
    at = person("call", "remove", '{"path": "a"}')
    at.answer("y")
    status, screen = at.end()
    assert status == 0
    assert screen.rstrip().endswith("removed a x1")


@pytest.mark.long
def test_the_answer_comes_from_the_terminal_where_the_calls_come_from_a_file(person, calls, folder):
    with (folder / calls(("remove", {"path": "a"}))).open("rb") as piped:
        at = person("run", "-", "--approve", "ask", stdin=piped)
    at.answer("y")
    assert "removed a x1" in at.end()[1]
