"""A record shows quantities as the command line shows them of a run."""

from __future__ import annotations

import pytest

from toolyard.cli import text
from toolyard_plugins.record import quantities


@pytest.mark.parametrize("seconds", [0, 0.00042, 0.00996, 0.0123, 0.9996, 3.21, 59.96, 125.4])
def test_times_are_those_of_a_run(seconds):
    assert quantities.duration(seconds) == text.duration(seconds)


@pytest.mark.parametrize("number", [0, 1, 2, 1234])
def test_things_are_counted_as_in_a_run(number):
    assert quantities.counted(number, "call") == text.counted(number, "call")
