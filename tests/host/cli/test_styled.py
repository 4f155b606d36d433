"""Text with styles: what it is without them, cut, and in lines."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from toolstile_cli.display.styled import Styled

texts = st.text(alphabet="ab 茶é", max_size=30)


@pytest.fixture(scope="module")
def console():
    return Console(
        file=io.StringIO(), width=200, color_system="standard", force_terminal=True, _environ={}
    )


def drawn(console, text):
    with console.capture() as captured:
        console.print(text.as_rich(), end="")
    return captured.get()


def test_parts_keep_their_own_styles(console):
    text = Styled("3 calls", "bold").append(" in ").extend(Styled("2 s", "dim"))
    assert text.plain == "3 calls in 2 s"
    assert drawn(console, text) == "\x1b[1m3 calls\x1b[0m in \x1b[2m2 s\x1b[0m"


def test_markup_is_text(console):
    assert drawn(console, Styled("[red]x[/red]")) == "[red]x[/red]"


def test_it_is_false_without_text():
    assert not Styled()
    assert not Styled("", "bold").append("")
    assert Styled(" ")


@pytest.mark.parametrize(
    ("text", "columns", "beginning", "end"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdef", 4, "abc…", "…def"),
        ("茶茶茶", 4, "茶…", "…茶"),
        ("ab cdef", 4, "ab…", "…def"),
        ("abc", 1, "…", "…"),
    ],
)
def test_what_is_too_long_is_cut_at_either_end(text, columns, beginning, end):
    assert Styled(text).cut(columns).plain == beginning
    assert Styled(text).cut(columns, keep_end=True).plain == end


def test_what_is_cut_keeps_its_style(console):
    assert drawn(console, Styled("abcdef", "bold").cut(4)) == "\x1b[1mabc…\x1b[0m"


@given(text=texts, columns=st.integers(1, 40), keep_end=st.booleans())
def test_nothing_is_wider_than_it_may_be(text, columns, keep_end):
    cut = Styled(text).cut(columns, keep_end=keep_end)
    assert cut.columns == cell_len(cut.plain) <= columns
    assert cut.plain == text or "…" in cut.plain


def test_lines_keep_the_styles_of_their_parts(console):
    text = Styled("plugin: ", "bold").append("a cause that is long")
    first, *others = text.wrapped(console, 14)
    assert drawn(console, first) == "\x1b[1mplugin: \x1b[0ma "
    assert [line.plain.rstrip() for line in others] == ["cause that is", "long"]
