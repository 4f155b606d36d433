"""A call that a person was shown is kept as it was shown, without being run again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Session, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Binding,
    ConflictError,
    Filesystem,
    IdempotencyConfig,
    Outcome,
    PolicyDecision,
    PolicyState,
    SnapshotError,
    Status,
    ToolCall,
    ToolContext,
    ToolPolicy,
    hookimpl,
    tool,
)
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.services.counter import Counter
from toolstile_plugins.sessions.counter import MemoryCounter
from toolstile_plugins.vfs.workspace import VirtualFilesystem

MADE: dict[str, Any] = {"contained": True, "requires_confirmation": True, "timeout": None}


@dataclass(frozen=True, slots=True)
class Note:
    """An item of a slice."""

    text: str


@dataclass(frozen=True, slots=True)
class Rolled:
    """The value of a result, and an item of a slice."""

    number: int


ran: list[int] = []


@tool(**MADE)
def roll(*, context: ToolContext) -> Rolled:
    """Come to something else each time, in a file, the session and the result."""
    number = random.SystemRandom().randrange(10**9)
    ran.append(number)
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write("out/rolled.txt", f"{number} beside {files.read('read.txt')}")
    files.delete("old.txt")
    context.session[Note].append(Note(str(number)))
    context.session[PolicyState].append(PolicyState("rolls", data={"last": number}))
    return Rolled(number)


@tool(**MADE)
def count(*, context: ToolContext) -> int:
    """Read all notes, and note their number."""
    ran.append(1)
    number = len(context.session[Note].all())
    context.session[Note].append(Note(f"{number} before"))
    return number


@tool(**MADE, idempotency=IdempotencyConfig(scope="global"))
def once(*, context: ToolContext) -> int:
    """Have an effect once."""
    ran.append(1)
    context.session[Note].append(Note("once"))
    return len(ran)


class Desk:
    """An approver that stores change sets, as JSON, and leaves the answer to a person."""

    def __init__(self) -> None:
        self.stored: list[str | None] = []
        self.shown: list[str | None] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        changes = request.change_set()
        self.stored.append(None if changes is None else changes.to_json())
        self.shown.append(request.diff)
        return ApprovalAnswer.pending()


class House:
    """A workspace, a ledger and an application that resumes calls in hosts of its own."""

    def __init__(self, folder: Path, stack: ExitStack, *, retelling: bool) -> None:
        self.root = folder
        self.desk = Desk()
        self.counter = MemoryCounter()
        self.session = Session(id="s")
        self._stack = stack
        self._plugins = [Retelling()] if retelling else []
        (folder / "read.txt").write_text("read")
        (folder / "old.txt").write_text("old")
        self.tools = self.open()

    def open(self, *policies: ToolPolicy) -> Executor:
        settings = Settings.model_validate(
            {"approve_diff": True, "plugins": {"ledger": {"path": self.root / ".state" / "l.db"}}}
        )
        files = Binding[Filesystem](
            Filesystem,  # type: ignore[type-abstract]
            lambda resources: VirtualFilesystem.on_disk(self.root),
        )
        host = Host(
            settings=settings,
            discover=["ledger"],
            plugins=self._plugins,
            tools=[roll, count, once],
            approver=self.desk,
            policies=policies,
            resources=[files, Binding.instance(Counter, self.counter)],  # type: ignore[type-abstract]
        )
        self._stack.enter_context(host)
        return self._stack.enter_context(host.executor(session=self.session))

    def ask(self, name: str) -> Outcome:
        pending = self.tools.dispatch(ToolCall(name, {}))
        assert pending.status is Status.PENDING
        return pending

    def resume(self, pending: Outcome, *, answer: bool = True) -> Outcome:
        text = self.desk.stored[-1]
        assert text is not None
        token = pending.approval_token
        assert token is not None
        return self.tools.resume(pending.call, token, answer, changes=ChangeSet.from_json(text))

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.session[Note].all()]


class Retelling:
    """A plugin that answers for no tool; calls pass another way beside it."""

    @hookimpl
    def toolstile_execute(self) -> None:
        return None


@pytest.fixture(params=[False, True], ids=["plain", "asked"])
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    ran.clear()
    with ExitStack() as stack:
        yield House(tmp_path, stack, retelling=request.param)


def test_what_was_shown_is_kept_though_the_command_comes_to_something_else_each_time(house):
    pending = house.ask("roll")
    assert not (house.root / "out").exists()
    assert house.notes == []
    kept = house.resume(pending)
    (number,) = ran
    assert kept.success, kept.text
    assert kept.result.value == Rolled(number)
    assert (house.root / "out" / "rolled.txt").read_text() == f"{number} beside read"
    assert not (house.root / "old.txt").exists()
    assert house.notes == [str(number)]
    assert list(house.session[Rolled].all()) == []
    (record,) = house.session[PolicyState].where(lambda each: each.policy_name == "rolls")
    assert record.data == {"last": number}
    assert str(number) in (house.desk.shown[-1] or "")
    assert len(house.desk.shown) == 1
    assert kept.event.reruns == 0


def test_what_a_person_denies_is_not_kept(house):
    denied = house.resume(house.ask("roll"), answer=False)
    assert denied.status is Status.DENIED
    assert house.notes == []
    assert not (house.root / "out").exists()
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("path", "is_kept"), [("read.txt", False), ("old.txt", False), ("neither.txt", True)]
)
def test_a_commit_meanwhile_counts_where_it_touched_what_was_read_or_written(house, path, is_kept):
    pending = house.ask("roll")
    (house.root / path).write_text("changed")
    resumed = house.resume(pending)
    if is_kept:
        assert resumed.success
        assert len(ran) == 1
        return
    # It ran again, and the person is asked again about what it comes to now.
    assert resumed.status is Status.PENDING
    assert len(ran) == 2
    assert "changed" in (house.desk.shown[-1] or "") or path == "old.txt"
    assert house.resume(resumed).success
    assert len(ran) == 2
    assert house.notes == [str(ran[1])]


@tool(contained=True)
def edit(path: str, *, context: ToolContext) -> str:
    """Change a file."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, "changed by a call")
    return path


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        ("read.txt", False),
        ("old.txt", False),
        ("out/rolled.txt", False),
        ("neither.txt", True),
    ],
    ids=["read", "deleted", "written", "neither"],
)
def test_a_call_of_another_host_counts_where_it_touched_what_was_read_or_written(
    house, path, is_kept
):
    pending = house.ask("roll")
    with Host(discover=False, tools=[edit]) as host:
        files = Binding[Filesystem](
            Filesystem,  # type: ignore[type-abstract]
            lambda resources: VirtualFilesystem.on_disk(house.root),
        )
        with host.executor(resources=[files]) as others:
            assert others.dispatch(ToolCall("edit", {"path": path})).success
    resumed = house.resume(pending)
    assert (house.root / path).read_text() == "changed by a call"
    if not is_kept:
        # It has run again, on what is there now, and a person is asked about that.
        assert (resumed.status, len(ran), len(house.desk.shown)) == (Status.PENDING, 2, 2)
        assert house.notes == []
        resumed = house.resume(resumed)
    assert resumed.success
    assert len(ran) == (1 if is_kept else 2)
    assert house.notes == [str(ran[-1])]
    read = "read" if is_kept or path != "read.txt" else "changed by a call"
    assert (house.root / "out" / "rolled.txt").read_text() == f"{ran[-1]} beside {read}"


