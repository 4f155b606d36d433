from __future__ import annotations

import os

import pytest

from toolstile_plugins.screen import environment, printable_lines


def test_lines_are_printable_each():
    assert printable_lines("a\n\n\tb\x1b\u2028c\n") == ["a", "", r"    b\x1b\u2028c"]


@pytest.mark.parametrize("columns", ["0", "000", "-3", "\u00b2", "9" * 5000, "wide", ""])
def test_what_is_no_positive_number_is_not_given(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")

    assert {**environment(), "COLUMNS": columns} == dict(os.environ)
    assert "COLUMNS" not in environment()


@pytest.mark.parametrize("columns", ["1", "80", "0100"])
def test_a_number_of_columns_is(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert environment()["COLUMNS"] == columns
