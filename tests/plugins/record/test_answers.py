"""The recorded call that answers a call, and those still to come."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import Stage, Status
from toolstile_plugins.record import Recording
from toolstile_plugins.record.replayer import (
    ById,
    NotRecordedError,
    RecordedAnswers,
    answering,
    key_of,
)
from toolstile_plugins.record.schema import RecordedCall


def made(line: int, params: Any = None, tool: str = "add", **more: Any) -> RecordedCall:
    told = {"status": Status.SUCCEEDED, "stage": Stage.TELEMETRY, "at": datetime.now(UTC)}
    place = {"n": line, "prev": "", "hash": "", "kind": "call", "session": "s", "id": f"c{line}"}
    call = {"params": params, "seconds": 0, "envelope": {"tool": tool}}
    return RecordedCall.model_validate({**told, **place, **call, **more})


def lines_of(calls: Any) -> list[int]:
    return [each.n for each in calls]


def test_arguments_are_the_same_in_any_order():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


@pytest.mark.parametrize("strict", [True, False])
def test_a_mask_in_arguments_stands_for_no_other_text(strict):
    with pytest.raises(NotRecordedError):
        RecordedAnswers([made(2, "a ***")], strict=strict).take("add", "a b")


def test_the_next_call_is_no_other_tool_s():
    with pytest.raises(NotRecordedError, match="is add"):
        RecordedAnswers([made(2, {"text": "a"})], strict=True).take("echo", {"text": "a"})


@pytest.mark.parametrize("strict", [True, False])
def test_long_arguments_are_told_by_their_beginning(strict):
    with pytest.raises(NotRecordedError) as told:
        RecordedAnswers([made(2, "b" * 1000)], strict=strict).take("add", "a" * 1000)
    assert len(str(told.value)) < 700


@pytest.mark.parametrize("strict", [True, False])
def test_what_is_left_is_in_the_recorded_order(strict):
    answers = RecordedAnswers([made(2, 1), made(3, 2), made(4, 1), made(5, 1)], strict=strict)
    assert lines_of(answers.left()) == [2, 3, 4, 5]
    assert 2 in lines_of(answers.left_before(made(4, 1)))
    assert not {4, 5} & set(lines_of(answers.left_before(made(4, 1))))


def test_calls_of_one_id_are_found_and_all_are_in_order():
    calls = ById([made(2, id="a"), made(3, id="b"), first := made(4, id="a")])
    assert lines_of(calls.named("a")) == [2, 4]
    assert lines_of(calls) == [2, 3, 4]
    for _ in range(2):
        calls.discard(first)
    assert lines_of(calls) == [2, 3]
    assert list(calls.named("c")) == []


@pytest.mark.parametrize(("outermost", "lines"), [("all", [4]), ("some", [2])])
def test_what_is_within_an_answered_call_is_not_answered_however_deep(outermost, lines):
    between = made(3, tool="between", parent="c4")
    calls = (made(2, parent="c3"), between, made(4, tool=outermost))
    assert lines_of(answering(Recording(Path("r"), calls), {"add", "all"})) == lines


def test_calls_that_are_said_to_be_within_each_other_end_the_search():
    calls = (made(2, parent="c3"), made(3, tool="between", parent="c3"))
    assert lines_of(answering(Recording(Path("r"), calls), {"add"})) == [2]
