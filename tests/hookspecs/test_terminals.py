"""Text from elsewhere cannot steer a terminal."""

import unicodedata

from hypothesis import given, strategies as st

from toolstile_hookspecs.support.text import printable


def test_what_could_steer_a_terminal_is_escaped(subtests):
    for text, shown in [
        ("plain", "plain"),
        ("naïve 茶 ☕", "naïve 茶 ☕"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x07\x00\x7f\x9b", r"\x07\x00\x7f\x9b"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
        ("carriage\rreturn", r"carriage\rreturn"),
        ("two\nlines\tand a tab", r"two\nlines\tand a tab"),
        ("👩\u200d💻", "👩\u200d💻"),
    ]:
        with subtests.test(text=text, shown=shown):
            assert printable(text) == shown


@given(st.text(st.characters()))
def test_no_control_character_ever_passes(text):
    passed = {unicodedata.category(each) for each in printable(text)}
    assert not passed & {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}


def test_what_is_to_be_kept_is_kept():
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
