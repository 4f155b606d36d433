"""A width that is given counts only where it is one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from toolstile_plugins.approval.dialogue import Terminal
from toolstile_plugins.ledger.commands import show_table
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.screen import Screen, show_line


def _show_line() -> None:
    show_line("shown")


def _show_entries() -> None:
    show_table([], LedgerSettings(), datetime.now(UTC))


def _show_servers() -> None:
    Screen("").table(("server", "tools"), [["files", "1"]])


@pytest.mark.parametrize("show", [_show_line, _show_entries, _show_servers])
def test_no_console_is_without_any_room(monkeypatch, capsys, show) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda console: True))

    show()

    assert capsys.readouterr().out.strip()


def test_nor_are_texts_of_records_cut_for_that(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda console: True))

    Screen().table(["text"], [[("a text of more than twenty characters", "")]])

    assert "a text of more than twenty characters" in capsys.readouterr().out


def test_nor_is_a_question(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    with (tmp_path / "out").open("w+") as out:
        Terminal(0, out, None).show("Run it?")
        out.seek(0)
        assert out.read() == "Run it?\n"