def test_a_slice_that_was_read_counts_and_one_that_was_only_added_to_does_not(house):
    pending = house.ask("count")
    house.session[Note].append(Note("meanwhile"))
    again = house.resume(pending)
    assert again.status is Status.PENDING
    assert house.resume(again).result.value == 1
    assert house.notes == ["meanwhile", "1 before"]

    pending = house.ask("roll")
    house.session[Note].append(Note("later"))
    assert house.resume(pending).success
    assert house.notes == ["meanwhile", "1 before", "later", str(ran[-1])]


def test_a_hit_of_the_ledger_wins(house):
    first = house.ask("once")
    stored = house.desk.stored[-1]
    second = house.ask("once")
    assert house.resume(second).success
    house.desk.stored.append(stored)
    hit = house.resume(first)
    assert hit.success
    assert hit.event.replayed
    assert house.notes == ["once"]
    assert house.tools.dispatch(ToolCall("once", {})).event.replayed


def test_it_is_resumed_in_another_host(house):
    pending = house.ask("roll")
    house.tools = house.open()
    other = house.resume(pending)
    # A token is sealed by the host that gave it; without a shared key the other one refuses.
    assert other.status is Status.DENIED
    assert house.notes == []


def test_a_participant_that_cannot_tell_its_changes_leaves_none(tmp_path):
    class Silent:
        def prepare(self) -> None: ...
        def commit(self) -> None: ...
        def rollback(self) -> None: ...
        def diff(self) -> str:
            return "something"

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self) -> Silent:
            return Silent()

    desk = Desk()
    with (
        Host(
            settings=Settings(approve_diff=True),
            discover=False,
            plugins=[Plugin()],
            tools=[count],
            approver=desk,
        ) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("count", {})).status is Status.PENDING
    assert desk.stored == [None]


