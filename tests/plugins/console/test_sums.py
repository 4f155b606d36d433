"""Sums of calls by half an hour, and the charts that are drawn out of them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import look
import pytest
from console_day import lines

from toolstile_plugins.console import call_index
from toolstile_plugins.console.call_index import CallIndex, Filter
from toolstile_plugins.console.charts import DAY, HEIGHT, charts_of
from toolstile_plugins.console.pages import id_of
from toolstile_plugins.console.sums import ANSWERED, OUTCOME, REFUSAL, SPAN, STAGE, WENT_ON, Sum

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def numbers(index: CallIndex, kind: str) -> Counter[str]:
    found = Counter[str]()
    for each in index.sums(0):
        found[each.name] += each.number if each.kind == kind else 0
    return +found


def test_each_call_of_a_session_counts_once(tmp_path: Path, monkeypatch: Any) -> None:
    record = look.record_session(tmp_path)
    # Blocks of a line or two.
    monkeypatch.setattr(call_index, "_BLOCK", 2000)
    index = CallIndex([record])
    calls = index.page(Filter(), 1000)
    assert numbers(index, OUTCOME) == Counter(row.status.value for row in calls)
    assert numbers(index, REFUSAL) == {"plugin Guard": 1, "a person": 1}
    assert numbers(index, STAGE)["handler"] > numbers(index, OUTCOME)["error"]
    waits = [each for each in index.sums(0) if each.name == ANSWERED]
    assert sum(each.number for each in waits) == 4
    # Of the four, the undo was answered by itself.
    assert sum(each.seconds for each in waits) >= 3 * look.PAUSE
    (session,) = index.sessions(9)
    failed = sum(row.status.value != "succeeded" for row in calls)
    assert (session.calls, session.failed) == (len(calls), failed)
    record.unlink()
    assert (index.sums(0), index.sessions(9)) == ([], [])


def line(kind: str, second: float, /, **said: Any) -> str:
    at = (NOON + timedelta(seconds=second)).isoformat()
    call = {"session": "s", "id": "c", "seconds": 1.0, "stage": "commit", "envelope": {"tool": "t"}}
    said = {**(call if kind == "call" else {}), "kind": kind, "at": at, **said}
    return json.dumps({"n": 1, "prev": "", **said}, separators=(",", ":")) + "\n"


PENDING = line("call", 0, status="pending", approval={"answer": "pending"})
ANSWER = line("approval", 11, call="c", act="approved")
STAGES = [["check", 0.0], ["approve", 0.25], ["execute", 0.75]]


@pytest.mark.parametrize(
    ("first", "more", "answered", "went_on"),
    [
        ("", {}, 0.0, 0.0),
        ("", {"stages": STAGES}, 0.5, 0.0),
        (PENDING, {"stages": STAGES}, 29.0, 0.0),
        (PENDING + ANSWER, {}, 10.0, 19.0),
        (PENDING + ANSWER, {"session": "other"}, 0.0, 0.0),
        (PENDING + line("call", 5, status="failed", approval={"answer": "x"}), {}, 4.0, 0.0),
    ],
    ids=["no stages", "in the call", "resumed", "answered", "another session", "an id again"],
)
def test_a_wait_lasts_to_the_answer_and_then_to_the_call(
    tmp_path: Path, first: str, more: dict[str, Any], answered: float, went_on: float
) -> None:
    record = tmp_path / "calls.jsonl"
    given = {"status": "denied", "approval": {"answer": "denied"}, **more}
    record.write_text(first + line("call", 30, **given))
    sums = {each.name: each.seconds for each in CallIndex([record]).sums(0)}
    assert (sums[ANSWERED], sums[WENT_ON]) == (answered, went_on)


DAMAGES: list[dict[str, Any]] = [
    {"at": "x"},
    {"at": "9999-12-31T23:59:59+00:00", "seconds": 10.0},
    {"at": "0001-01-01T00:00:00+14:00"},
    {"decisions": [{"policy": ["x"], "verdict": "deny"}], "status": "denied"},
    {"envelope": {"tool": ["x"]}},
    {"kind": "transaction", "id": ["x"]},
    {"kind": "approval", "call": "c", "at": ["x"]},
    *({"seconds": value} for value in (None, "1", 1e300, float("inf"), 10**400)),
    *({name: ["x"]} for name in ("id", "session", "status", "user", "parent", "transaction")),
    *({"stages": value} for value in (3, ["x"], [["x", "y"]])),
]


def test_damaged_lines_hide_no_other(tmp_path: Path) -> None:
    record = tmp_path / "calls.jsonl"
    good = {"status": "succeeded"}
    damaged = [line("call", 0, **{**good, "session": "t", **damage}) for damage in DAMAGES]
    record.write_text("".join(["[]\n", "?\n", '{"kind":1}\n', *damaged, line("call", 0, **good)]))
    index = CallIndex([record])
    assert numbers(index, OUTCOME)["succeeded"] >= 1
    assert [session.calls for session in index.sessions(9, name=id_of("s"))] == [1]
    assert len(index.page(Filter(session="s"), 9)) == 1


@pytest.mark.slow
def test_a_page_reads_as_much_for_many_calls_as_for_few(tmp_path: Path) -> None:
    read = []
    for calls in (5_000, 50_000):
        record = tmp_path / f"{calls}.jsonl"
        record.write_text("".join(lines(calls, NOON)))
        index = CallIndex([record])
        sums = index.sums(int(NOON.timestamp()) - DAY)
        read.append({(each.at, each.kind, each.name) for each in sums})
        assert sum(each.number for each in sums if each.kind == OUTCOME) == calls
        assert sum(session.calls for session in index.sessions(2_000)) == calls
    assert read[0] == read[1]


def test_charts_show_the_day_alone() -> None:
    now = int(NOON.timestamp())
    old, new = now - DAY, now - SPAN
    sums = [
        Sum(old, OUTCOME, "succeeded", 1000, 1.0),
        Sum(new, OUTCOME, "succeeded", 999, 1.0),
        Sum(new, OUTCOME, "timed_out", 1, 1.0),
        *(Sum(new, REFUSAL, f"rule {number}", number, 0.0) for number in range(1, 8)),
    ]
    outcomes, refusals = charts_of(sums, NOON)
    ((_, told, bars),) = outcomes.columns
    assert told == "11:30: 999 succeeded, 1 timed out"
    # One call of a thousand is seen, and the column fits.
    assert all(height >= 1.5 for _, _, height in bars)
    assert min(y for _, y, _ in bars) >= 0
    assert sum(height for _, _, height in bars) <= HEIGHT
    assert outcomes.rows == [("good", "succeeded", "999"), ("bad", "timed out", "1")]
    assert charts_of([], NOON) == []
    assert [name for _, name, _ in refusals.rows] == [f"rule {n}" for n in range(7, 0, -1)]
    assert [colour for colour, *_ in refusals.rows[-3:]] == ["check"] * 3
