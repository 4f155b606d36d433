"""The table fits its terminal, and cuts nothing in a pipe."""

import io

import pytest
from rich.cells import cell_len
from rich.text import Text

from toolstile_cli.console import Column, Table, Terminal, widest


class Screen(io.StringIO):
    encoding = "utf-8"

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def draw(monkeypatch):
    """Draws one row and gives its lines; with a width on a terminal, without in a pipe."""

    usual = [Column("id", 6, keep="end"), Column("tool", 10), Column("time", 8, "right")]

    def drawn(cells, texts, *, width=None, below=None, columns=usual):
        screen = Screen(width is not None)
        monkeypatch.setattr("sys.stdout", screen)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setenv("COLUMNS", str(width or 80))
        table = Table(Terminal(), columns, "message")
        table.head()
        table.row([Text(each) for each in cells], [Text(each) for each in texts])
        if below is not None:
            table.below(Text(below))
        return screen.getvalue().splitlines()

    return drawn


ROW = ("a", "add", "1.0 s")


def test_a_text_stands_beside_its_row_where_there_is_room(draw):
    assert draw(ROW, ["fine"], width=100) == [
        " id      tool            time  message",
        " a       add            1.0 s  fine",
    ]


def test_a_text_stands_below_its_row_where_there_is_not(draw):
    assert draw(ROW, ["fine"], width=50) == [
        " id      tool            time",
        " a       add            1.0 s",
        "   fine",
    ]


def test_more_texts_stand_below_one_another(draw):
    assert draw(ROW, ["one", "two"], width=100)[2:] == [" " * 31 + "two"]


@pytest.mark.parametrize("width", [50, 100])
def test_a_text_too_long_goes_on_below_and_nothing_is_cut(draw, width):
    words = [f"word{number}" for number in range(40)]
    lines = draw(ROW, [" ".join(words)], width=width)
    assert len(lines) > 3
    assert " ".join(lines).split()[-40:] == words


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(draw, width):
    lines = draw(("identifier-123", "茶" * 30, "1.0 s"), ["茶 " * 90], width=width)
    assert max(map(cell_len, lines)) <= width


def test_a_text_below_the_table_stays_under_its_margin(draw):
    text = "12 calls in 2.1 s: 11 succeeded, 1 denied"
    assert draw(ROW, [], width=24, below=text)[2:] == [
        " 12 calls in 2.1 s: 11",
        " succeeded, 1 denied",
    ]
    assert draw(ROW, [], below=text)[2:] == [f" {text}"]


def test_of_an_id_too_long_the_end_is_kept(draw):
    assert draw(("call_abcdef123", *ROW[1:]), [], width=100)[1].startswith(" …ef123 ")


def test_in_a_pipe_nothing_is_cut(draw):
    lines = draw(("identifier-123", *ROW[1:]), ["word " * 100])
    assert "identifier-123" in lines[1]
    assert lines[1].endswith("word")


def test_markup_in_a_text_is_text(draw):
    assert draw(ROW, ["[red]x[/red] :smile:"], width=100)[1].endswith("[red]x[/red] :smile:")


def test_columns_are_as_wide_as_needed_up_to_a_limit():
    assert [widest(texts, 5) for texts in ([], ["ab", "c"], ["茶茶"], ["abcdefg"])] == [0, 2, 4, 5]


@pytest.mark.parametrize("columns", ["0", "-1", "\u00b2", "9" * 5000])
def test_a_width_that_is_no_positive_number_is_not_given(toolstile, monkeypatch, columns):
    status, plain, _ = toolstile("tools")
    monkeypatch.setenv("COLUMNS", columns)

    assert plain.count("\n") > 1
    assert toolstile("tools") == (status, plain, "")
