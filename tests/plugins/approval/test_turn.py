"""The questions of a turn on one card at a terminal, and the card of a transaction."""

import json

import pytest

pytestmark = pytest.mark.slow

CARD = "numbers to refuse"
TURN = ("run", "--parallel")
THREE = (("send", {"text": "a"}), ("remove", {"path": "b"}), ("send", {"text": "a"}))
TRANSACTION = """\
import sys

from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall, TransactionFailed

import desk

mode = {"approval": {"mode": sys.argv[1]}}
settings = Settings(approver="approval", approve_by="turn", plugins=mode)
host = Host(settings=settings, plugins=[desk])
with host, host.executor() as tools:
    try:
        with tools.transaction("three notes", approve=True) as work:
            for text in ("a", "b", "a"):
                work.dispatch(ToolCall("write", {"text": text}))
    except TransactionFailed as error:
        print(error)
    print("kept", [each.text for each in tools.session[desk.Sent].all()])
"""


@pytest.fixture
def by_turn(folder):
    (folder / "toolstile.toml").write_text('approve_by = "turn"\n', encoding="utf-8")


@pytest.fixture
def turn(by_turn, person, calls):
    def start(*wishes, **options):
        return person(*TURN, "--json", calls(*wishes), **options)

    return start


def ends(screen):
    """Return the status of each call by its id, from the lines of JSON on the screen."""
    lines = [json.loads(line) for line in screen.splitlines() if line.startswith('{"id"')]
    return {line["id"]: line["status"] for line in lines}


def test_all_rows_stand_on_one_card_and_yes_runs_them(turn):
    at = turn(*THREE)
    shown = at.answer("y", CARD)
    places = [shown.index(text) for text in ("1. send", "2. remove (delete", "3. send")]
    assert places == sorted(places)
    assert shown.count("requires confirmation.") == 3
    assert 'path: "b"' in shown
    assert "Run all 3?" in shown
    _, screen = at.end()
    assert {*ends(screen).values()} == {"succeeded"}
    assert screen.count(CARD) == 1


@pytest.mark.long
def test_no_refuses_all_with_its_reason(turn):
    at = turn(*THREE)
    at.answer("n not today", CARD)
    _, screen = at.end()
    assert {*ends(screen).values()} == {"denied"}
    assert screen.count("did not approve") == 3
    assert screen.count("not today.") >= 3


@pytest.mark.parametrize(("typed", "refused"), [("3", ["c3"]), ("3, 1", ["c1", "c3"])])
def test_numbers_refuse_rows_of_equal_calls_as_well(turn, typed, refused):
    at = turn(*THREE)
    at.answer(typed, CARD)
    at.answer("it is enough", "Why not?")
    _, screen = at.end()
    assert [id_ for id_, status in ends(screen).items() if status == "denied"] == refused
    assert screen.count("it is enough") == len(refused) + 1


@pytest.mark.long
def test_an_unclear_line_is_no_answer(turn):
    at = turn(*THREE)
    for typed in ("", "4", "0", "1 x", "1 y", "yes 1", "-1", "1-3"):
        at.answer(typed, CARD)
        at.expect("Answer with one of the letters, or with numbers")
    at.answer("n no", CARD)
    assert {*ends(at.end()[1]).values()} == {"denied"}


def test_one_by_one_rows_are_denied_edited_and_approved(turn):
    at = turn(*THREE)
    at.answer("o", CARD)
    at.answer("n not this")
    at.answer("e")
    at.answer('{"path": "c"}', prompt="on one line")
    at.answer("y")
    _, screen = at.end()
    assert [*ends(screen).values()] == ["denied", "succeeded", "succeeded"]
    assert "removed c x1" in screen


def test_an_edited_row_of_a_turn_with_one_diff_is_shown_again(turn, folder):
    settings = 'approve_by = "turn"\napprove_diff = true\n'
    (folder / "toolstile.toml").write_text(settings, encoding="utf-8")
    at = turn(("write", {"text": "a"}), ("write", {"text": "b"}))
    at.answer("o", CARD)
    at.answer("e", prompt="[y]es, [n]o, [e]dit")
    at.answer('{"text": "z"}', prompt="on one line")
    at.answer("y", prompt="Keep it?")
    shown = at.answer("y", CARD)
    assert "Sent(text='z')" in shown
    _, screen = at.end()
    assert [*ends(screen).values()] == ["succeeded", "succeeded"]


