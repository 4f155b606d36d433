"""The report of a record: one page that shows each call, and runs nothing of a call's text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import look
import pytest
from pydantic import SecretStr

from toolstile import Host, Settings, ToolCall
from toolstile_cli.main import main
from toolstile_hookspecs import ToolContext, tool
from toolstile_plugins.record.reader import Reader, Selection
from toolstile_plugins.record.report import ROOM, data_of, report_of
from toolstile_plugins.record.schema import RecordError

EVIL = "</script><!--<img src=x onerror=alert(1)>\u2028'\""


@pytest.fixture(scope="module")
def session(tmp_path_factory: Any) -> Path:
    return look.record_session(tmp_path_factory.mktemp("report") / "session")


@pytest.fixture(scope="module")
def calls(session: Path) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = data_of(Reader(session), Selection())["calls"]
    return calls


def data_in(page: str) -> Any:
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(found)


def test_the_command_writes_one_page(session: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "a.html"
    assert main(["record", "show", str(session), "--html", str(out)]) == 0
    assert "Open it in a browser." in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert data_in(page) == data_of(Reader(session), Selection())
    assert out.stat().st_mode & 0o777 == 0o600
    assert re.findall(r"(?:src|href)=", page) == []
    assert "{{" not in page


def test_the_command_takes_the_filters_of_show(session: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    assert main(["record", "show", str(session), "--html", str(out), "--outcome", "denied"]) == 0
    shown = data_in(out.read_text(encoding="utf-8"))["calls"]
    assert {call["status"] for call in shown} == {"denied"}


def test_a_folder_or_a_page_that_cannot_be_written_is_named(session: Path, tmp_path: Path) -> None:
    for record, out in ((session.parent, tmp_path / "a.html"), (session, tmp_path / "no" / "a")):
        assert main(["record", "show", str(record), "--html", str(out)]) == 2
        assert not out.exists()


def test_a_changed_record_is_refused(session: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(session.read_bytes().replace(b"oops", b"fine"))
    with pytest.raises(RecordError, match="cannot be relied on"):
        report_of(Reader(changed), Selection())


def test_a_call_has_its_batch_its_stages_and_its_diff(calls: list[dict[str, Any]]) -> None:
    assert len({call["batch"] for call in calls[:3]}) == 1
    assert "batch" not in calls[3]
    torn = next(call for call in calls if "torn" in str(call["arguments"]))
    assert torn["gone"] is True
    assert "+torn" in torn["diff"]
    assert len(torn["times"]) > 5


def test_answers_have_the_time_that_people_took(calls: list[dict[str, Any]]) -> None:
    paid = [call for call in calls if call["tool"] == "pay"]
    assert [call["status"] for call in paid] == ["succeeded", "denied", "pending", "succeeded"]
    answers = [call["answer"] for call in paid]
    assert [each["answer"] for each in answers] == ["approved", "denied", "approved", "approved"]
    assert answers[1]["reason"] == "Ask for less than 100."
    assert [each["seconds"] >= look.PAUSE for each in answers] == [True] * 4
    assert answers[2]["seconds"] == answers[3]["seconds"]


def test_an_undo_names_its_calls(calls: list[dict[str, Any]]) -> None:
    *_, undone, undo = calls
    assert undo["undoes"] == [undone["id"]]


@tool
def log_in(password: SecretStr, *, context: ToolContext) -> str:
    """Sign in."""
    return f"In with {password.get_secret_value()}."


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def recorded(folder: Path, *made: ToolCall) -> Path:
    record = folder / "calls.jsonl"
    settings = Settings.model_validate(
        {"durability": "process", "plugins": {"record": {"file": record, "diff": True}}}
    )
    with Host(settings=settings, tools=[log_in, echo]) as host, host.executor() as executor:
        for call in made:
            executor.dispatch(call)
    return record


def test_secrets_stay_masked(tmp_path: Path) -> None:
    page, _ = report_of(
        Reader(recorded(tmp_path, ToolCall("log_in", {"password": "hunter22"}))), Selection()
    )
    assert "hunter22" not in page
    assert "In with ***." in page


def test_no_text_leaves_its_element(tmp_path: Path) -> None:
    page, _ = report_of(Reader(look.record_session(tmp_path / "evil", EVIL)), Selection())
    told = page.partition('id="data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028") & set(told)
    assert page.count("</script>") == 2
    assert EVIL in data_in(page)["transactions"][-1]["title"]


def test_the_longest_texts_are_cut_so_that_all_fit(tmp_path: Path) -> None:
    texts = ["short", "<" * ROOM, "x" * ROOM]
    record = recorded(tmp_path, *(ToolCall("echo", {"text": text}) for text in texts))
    page, _ = report_of(Reader(record), Selection())
    assert len(page.encode()) < 1.3 * ROOM
    short, *cut = data_in(page)["calls"]
    assert short["text"] == "short"
    for call in cut:
        assert call["arguments"].endswith(f"show calls.jsonl --line {call['n']}")
    assert data_in(page)["notes"] == ["2 long texts cut, so that the page stays small."]
