"""The log on standard error: lines for people, or one JSON object per record."""

import json
from datetime import UTC, datetime, timedelta

import pytest


def records_of(err: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


@pytest.fixture
def as_json(monkeypatch):
    monkeypatch.setenv("TOOLSTILE_LOG", "json")


def test_a_record_is_one_object_with_its_time(toolstile, as_json):
    _, _, err = toolstile("call", "fail_after_note", '{"text": "x"}', "-v")
    (failure,) = [each for each in records_of(err) if "broken" in each["message"]]
    assert set(failure) == {"time", "level", "logger", "message"}
    assert failure["logger"].startswith("toolstile")
    assert failure["level"] in {"warning", "error"}
    age = datetime.now(UTC) - datetime.fromisoformat(failure["time"])
    assert timedelta() <= age < timedelta(minutes=5)


def test_a_traceback_is_a_field_with_vv(toolstile, as_json):
    _, _, err = toolstile("call", "fail_after_note", '{"text": "x"}', "-vv")
    (told,) = {each["traceback"] for each in records_of(err) if "traceback" in each}
    assert told.startswith("Traceback (most recent call last):\n")
    # No line of it stands outside of its object.
    assert "Traceback" not in "".join(line for line in err.splitlines() if line[:1] != "{")


def test_without_the_setting_records_are_lines(toolstile):
    _, _, err = toolstile("call", "fail_after_note", '{"text": "x"}', "-v")
    assert not records_of(err)
    assert "toolstile: " in err


def test_another_form_is_refused(toolstile, monkeypatch):
    monkeypatch.setenv("TOOLSTILE_LOG", "xml")
    status, _, err = toolstile("call", "fail_after_note", "{}")
    assert status == 2
    assert "TOOLSTILE_LOG" in err
    assert "json" in err
