"""Differences are told as JSON sees them."""

from __future__ import annotations

import pytest

from toolstile_plugins.record import Recording
from toolstile_plugins.record.replayer import Comparison


@pytest.mark.parametrize(
    ("then", "now", "differs"),
    [
        ([1, {"a": 1, "b": 2}], [1, {"b": 2, "a": 1}], False),
        (1, True, True),
        ([0], [False], True),
        (1, 1.0, True),
    ],
)
def test_values_that_only_python_takes_for_equal_differ(desk, path, then, now, differs):
    desk.record(path, ("echo", {"text": "a"}))
    [recorded] = Recording.load(path).calls
    envelope = recorded.envelope
    envelope["data"] = then
    compared = Comparison(recorded, {**envelope, "data": now})
    assert (compared.differs, compared.wire()["same"]) == (differs, not differs)


def test_a_call_that_was_not_made_is_not_the_same(desk, path):
    desk.record(path, ("echo", {"text": "a"}))
    [recorded] = Recording.load(path).calls
    assert not Comparison(recorded, skipped="masked").wire()["same"]
