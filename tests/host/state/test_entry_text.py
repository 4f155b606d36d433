"""The changes of an entry as text are read as they were written, long lists of items late."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile.state.journal import JsonItems, read, written

TEXTS = st.text(st.characters(codec="utf-8"))
ITEMS = st.lists(st.dictionaries(TEXTS, TEXTS | st.integers() | st.none(), max_size=2), max_size=3)
CHANGES = st.builds(
    lambda slices, logs, whole: {
        "slices": {name: {"at": 0, "items": items} for name, items in slices.items()},
        "records": [],
        "removed": [],
        "logs": logs,
        **({"whole": True} if whole else {}),
    },
    st.dictionaries(TEXTS, ITEMS, max_size=3),
    st.dictionaries(TEXTS, ITEMS, max_size=3),
    st.booleans(),
)


def plain(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes with their items in lists."""
    slices = {
        name: {**change, "items": [*change["items"]]} for name, change in changes["slices"].items()
    }
    logs = {name: [*items] for name, items in changes["logs"].items()}
    return {**changes, "slices": slices, "logs": logs}


@given(st.lists(CHANGES, max_size=4))
def test_changes_are_read_as_they_were_written(changes):
    found = read([written(each) for each in changes])
    assert [plain(each) for each in found] == changes


@given(CHANGES)
def test_a_whole_state_in_one_line_is_read_as_well(changes):
    assert plain(read([json.dumps(changes)])[0]) == changes


def test_values_are_read_when_somebody_looks_at_one():
    items = JsonItems("no JSON", 3)
    assert len(items) == 3
    with pytest.raises(ValueError, match="Expecting value"):
        items.last()


def test_values_are_read_once():
    items = JsonItems('["a", "b"]', 2)
    more = items.extended(object(), ["c"])
    assert items.last() == "b"
    assert more.after(0) == ["a", "b", "c"]
    assert items.own() == ["a", "b"]
    assert items.tail is items.tail


def test_nothing_else_is_made_up():
    with pytest.raises(AttributeError, match="head"):
        JsonItems("[]", 0).head  # noqa: B018 - it is asked for
