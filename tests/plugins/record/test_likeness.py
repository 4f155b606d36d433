"""A recorded value with masks in it fits many values, but not any."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile_plugins.record.replayer import key_of, may_be


def test_arguments_are_the_same_in_any_order():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("recorded", "given"),
    [
        ("***", "anything"),
        ("***", 1234),
        ("***", "***"),
        ("a *** b", "a  b"),
        ("a *** b", "a *** b"),
        ("*** and ***", "one and two and three"),
        ("x***y***z***", "xyz"),
        ({"a": ["***", 1], "b": None}, {"b": None, "a": ["c", 1]}),
    ],
)
def test_a_mask_may_have_been_any_text_or_number(recorded: Any, given: Any):
    assert may_be(recorded, given)


@pytest.mark.parametrize(
    ("recorded", "given"),
    [
        ("a *** b", "a b"),
        ("aa***aa", "aaa"),
        ("a *** b", 7),
        ("***x", "y"),
        ("x***", "y"),
        ("***, ***", "one and two"),
        ("***", ["a"]),
        ("***", {"a": 1}),
        ("***", None),
        ("text", "another"),
        (1, True),
        (["***"], ["a", "b"]),
        (["***", 1], ["a", 2]),
        ({"a": "***"}, {"b": "c"}),
        ({"a": "***", "b": 1}, {"a": "c", "b": 2}),
        ({"a": "***"}, ["a"]),
    ],
)
def test_around_it_all_is_as_it_was(recorded: Any, given: Any):
    assert not may_be(recorded, given)