def test_above_the_bound_there_is_none(house, monkeypatch):
    monkeypatch.setattr("toolstile.pipeline.review.MOST_BYTES", 10)
    house.ask("roll")
    assert house.desk.stored == [None]


@dataclass(frozen=True)
class Places:
    """A policy that lets so many calls be kept, and gives back what is not, where it says so."""

    counter: Counter
    most: int
    name: str = "places"

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        used = self.counter.read("places", now=context.clock.now())
        place = self.counter.reserve(
            "places", 1, self.most, None, f"{self.id_of(context)} {used}", now=context.clock.now()
        )
        return PolicyDecision.allow() if place.granted else PolicyDecision.deny("None is left.")

    def id_of(self, context: ToolContext) -> str:
        assert context.tool_call is not None
        return context.tool_call.id


class Returning(Places):
    """One that hears of a rollback."""

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        self.counter.settle(f"{self.id_of(context)} 0", 0)


@pytest.mark.parametrize(("policy", "while_it_waits"), [(Places, 1), (Returning, 0)])
def test_a_call_that_was_shown_counts_once_when_it_is_kept(house, policy, while_it_waits):
    house.tools = house.open(policy(house.counter, 1))

    def counted() -> float:
        return house.counter.read("places", now=house.tools.clock.now())

    pending = house.ask("roll")
    assert counted() == while_it_waits
    assert house.resume(pending).success
    assert counted() == 1
    assert len(ran) == 1
    assert house.tools.dispatch(ToolCall("roll", {})).status is Status.DENIED


def test_a_place_that_was_given_back_may_be_taken_when_the_call_is_resumed(house):
    house.tools = house.open(Returning(house.counter, 1))
    pending = house.ask("roll")
    assert house.counter.reserve("places", 1, 1, None, "other", now=house.tools.clock.now()).granted
    refused = house.resume(pending)
    assert (refused.status, refused.text) == (Status.DENIED, "None is left.")
    assert house.notes == []


def test_what_is_no_change_set_is_refused():
    with pytest.raises(SnapshotError, match="not a change set"):
        ChangeSet.from_json("{}")
    with pytest.raises(SnapshotError, match="of version 3"):
        ChangeSet.from_json('{"tool": "a", "message": "b", "version": 3}')


def test_files_are_told_and_made_again(tmp_path):
    one = VirtualFilesystem.in_memory({"a/b.txt": "1", "c.txt": "2", "d.txt": "3"})
    branch = one.own_branch()
    branch.resource.delete("a", recursive=True)
    branch.resource.write("a", "a file now")
    branch.resource.mkdir("new/empty")
    branch.resource.move("c.txt", "new/c.txt")
    text = branch.told()
    other = VirtualFilesystem.in_memory({"a/b.txt": "1", "c.txt": "2", "d.txt": "other"})
    again = other.own_branch()
    again.redo(text)
    assert again.diff() == branch.diff()
    again.prepare_waiting()
    again.commit()
    assert other.read("a") == "a file now"
    assert other.read("new/c.txt") == "2"
    assert other.read("d.txt") == "other"

    third = VirtualFilesystem.in_memory({"a/b.txt": "changed", "c.txt": "2"})
    with pytest.raises(ConflictError, match=r"a/b\.txt changed"):
        third.own_branch().redo(text)
    with pytest.raises(SnapshotError, match="not the changes"):
        third.own_branch().redo("[]")
