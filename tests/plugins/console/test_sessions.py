"""The sections Sessions and one session: state, timeline and undo, over HTTP."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from toolstile_hookspecs import ToolCall
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.console import sessions
from toolstile_plugins.record.reader import Reader, Selection
from toolstile_plugins.record.report import data_of

from .conftest import EVIL, Desk, Visitor

ODD = ("..", "a/../b?x=1#y", EVIL)


class Shop(Desk):
    """A desk whose sessions are stored, whose calls can be undone, and that has plans."""

    def __init__(self, folder: Path, stack: ExitStack, *, is_apart: bool = False) -> None:
        more = {
            # One file decides calls.
            "sessions": {"path": str(folder / "ledger.db")},
            "undo": {"path": str(folder / "undo")},
            "planning": {"strategy": "react"},
        }
        # As the command `console` sets it.
        apart = {"file": str(folder / "calls.jsonl"), "off": "true"}
        super().__init__(folder, stack, record=apart if is_apart else None, more=more)

    def put(self, path: str, content: str) -> None:
        assert self.call("write_file", path=path, content=content).success

    def names(self) -> set[str]:
        return {each.name for each in self.workspace.glob("*.txt")}


@pytest.fixture
def shop(tmp_path: Path, stack: ExitStack) -> Shop:
    return Shop(tmp_path, stack)


@pytest.fixture
def guest(shop: Shop, stack: ExitStack) -> Visitor:
    return Visitor(shop, stack.enter_context(shop.client()))


def address(guest: Visitor, session: str = "s") -> str:
    found = {each["session"]: each["name"] for each in guest.json("/sessions")["sessions"]}
    return f"/sessions/{found[session]}"


def tokens(page: str) -> list[str]:
    found: list[str] = re.findall(r'name="once" value="([^"]+)"', page)
    return found


def undo(guest: Visitor, where: str, *calls: str, **more: str) -> Any:
    once = tokens(guest.get(where).text)[0]
    return guest.post(where, {"once": once, "call": [*calls], **more})


def test_sessions_of_any_name_have_a_page(shop: Shop, guest: Visitor) -> None:
    for session in ODD:
        with shop.host.executor(session_id=session) as tools:
            tools.dispatch(ToolCall("read_file", {"path": "old.txt"}))
            tools.dispatch(ToolCall("read_file", {"path": EVIL}))
    listed = guest.json("/sessions")["sessions"]
    assert [each["session"] for each in listed] == [*reversed(ODD)]
    assert {(each["calls"], each["failed"]) for each in listed} == {(2, 1)}
    for each in listed:
        page = guest.get(f"/sessions/{each['name']}")
        assert (page.status_code, "<script>alert" in page.text) == (200, False)
        calls = guest.json(f"/sessions/{each['name']}/timeline")["calls"]
        assert {call["session"] for call in calls} == {each["session"]}
    for name in ("..%2f..", "nothing", quote("a/../b?x=1#y"), "%00", "' OR 1 --"):
        assert guest.get(f"/sessions/{name}").status_code == 404
        assert guest.get(f"/sessions/{name}/timeline").status_code == 404


def test_many_sessions_are_listed_page_by_page(
    shop: Shop, guest: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST", 2)
    for number in range(5):
        with shop.host.executor(session_id=f"{number}") as tools:
            tools.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    seen, path = [], "/sessions"
    while path:
        page = guest.json(path)
        seen += [each["session"] for each in page["sessions"]]
        path = page["older"] and f"/sessions?{page['older']}"
    assert seen == ["4", "3", "2", "1", "0"]


def test_a_session_shows_its_plan_state_and_files(shop: Shop, guest: Visitor) -> None:
    shop.call("planning_setup_plan", objective=f"Sell {EVIL}", initial_steps=["Bake"])
    shop.put("new.txt", "a\n")
    shop.call("sign_up", password="hunter22")
    found = guest.json(address(guest))
    kinds = {each["type"]: each["number"] for each in found["slices"]}
    assert kinds["toolstile_plugins.planning:Plan"] == 1
    assert [each["changed"] for each in found["undoable"]] == [
        ["new.txt"],
        ["toolstile_plugins.planning:Plan"],
    ]
    page = guest.get(address(guest)).text
    assert "1. [ ] Bake" in page
    assert "<code>new.txt</code>" in page
    timeline = guest.get(f"{address(guest)}/timeline").text
    assert "***" in timeline
    assert "hunter22" not in page + timeline
    assert "<script>alert" not in page


def test_a_session_that_is_not_stored_is_told_and_not_begun(shop: Shop, guest: Visitor) -> None:
    shop.call("read_file", path="old.txt")
    store: Any = shop.tools.resources.get(SessionStore)  # type: ignore[type-abstract]
    store.delete("s")
    page = guest.get(address(guest)).text
    assert "This session is not stored" in page
    assert [info.id for info in store.sessions()] == []


def test_the_timeline_has_the_data_of_a_report(
    shop: Shop, guest: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put("new.txt", "a\n")
    shop.call("twice", path="old.txt")
    with shop.tools.transaction("both") as work:
        for number in range(2):
            call = ToolCall("write_file", {"path": f"{number}.txt", "content": "b"})
            work.dispatch(call)
        work.rollback("No.")
    guest.answer(shop.ask(to="mia"), "deny", reason="No")
    where = f"{address(guest)}/timeline"
    shown, report = guest.json(where), data_of(Reader(shop.folder / "calls.jsonl"), Selection())
    del report["title"]
    assert shown == report
    assert [end["status"] for end in shown["transactions"]] == ["rolled_back"]
    assert shown["calls"][-1]["answer"]["answer"] == "denied"
    monkeypatch.setattr(sessions, "MOST_CALLS", 3)
    shown = guest.json(where)
    assert [call["id"] for call in shown["calls"]] == [call["id"] for call in report["calls"][-3:]]
    assert shown["notes"] == [f"{len(report['calls']) - 3} earlier calls left out."]


def test_a_call_is_undone_once_and_by_its_own_form(shop: Shop, guest: Visitor) -> None:
    shop.put("one.txt", "1")
    shop.put("two.txt", "2")
    where = address(guest)
    newest, oldest = (each["id"] for each in guest.json(where)["undoable"])
    once = tokens(guest.get(where).text)
    foreign = tokens(guest.get("/").text)[0]
    for token in ("", foreign, once[0][:-1] + "x"):
        assert guest.post(where, {"once": token, "call": newest}).status_code == 409
    assert guest.post(where, {"once": once[0], "call": newest, "csrf": "x"}).status_code == 403
    assert shop.names() == {"old.txt", "one.txt", "two.txt"}
    answer = guest.post(where, {"once": once[0], "call": newest})
    assert "Back to the former state: two.txt." in answer.text
    assert shop.names() == {"old.txt", "one.txt"}
    assert guest.post(where, {"once": once[0], "call": oldest}).status_code == 409
    for calls in ([newest], [oldest, newest], [oldest[:8]], ["nothing"], []):
        assert undo(guest, where, *calls).status_code == 409
    assert shop.names() == {"old.txt", "one.txt"}
    assert guest.json("/calls")["calls"][0]["principal"] == "bob"


@pytest.mark.parametrize("is_running", [True, False])
def test_the_console_of_another_process_records_its_undo(
    shop: Shop, stack: ExitStack, tmp_path: Path, is_running: bool
) -> None:
    shop.put("one.txt", "1")
    if not is_running:
        shop.host.close()
    other = Shop(tmp_path, stack, is_apart=True)
    guest = Visitor(other, stack.enter_context(other.client()))
    (call,) = guest.json(address(guest))["undoable"]
    assert undo(guest, address(guest), call["id"]).status_code == 200
    assert other.names() == {"old.txt"}
    tools = [call["tool"] for call in guest.json(f"{address(guest)}/timeline")["calls"]]
    assert tools == ["write_file", "undo_calls"]


def test_a_call_of_another_session_is_not_undone(shop: Shop, guest: Visitor) -> None:
    shop.put("one.txt", "1")
    (one,) = guest.json(address(guest))["undoable"]
    with shop.host.executor(session_id="t") as tools:
        tools.dispatch(ToolCall("write_file", {"path": "t.txt", "content": "t"}))
    assert undo(guest, address(guest, "t"), one["id"]).status_code == 409
    assert "one.txt" in shop.names()


def test_values_of_others_are_named_and_asked_about_again(shop: Shop, guest: Visitor) -> None:
    shop.put("one.txt", "1")
    shop.put("two.txt", "2")
    where = address(guest)
    calls = [each["id"] for each in guest.json(where)["undoable"]]
    (shop.workspace / "one.txt").write_text(f"by another {EVIL}")
    asked = undo(guest, where, *calls)
    assert "one.txt" in asked.text
    assert "<script>alert" not in asked.text
    assert shop.names() == {"old.txt", "one.txt", "two.txt"}
    fields = dict(re.findall(r'name="(once|sure)" value="([^"]+)"', asked.text))
    # The values have changed since: the person has not seen these.
    (shop.workspace / "two.txt").write_text("by another, too")
    again = guest.post(where, {**fields, "call": calls})
    assert "two.txt" in again.text
    (shop.workspace / "two.txt").write_text("2")
    fields = dict(
        re.findall(r'name="(once|sure)" value="([^"]+)"', undo(guest, where, *calls).text)
    )
    done = guest.post(where, {**fields, "call": calls})
    assert "These values stay" in done.text
    assert shop.names() == {"old.txt", "one.txt"}
    assert guest.post(where, {**fields, "call": calls}).status_code == 409


def test_without_notes_or_record_the_pages_name_the_remedy(
    desk: Desk, visitor: Visitor, tmp_path: Path, stack: ExitStack
) -> None:
    desk.call("read_file", path="old.txt")
    assert "[plugins.undo]" in visitor.get(address(visitor)).text
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", stack, record={"off": "true"})
    guest = Visitor(other, stack.enter_context(other.client()))
    assert guest.json("/charts") == []
    for path in ("/charts", "/sessions"):
        assert "No calls are recorded here." in guest.get(path).text
