# ruff: noqa: PT012, SIM117 - a transaction is a block of several statements
"""A transaction over files, keyed calls, an exclusive resource and a stored session."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    PolicyDecision,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    hookimpl,
    tool,
)
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.sessions.sqlite import SqliteSessions

ONCE = IdempotencyConfig(scope="global")
RAN: Counter[str] = Counter()
"""The runs of each handler, counted outside of all transactions."""


@dataclass(frozen=True)
class Note:
    text: str


class Till:
    def __init__(self):
        self.rows = []

    def begin(self):
        return len(self.rows)

    def commit(self, savepoint):
        pass

    def rollback(self, savepoint):
        del self.rows[savepoint:]


@tool(contained=True, idempotency=ONCE)
def pay(text: str, context: ToolContext) -> str:
    """Note a payment in a file and in the session, once."""
    RAN[f"pay {text}"] += 1
    context.session[Note].append(Note(text))
    context.filesystem.write(f"paid/{text}.txt", text)
    return f"paid {text}"


@tool(contained=True)
def ring(text: str, context: ToolContext) -> str:
    """Put a row in the till."""
    RAN[f"ring {text}"] += 1
    till = context.resources.get(Till)
    till.rows.append(text)
    return f"{len(till.rows)} rows"


@tool(contained=True)
def see(text: str, context: ToolContext) -> str:
    """Read all notes, and add one."""
    RAN[f"see {text}"] += 1
    read = len(context.session[Note].all())
    context.session[Note].append(Note(text))
    return f"{read} notes" if text == "counted" else "seen"


class Watcher:
    def __init__(self):
        self.ended, self.rolled_back = [], []

    @hookimpl
    def toolstile_transaction(self, event):
        self.ended.append(event)

    @hookimpl
    def toolstile_rollback(self, context):
        self.rolled_back.append(context.tool_call.arguments.get("text"))


class Quota:
    name = "quota"

    def __init__(self):
        self.taken, self.given_back = [], []

    def check(self, tool, params, *, context):
        return PolicyDecision.allow()

    def reserve(self, tool, params, *, context):
        self.taken.append(getattr(params, "text", tool.name))
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        return None

    def on_rollback(self, tool, params, *, context):
        self.given_back.append(getattr(params, "text", tool.name))


class House:
    """A host over a folder, with a stored session or one in memory."""

    def __init__(self, folder, *, is_stored):
        self.root, self.database = folder / "work", folder / "state.db"
        self.root.mkdir(exist_ok=True)
        self.watcher, self.quota, self.till = Watcher(), Quota(), Till()
        self.is_stored = is_stored
        plugins = {"vfs": {"root": str(self.root)}}
        # In one file, whatever ledger there is in the present folder.
        stores = ("sessions", "ledger") if is_stored else ("ledger",)
        plugins |= {name: {"path": str(self.database)} for name in stores}
        self.host = Host(
            settings=Settings(plugins=plugins),
            discover=("vfs", "ledger", "sessions") if is_stored else ("vfs", "ledger"),
            tools=[pay, ring, see],
            plugins=[self.watcher],
            policies=[self.quota],
            resources=[Binding.instance(Till, self.till)],
        ).open()
        self.tools = self.host.executor(session_id="s")

    def notes(self):
        return [each.text for each in self.tools.session[Note].all()]

    def entries(self):
        with closing(SqliteSessions(self.database)) as store:
            return [each.number for each in store.after("s", 0)]

    def states(self):
        store = self.tools.resources.get(EffectLedger).store
        return sorted(str(each.state) for each in store.entries())


@pytest.fixture(params=["memory", "stored"])
def house(request, tmp_path):
    RAN.clear()
    house = House(tmp_path, is_stored=request.param == "stored")
    yield house
    house.host.close()


def call(name, **arguments):
    return ToolCall(name, arguments)


def inodes_of(*paths):
    return [(each.stat().st_ino, each.stat().st_mtime_ns) for each in paths]


def test_all_its_parts_are_used_twice_and_no_handler_runs_twice(house):
    untouched = house.root / "untouched.txt"
    untouched.write_text("as before\n")
    read = house.root / "read.txt"
    read.write_text("read\n")
    inodes = inodes_of(untouched, read)
    with house.tools.transaction("x") as work:
        assert work.dispatch(call("read_file", path="read.txt")).success
        assert [work.dispatch(call("ring", text="a")).text for _ in "ab"] == ["1 rows", "2 rows"]
        twice = [work.dispatch(call("pay", text="rent")) for _ in "ab"]
        assert [each.text for each in twice] == ["paid rent", "paid rent"]
        assert [each.event.replayed for each in twice] == [False, True]
        ready = threading.Barrier(2)

        def pay_both(other):
            ready.wait(5)
            for text in ("heat", other):
                # The other thread may be about to pay.
                for _ in range(200):
                    if work.dispatch(call("pay", text=text)).status is not Status.ERROR:
                        break
                    time.sleep(0.01)

        threads = [threading.Thread(target=pay_both, args=(each,)) for each in ("water", "gas")]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        assert not any(each.is_alive() for each in threads)
        assert (house.notes(), house.states()) == ([], ["claimed"] * 4)
        assert not (house.root / "paid").exists()
    assert work.ended.status == "committed"
    assert sorted(house.notes()) == ["gas", "heat", "rent", "water"]
    assert house.states() == ["done"] * 4
    assert house.till.rows == ["a", "a"]
    assert {name: ran for name, ran in RAN.items() if name != "ring a"} == {
        "pay rent": 1,
        "pay heat": 1,
        "pay water": 1,
        "pay gas": 1,
    }
    assert inodes_of(untouched, read) == inodes
    assert house.entries() == [1] * house.is_stored


def test_it_begins_with_the_newest_state_of_all_hosts(tmp_path):
    house = House(tmp_path, is_stored=True)
    other = Host(
        settings=Settings(
            plugins={name: {"path": str(house.database)} for name in ("sessions", "ledger")}
        ),
        discover=("sessions", "ledger"),
        tools=[see],
    )
    with other.open(), other.executor(session_id="s") as tools:
        tools.dispatch(call("see", text="counted"))
        house.tools.dispatch(call("see", text="counted"))
        with tools.transaction("x") as work, work.transaction("within") as within:
            assert within.dispatch(call("see", text="counted")).text == "2 notes"
        assert work.ended.reruns == 0
    house.host.close()


def test_a_closed_executor_does_not_keep_others_from_files_of_another_host(tmp_path):
    house, other = House(tmp_path, is_stored=True), House(tmp_path, is_stored=True)
    with house.host.executor(session_id="s") as tools:
        assert tools.dispatch(call("pay", text="rent")).success
    assert other.tools.dispatch(call("pay", text="heat")).success
    assert house.tools.dispatch(call("pay", text="gas")).text == "paid gas"
    for each in (house, other):
        each.host.close()


def test_a_store_of_sessions_has_one_entry_of_it(tmp_path):
    house = House(tmp_path, is_stored=True)
    with house.tools.transaction("x") as work:
        for each in ("a", "b"):
            work.dispatch(call("pay", text=each))
            work.dispatch(call("see", text=each))
            work.dispatch(call("write_file", path=f"{each}.txt", content="x\n"))
        with work.transaction("within") as within:
            within.dispatch(call("pay", text="c"))
    with pytest.raises(KeyError), house.tools.transaction("y") as work:
        work.dispatch(call("pay", text="d"))
        raise KeyError
    assert house.entries() == [1]
    house.host.close()


@pytest.mark.parametrize("change", ["read", "written", "made"])
def test_a_file_that_a_person_changes_meanwhile_is_named_and_kept(house, change):
    path = house.root / "plan.txt"
    if change != "made":
        path.write_text("one\n")
    with pytest.raises(TransactionFailed, match=r"^The transaction 'x' .*plan.txt.*") as caught:
        with house.tools.transaction("x") as work:
            if change != "made":
                work.dispatch(call("read_file", path="plan.txt"))
            if change != "read":
                two = call("write_file", path="plan.txt", content="two\n", overwrite=True)
                assert work.dispatch(two).success
            work.dispatch(call("pay", text="rent"))
            path.write_text("a person's\n")
    names = {"read": "read_file", "written": "read_file", "made": "write_file"}
    assert f"It concerns {names[change]} (" in str(caught.value)
    assert caught.value.ended.status == "conflict"
    assert path.read_text() == "a person's\n"
    assert (house.notes(), house.states()) == ([], [])
    assert [each.name for each in house.root.iterdir() if each.name[0] != "."] == ["plan.txt"]


@pytest.mark.parametrize("text", ["same", "counted"])
def test_counts_and_claims_are_right_after_a_second_run(house, text):
    with suppress(TransactionFailed), house.tools.transaction("x") as work:
        work.dispatch(call("see", text=text))
        for _ in "ab":
            work.dispatch(call("pay", text="rent"))
        work.dispatch(call("ring", text="a"))
        assert house.tools.dispatch(call("see", text="other")).success
    is_kept = text == "same"
    assert work.ended.status == ("committed" if is_kept else "conflict")
    assert work.ended.reruns == 1
    assert house.quota.taken == [text, "rent", "rent", "a", "other"]
    assert sorted(house.quota.given_back) == (
        [] if is_kept else sorted([text, "rent", "rent", "a"])
    )
    assert sorted(house.watcher.rolled_back) == sorted(house.quota.given_back)
    assert house.notes() == (["other", "same", "rent"] if is_kept else ["other"])
    assert house.till.rows == (["a"] if is_kept else [])
    assert house.states() == (["done"] if is_kept else [])
    # The key is free, or answers.
    again = house.tools.dispatch(call("pay", text="rent"))
    assert (again.text, again.event.replayed) == ("paid rent", is_kept)


def test_a_claim_that_is_lost_keeps_nothing(house):
    store = house.tools.resources.get(EffectLedger).store
    with pytest.raises(TransactionFailed, match="its claim was taken away"):
        with house.tools.transaction("x") as work:
            work.dispatch(call("pay", text="rent"))
            work.dispatch(call("pay", text="heat"))
            _, last = store.entries()
            store.release(last.claim.key, last.claim.effect_id)
    assert (house.notes(), house.states()) == ([], [])
    assert not (house.root / "paid").exists()
    assert house.tools.dispatch(call("pay", text="rent")).event.replayed is False


class Person:
    """Approves cards, and keeps them."""

    def __init__(self):
        self.cards = []

    def __call__(self, request):
        return False

    def turn(self, card):
        self.cards.append(card)
        return True


def test_a_card_asks_about_protected_files_first(tmp_path):
    person, settings = Person(), Settings(plugins={"vfs": {"root": str(tmp_path)}})
    host = Host(discover=("vfs",), settings=settings, approver=person)
    with host, host.executor() as tools:
        with tools.transaction("set up", approve=True) as work:
            for path in ("a.txt", ".envrc"):
                work.dispatch(ToolCall("write_file", {"path": path, "content": "x"}))
    [card] = person.cards
    assert card.diff.startswith("decide on:\n  .envrc")
    assert [row.by_person for row in card.rows] == [False, True]
    assert (tmp_path / ".envrc").exists()
