"""Text from elsewhere cannot steer the terminal, and quantities read well."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.cli.text import counted, duration, lines_of, one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 茶 ☕", "naïve 茶 ☕"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x07\x00\x7f\x9b", r"\x07\x00\x7f\x9b"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
        ("carriage\rreturn", r"carriage\rreturn"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_no_control_character_ever_passes(text):
    passed = {unicodedata.category(each) for each in printable(text) if each not in "\n\t"}
    assert not passed & {"Cc", "Cs", "Zl", "Zp"}


def test_one_line_is_one_line():
    assert one_line("a\nb\tc\rd") == r"a\nb\tc\rd"


def test_empty_lines_are_left_out():
    assert lines_of("a\n\n  b  \n") == ["a", "  b"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 ms"),
        (0.00042, "0.4 ms"),
        (0.00994, "9.9 ms"),
        (0.00996, "10 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125.4, "2 min 5 s"),
    ],
)
def test_times_are_short(seconds, shown):
    assert duration(seconds) == shown


def test_things_are_counted():
    assert [counted(number, "call") for number in (0, 1, 2, 1234)] == [
        "0 calls",
        "1 call",
        "2 calls",
        "1,234 calls",
    ]
