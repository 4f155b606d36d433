"""A stored session is one session, whichever host moves it."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, Session, Settings
from toolstile.state.journal import JsonItems
from toolstile_hookspecs import (
    ApprovalRequest,
    Binding,
    ConfigurationError,
    Filesystem,
    IdempotencyConfig,
    PolicyState,
    SlicePolicy,
    Status,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, LedgerEntry, LedgerStore
from toolstile_hookspecs.services.session_store import Entry
from toolstile_hookspecs.sessions import append_all
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

from .conftest import Note, call, texts

EMPTY: dict[str, Any] = {"slices": {}, "records": [], "removed": [], "logs": {}}
"""The changes of an entry that has none."""


@tool(category="write")
def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    context.session[Note].append(Note(text))
    return text


@tool(category="write", idempotency=IdempotencyConfig())
def pay(amount: int, *, context: ToolContext) -> str:
    """Pay once."""
    context.session[Note].append(Note(f"paid {amount}"))
    return str(amount)


@tool(category="write")
def write(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    context.resources.get(Filesystem).write(path, text)  # type: ignore[type-abstract]
    return path


@tool(category="read")
def read(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    return context.resources.get(Filesystem).read(path)  # type: ignore[type-abstract]


def test_two_hosts_see_one_session(hosts):
    one, two = hosts.executor(note), hosts.executor(note)
    for number, executor in enumerate([one, two, one, one, two]):
        assert call(executor, "note", text=str(number)).success
    assert texts(two) == ["0", "1", "2", "3", "4"]
    call(one, "note", text="5")
    assert texts(one) == ["0", "1", "2", "3", "4", "5"]


def test_a_session_outlives_its_hosts(hosts):
    one = hosts.executor(note)
    call(one, "note", text="a")
    one.session[Note].append(Note("b"))
    hosts.close()
    assert texts(hosts.executor(note)) == ["a", "b"]


def test_within_a_host_a_stored_id_is_one_session(hosts):
    host = hosts.open(note)
    with host.executor(session_id="s") as one, host.executor(session_id="s") as two:
        assert one.session is two.session
        with host.executor(session_id="t") as other:
            assert other.session is not one.session


def test_an_executor_that_opens_finds_what_others_have_moved_meanwhile(hosts):
    one, two = hosts.open(note), hosts.executor(note)
    with one.executor(session_id="s") as before:
        assert texts(before) == []
        call(two, "note", text="a")
        with one.executor(session_id="s") as now:
            assert texts(now) == ["a"]


def test_without_an_id_a_session_stays_in_memory(hosts):
    host = hosts.open(note)
    with host.executor() as tools:
        call(tools, "note", text="a")
        assert tools.session.journal is None
    assert hosts.store().sessions() == []


def test_direct_writes_restores_resets_and_clears_are_movements_as_well(hosts):
    one, two = hosts.executor(note), hosts.executor(note)

    def seen() -> list[str]:
        call(two, "note", text="-")
        found = texts(two)
        two.session[Note].clear(lambda item: item.text == "-")
        return found[:-1]

    one.session[Note].append(Note("a"))
    snapshot = one.session.snapshot()
    one.session[Note].append(Note("b"))
    assert seen() == ["a", "b"]
    call(one, "note", text="c")
    one.session.restore(snapshot)
    assert seen() == ["a"]
    one.session[Note].seed(Note("x"), Note("y"))
    assert seen() == ["x", "y"]
    one.session.reset()
    assert seen() == []
    assert two.session.epoch > 0


def test_a_call_that_read_what_another_host_changed_conflicts(hosts):
    two = hosts.executor(note)
    runs: list[int] = []

    @tool(category="write")
    def reads(*, context: ToolContext) -> str:
        """Read what another host changes meanwhile."""
        context.session[Note].latest()
        runs.append(1)
        call(two, "note", text=f"other {len(runs)}")
        context.session[Note].append(Note("mine"))
        return "done"

    one = hosts.executor(reads)
    assert call(one, "reads").status == Status.CONFLICT
    assert texts(one) == ["other 1"]


def test_a_contained_one_runs_again_and_a_second_conflict_ends_it(hosts):
    two = hosts.executor(note)
    runs: list[int] = []
    most = 1

    @tool(contained=True)
    def reads(*, context: ToolContext) -> str:
        """Read what another host changes meanwhile."""
        context.session[Note].latest()
        runs.append(1)
        if len(runs) <= most:
            call(two, "note", text=f"other {len(runs)}")
        context.session[Note].append(Note("mine"))
        return "done"

    one = hosts.executor(reads)
    outcome = call(one, "reads")
    assert (outcome.success, outcome.event.reruns) == (True, 1)
    assert texts(one) == ["other 1", "mine"]
    runs.clear()
    most = 2
    assert call(one, "reads").status == Status.CONFLICT
    assert len(runs) == 2


def test_a_call_that_only_added_goes_on_top_of_what_another_host_added(hosts):
    two = hosts.executor(note)

    @tool(category="write")
    def adds(*, context: ToolContext) -> str:
        """Add while another host adds."""
        call(two, "note", text="other")
        context.session[Note].append(Note("mine"))
        return "done"

    one = hosts.executor(adds)
    assert call(one, "adds").success
    assert texts(one) == ["other", "mine"]


def test_a_direct_write_cannot_come_between_a_record_and_the_head(hosts):
    """The ledger records in the same section in which direct writes of the session take turns."""
    one = hosts.executor(pay)
    other = hosts.executor(note)

    class Meanwhile:
        @hookimpl
        def toolstile_on_result(self) -> None:
            one.session[Note].append(Note("direct"))
            call(other, "note", text="other host")

    host = hosts.open(pay, plugins=(Meanwhile(),))
    with host.executor(session_id="s") as tools:
        outcome = call(tools, "pay", amount=3)
        assert outcome.success
        assert texts(tools) == ["direct", "other host", "paid 3"]
        assert call(tools, "pay", amount=3).event.replayed


def test_a_hit_of_the_ledger_on_a_host_that_is_behind_adds_nothing_twice(hosts):
    one, two = hosts.executor(pay), hosts.executor(pay)
    assert call(one, "pay", amount=3).success
    hit = call(two, "pay", amount=3)
    assert hit.event.replayed
    assert texts(two) == ["paid 3"]


def test_a_call_that_waited_for_another_hosts_equal_one_gets_its_result(hosts):
    """Its changes of the session are there by then, and are not taken for a conflict."""
    is_waited_for = threading.Event()

    class Telling(SqliteStore):
        def claim(self, claim: Claim, **options: Any) -> LedgerEntry | None:
            standing = super().claim(claim, **options)
            if standing is not None:
                is_waited_for.set()
            return standing

    @tool(category="write", idempotency=IdempotencyConfig())
    def pay_late(amount: int, *, context: ToolContext) -> str:
        """Pay once another host waits for it."""
        assert is_waited_for.wait(30)
        context.session[Note].append(Note(f"paid {amount}"))
        return str(amount)

    store = Telling(hosts.file)
    one = hosts.executor(pay_late)
    two = hosts.executor(pay_late, resources=[Binding.instance(LedgerStore, store)])
    with closing(store), ThreadPoolExecutor(2) as pool:
        first = pool.submit(call, one, "pay_late", amount=3)
        while not list(store.entries()):
            time.sleep(0.01)
        second = pool.submit(call, two, "pay_late", amount=3)
        assert first.result().success
        hit = second.result()
    assert (hit.status, hit.text) == (Status.SUCCEEDED, "3")
    assert hit.event.replayed
    assert texts(two) == ["paid 3"]


def test_only_the_host_that_committed_publishes_events(hosts):
    @dataclass(frozen=True)
    class Noted:
        text: str

    def keep(items: Any, event: Noted) -> list[Note]:
        return [*items, Note(event.text)]

    @tool(category="write")
    def tell(*, context: ToolContext) -> str:
        """Dispatch an event."""
        context.session.dispatch(Noted("told"))
        return "told"

    one, two = hosts.executor(tell), hosts.executor(note)
    heard: list[str] = []
    for name, executor in (("one", one), ("two", two)):
        executor.session[Note].register(Noted, keep)
        executor.session.dispatcher.subscribe(Noted, lambda event, name=name: heard.append(name))
    call(one, "tell")
    call(two, "note", text="after")
    assert texts(two) == ["told", "after"]
    assert heard == ["one"]


def test_what_other_hosts_log_is_there_in_the_order_of_the_entries(hosts):
    @dataclass(frozen=True)
    class Seen:
        text: str

    @tool
    def look(text: str, *, context: ToolContext) -> str:
        """Log, and fail where the text says so."""
        context.session[Seen].append(Seen(text))
        if text == "fails":
            raise ValueError(text)
        return text

    one, two = hosts.executor(look), hosts.executor(look)
    for executor in (one, two):
        executor.session[Seen].register(Seen, append_all, SlicePolicy.LOG)
    call(one, "look", text="a")
    call(two, "look", text="fails")
    call(one, "look", text="c")
    call(two, "look", text="d")
    for executor in (one, two):
        call(executor, "look", text="-")
    expected = ["a", "fails", "c", "d", "-", "-"]
    assert [seen.text for seen in two.session[Seen].all()] == expected
    hosts.close()
    again = hosts.executor(look)
    assert [seen.text for seen in again.session[Seen].all()] == expected


def test_a_slice_whose_type_nobody_has_named_is_carried_along(hosts):
    one, two = hosts.executor(note), hosts.executor(write)
    call(one, "note", text="a")
    call(two, "write", path="f.txt", text="x")
    carried = two.session.to_json()
    assert '"a"' in carried
    call(one, "note", text="b")
    snapshot = two.session.snapshot()
    call(two, "write", path="f.txt", text="y")
    two.session.restore(snapshot)
    call(one, "note", text="c")
    assert texts(one)[-1] == "c"
    assert texts(two) == texts(one)[: len(texts(two))]


def test_a_session_goes_back_to_a_moment_at_which_a_slice_was_json_still(hosts):
    call(hosts.executor(note), "note", text="a")
    one, two = hosts.executor(note), hosts.executor(note)
    snapshot = one.session.snapshot()
    call(one, "note", text="b")
    call(two, "note", text="c")
    one.session.restore(snapshot)
    call(two, "note", text="d")
    call(one, "note", text="e")
    assert texts(one) == ["a", "d", "e"]
    hosts.close()
    assert texts(hosts.executor(note)) == ["a", "d", "e"]


def test_a_stored_class_is_found_under_the_names_it_had(hosts):
    @stored_as("notes.Old")
    @dataclass(frozen=True)
    class Old:
        text: str

    @stored_as("notes.New", formerly=("notes.Old",))
    @dataclass(frozen=True)
    class New:
        text: str

    one, two = hosts.executor(note), hosts.executor(note)
    one.session[Old].append(Old("a"))
    call(two, "note", text="-")
    assert [item.text for item in two.session[New].all()] == ["a"]
    two.session[New].append(New("b"))
    hosts.close()
    again = hosts.executor(note)
    assert [item.text for item in again.session[New].all()] == ["a", "b"]


def test_what_has_no_json_form_is_refused_naming_type_and_field(hosts):
    @dataclass(frozen=True)
    class Odd:
        thing: object

    @tool(category="write")
    def keeps(*, context: ToolContext) -> str:
        """Keep what JSON cannot say."""
        context.session[Odd].append(Odd(object()))
        return "kept"

    one = hosts.executor(keeps, note)
    outcome = call(one, "keeps")
    assert not outcome.success
    assert "Odd" in outcome.text
    assert one.session[Odd].latest() is None
    assert call(one, "note", text="goes on").success


def test_a_call_that_changed_nothing_and_a_dry_run_write_no_entry(hosts):
    @tool(contained=True, category="write")
    def jot(text: str, *, context: ToolContext) -> str:
        """Take a note, and do nothing else."""
        context.session[Note].append(Note(text))
        return text

    one = hosts.executor(read, note)
    (hosts.workspace / "a.txt").write_text("a")
    call(one, "note", text="a")
    store = hosts.store()
    before = store.after("s", 0)
    assert call(one, "read", path="a.txt").text == "a"
    dry = hosts.executor(jot, dry_run=True)
    assert call(dry, "jot", text="b").success
    assert store.after("s", 0) == before


def test_files_and_session_are_decided_once(hosts):
    one, two = hosts.executor(write, note), hosts.executor(write, read)
    assert call(one, "write", path="a.txt", text="1").success
    entry = hosts.store().after("s", 0)[-1]
    assert entry.has_files
    assert call(two, "read", path="a.txt").text == "1"


def test_records_of_policies_are_shared(hosts):
    one, two = hosts.executor(note), hosts.executor(note)
    one.session[PolicyState].append(PolicyState("mine", data={"count": 1}))
    call(two, "note", text="-")
    records = {record.policy_name: record.data for record in two.session[PolicyState].all()}
    assert records["mine"] == {"count": 1}


def test_a_participant_that_decides_by_itself_is_refused_before_the_handler(hosts):
    class Alone:
        name = "the archive"
        decides = True

        def prepare(self) -> None: ...
        def commit(self) -> None: ...
        def rollback(self) -> None: ...

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self) -> Alone:
            return Alone()

    runs: list[str] = []

    @tool
    def act() -> None:
        """Have an effect outside."""
        runs.append("act")

    @tool
    def outer(*, context: ToolContext) -> str:
        """Have another call have it."""
        return context.call("act").text

    host = hosts.open(act, outer, plugins=(Plugin(),))
    with host.executor(session_id="s") as tools:
        for name in ("act", "outer"):
            refused = call(tools, name)
            assert not refused.success
            assert "the archive decides by itself" in refused.text
    with host.executor() as tools:
        assert call(tools, "act").success
    assert runs == ["act"]


def test_what_a_person_has_seen_is_compared_with_what_others_did_meanwhile(hosts):
    """At the commit turn, before anybody hears of the success."""
    two = hosts.executor(note)
    shown: list[str] = []
    heard: list[str] = []

    @tool(contained=True, requires_confirmation=True)
    def reads(*, context: ToolContext) -> str:
        """Read what another host changes meanwhile."""
        seen = context.session[Note].latest()
        context.session[Note].append(Note("mine"))
        return seen.text if seen else "nothing"

    def approve(request: ApprovalRequest) -> bool:
        shown.append(request.diff or "")
        if len(shown) == 1:
            call(two, "note", text="other")
        return True

    class Hearing:
        @hookimpl
        def toolstile_on_result(self, result: ToolResult[str]) -> None:
            heard.append(str(result.value))

    host = hosts.open(reads, plugins=(Hearing(),), approve_diff=True)
    with host.executor(session_id="s", approver=approve) as tools:
        outcome = call(tools, "reads")
    assert (outcome.text, outcome.event.reruns) == ("other", 1)
    assert heard == ["other"]


def test_a_ledger_elsewhere_keeps_the_host_from_opening(hosts, tmp_path):
    settings = Settings.model_validate(
        {
            "plugins": {
                "sessions": {"path": tmp_path / "a.db"},
                "ledger": {"path": tmp_path / "b.db"},
            }
        }
    )
    with (
        pytest.raises(ConfigurationError, match=r"a\.db.*b\.db.*the same database"),
        Host(settings=settings, discover=["sessions", "ledger"]),
    ):
        pass


def test_a_long_session_is_read_from_one_entry(hosts):
    one = hosts.executor(note)
    for number in range(520):
        one.session[Note].append(Note(str(number)))
    hosts.close()
    store = hosts.store()
    assert len(store.after("s", 0)) == 1
    again = hosts.executor(note)
    assert len(texts(again)) == 520
    assert call(again, "note", text="x").success
    assert [entry.number for entry in store.after("s", 0)] == [520, 521]


def test_logs_that_nothing_has_named_are_condensed_when_a_session_is_opened(hosts, monkeypatch):
    one = hosts.executor(note)
    one.session[Note].register(Note, append_all, SlicePolicy.LOG)
    for number in range(120):
        one.session[Note].append(Note(str(number)))
    # As where its process is killed.
    monkeypatch.setattr(one.session.journal, "condense", lambda: None)
    hosts.close()
    store = hosts.store()
    assert len(store.after("s", 0)) == 120
    hosts.executor()
    assert len(store.after("s", 0)) == 1
    assert texts(hosts.executor(note)) == [str(number) for number in range(120)]


def test_items_of_a_condensed_session_are_read_when_somebody_looks(hosts, monkeypatch):
    one = hosts.executor(note)
    for number in range(120):
        one.session[Note].append(Note(str(number)))
    hosts.close()
    hosts.executor()
    read = []
    monkeypatch.setattr(
        JsonItems, "__getattr__", lambda items, name: read.append(name) or [{"text": "read"}] * 120
    )
    again = hosts.executor(pay, note)
    again.session[PolicyState].append(PolicyState("other"))
    hosts.executor()
    assert read == []
    assert len(again.session.to_json()) > 120
    assert read == ["tail"]


def test_a_session_that_is_one_entry_is_left_so_when_it_is_opened(hosts):
    store = hosts.store()
    whole = Entry(600, "d" * 32, 0, json.dumps({**EMPTY, "whole": True}))
    with store.deciding("s") as decision:
        decision.append(whole)
    hosts.executor()
    assert list(store.after("s", 0)) == [whole]


def test_the_json_of_a_session_has_what_nothing_here_has_named(hosts):
    @stored_as("notes.Heard")
    @dataclass(frozen=True)
    class Heard:
        text: str

    one = hosts.executor(note)
    one.session[Heard].register(Heard, append_all, SlicePolicy.LOG)
    one.session[Heard].append(Heard("a"))
    call(one, "note", text="b")
    hosts.close()
    saved = hosts.executor(note).session.to_json()
    read = Session.from_json(saved, kinds=[Note, Heard])
    assert [heard.text for heard in read[Heard].all()] == ["a"]
    assert [item.text for item in read[Note].all()] == ["b"]


def test_a_host_cannot_go_on_with_a_session_that_was_deleted(hosts):
    one = hosts.executor(note)
    call(one, "note", text="a")
    call(one, "note", text="b")
    hosts.store().delete("s")
    refused = call(one, "note", text="c")
    assert not refused.success
    assert "was deleted meanwhile" in refused.text
    assert hosts.store().after("s", 0) == []
    assert texts(hosts.executor(note)) == []
