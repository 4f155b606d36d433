"""Quantities read well."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.support.text import counted, duration


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


def test_times_that_were_set_are_told_in_full():
    assert [counted(seconds, "second") for seconds in (0.05, 1, 1.0, 90.5, 2_592_001.0)] == [
        "0.05 seconds",
        "1 second",
        "1 second",
        "90.5 seconds",
        "2,592,001 seconds",
    ]