@pytest.mark.long
def test_always_answers_the_rows_after_it_and_the_next_card(turn):
    at = turn(*THREE)
    at.answer("o", CARD)
    at.answer("a")
    shown = at.answer("n no")
    assert "remove" in shown
    assert [*ends(at.end()[1]).values()] == ["succeeded", "denied", "succeeded"]


@pytest.mark.long
def test_closed_input_is_no_answer(turn):
    at = turn(*THREE)
    at.answer("\x04", CARD)
    _, screen = at.end()
    assert screen.count("The input was closed") == 3


@pytest.mark.long
def test_one_question_of_a_turn_is_asked_as_ever(turn):
    at = turn(("send", {"text": "a"}), ("pause", {"seconds": 0}))
    assert "Run it?" in at.answer("y")
    assert {*ends(at.end()[1]).values()} == {"succeeded"}


@pytest.mark.long
def test_a_long_card_is_shortened_and_shown_whole(turn):
    wishes = [("send", {"text": "\n".join(f"line {n}" for n in range(30))})] * 4
    at = turn(*wishes)
    shown = at.answer("v", CARD)
    assert "line 29" not in shown
    assert "[v]iew all of it" in shown
    assert at.answer("y", CARD).count("line 29") == 4


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [
        ("all", {"succeeded"}),
        ("none", {"denied"}),
        ("read", {"succeeded", "denied"}),
    ],
)
def test_modes_answer_each_row(by_turn, alone, calls, mode, statuses):
    file = calls(("look", {}), ("send", {"text": "a"}))
    _, out, _ = alone(*TURN, "--json", file, "--approve", mode)
    assert {*ends(out).values()} == statuses


@pytest.mark.long
def test_without_a_terminal_no_row_is_approved(by_turn, alone, calls):
    _, out, _ = alone(*TURN, "--json", calls(*THREE))
    assert {*ends(out).values()} == {"denied"}
    assert out.count("no terminal is attached") >= 3


# --- a transaction


@pytest.fixture
def transaction(folder, script):
    (folder / "book.py").write_text(TRANSACTION, encoding="utf-8")
    return lambda mode="auto": script("book.py", mode)


def test_a_transaction_is_shown_with_one_diff_and_kept(transaction):
    at = transaction()
    shown = at.answer("y", CARD)
    assert "three notes" in shown
    assert shown.count("It would change:") == 1
    assert "Keep all 3?" in shown
    assert "kept ['a', 'b', 'a']" in at.end()[1]


def test_rows_of_a_transaction_are_left_out_by_number(transaction):
    at = transaction()
    at.answer("3 2", CARD)
    at.answer("one is enough", "Why not?")
    shown = at.answer("y", CARD)
    assert "added Sent(text='a')" in shown
    assert "Sent(text='b')" not in shown
    assert "kept ['a']" in at.end()[1]


def test_rows_of_a_transaction_are_neither_edited_nor_granted(transaction):
    at = transaction()
    at.answer("o", CARD)
    for answer in ("y", "y", "n no"):
        at.expect("Keep it? [y]es, [n]o:")
        at.type(f"{answer}\n")
    at.answer("y", CARD)
    assert "kept ['a', 'b']" in at.end()[1]


@pytest.mark.long
def test_a_refused_transaction_leaves_nothing(transaction):
    at = transaction()
    at.answer("n not today", CARD)
    _, screen = at.end()
    assert "was not approved (not today)" in screen
    assert "kept []" in screen


@pytest.mark.long
@pytest.mark.parametrize(("mode", "kept"), [("all", "kept ['a', 'b', 'a']"), ("none", "kept []")])
def test_modes_answer_a_transaction(transaction, mode, kept):
    assert kept in transaction(mode).end()[1]
