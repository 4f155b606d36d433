"""Transactions by hand, for tools that something else runs."""

import pytest

from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.exclusive import Claim, lock_of
from toolstile.resources.manual import (
    PendingToolTracker,
    create_snapshot,
    restore_snapshot,
    tool_transaction,
)
from toolstile.state.session import Session
from toolstile_hookspecs import Binding, ResourceBusyError, ResourceError, SnapshotError, StateError


class Memory:
    """A resource that can be put back."""

    def __init__(self):
        self.items = []

    def snapshot(self):
        return tuple(self.items)

    def restore(self, snapshot):
        self.items[:] = snapshot


class Database:
    """An exclusive resource with savepoints."""

    def __init__(self):
        self.rows = []
        self.savepoints = []

    def begin(self):
        self.savepoints.append(len(self.rows))
        return len(self.savepoints)

    def commit(self, savepoint):
        assert savepoint == len(self.savepoints)
        self.savepoints.pop()

    def rollback(self, savepoint):
        assert savepoint == len(self.savepoints)
        del self.rows[self.savepoints.pop() :]


class Other(Database):
    pass


class Call:
    parent = None

    def __init__(self):
        self.root_id = object()

    def __str__(self):
        return "call 1"


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def resources():
    registry = ResourceRegistry.of(
        Binding(Memory, lambda r: Memory()),
        Binding(Database, lambda r: Database()),
        Binding(Other, lambda r: Other()),
        Binding.instance(str, "plain"),
    )
    with registry.open() as opened:
        for kind in (Memory, Database, str):
            opened.get(kind)
        yield opened


def change(session, resources):
    session[str].append("new")
    resources.get(Memory).items.append("new")
    resources.get(Database).rows.append("new")


def state(session, resources):
    return [
        list(session[str].all()),
        list(resources.get(Memory).items),
        list(resources.get(Database).rows),
    ]


UNCHANGED = [[], [], []]
CHANGED = [["new"], ["new"], ["new"]]


def test_a_transaction_keeps_what_the_block_does(session, resources):
    with tool_transaction(session, resources, tag="import") as snapshot:
        change(session, resources)
    assert snapshot.tag == "import"
    assert state(session, resources) == CHANGED
    assert resources.get(Database).savepoints == []
    assert lock_of(resources.get(Database)).claims == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_transaction_puts_everything_back_whatever_is_raised(session, resources, error):
    def work():
        with tool_transaction(session, resources):
            change(session, resources)
            raise error

    with pytest.raises(error):
        work()
    assert state(session, resources) == UNCHANGED
    assert lock_of(resources.get(Database)).claims == []


def test_within_a_transaction_the_beginning_can_be_restored_as_often_as_wanted(session, resources):
    with tool_transaction(session, resources) as snapshot:
        for _ in range(2):
            change(session, resources)
            restore_snapshot(session, resources, snapshot)
            assert state(session, resources) == UNCHANGED
        change(session, resources)
    assert state(session, resources) == CHANGED


def test_after_its_transaction_a_snapshot_of_exclusive_resources_is_refused(session, resources):
    with tool_transaction(session, resources, tag="import") as snapshot:
        change(session, resources)
    with pytest.raises(SnapshotError, match="'import' cannot be restored: its transaction is over"):
        restore_snapshot(session, resources, snapshot)
    assert state(session, resources) == CHANGED


def test_a_snapshot_can_be_restored_at_any_time(session, resources):
    snapshot = create_snapshot(session, resources, tag="checkpoint")
    for _ in range(2):
        session[str].append("new")
        resources.get(Memory).items.append("new")
        restore_snapshot(session, resources, snapshot)
        assert state(session, resources) == UNCHANGED


def test_a_snapshot_leaves_exclusive_resources_alone(session, resources):
    snapshot = create_snapshot(session, resources)
    change(session, resources)
    restore_snapshot(session, resources, snapshot)
    assert state(session, resources) == [[], [], ["new"]]


def test_a_snapshot_is_refused_by_other_resources_and_other_sessions(session, resources):
    snapshot = create_snapshot(session, resources)
    resources.get(Memory).items.append("new")
    with pytest.raises(SnapshotError, match="taken of other resources"):
        restore_snapshot(session, ResourceRegistry().open(), snapshot)
    with pytest.raises(SnapshotError):
        restore_snapshot(Session(), resources, snapshot)
    assert resources.get(Memory).items == ["new"]


def test_of_what_is_not_open_no_snapshot_is_taken(session):
    told = r"A ResourceRegistry is not open resources, so no snapshot can be taken of it. Pass what"
    with pytest.raises(SnapshotError, match=told):
        create_snapshot(session, ResourceRegistry())
    with pytest.raises(SnapshotError, match=told), tool_transaction(session, ResourceRegistry()):
        pytest.fail("the block must not run")


def test_what_is_no_snapshot_is_not_restored(session, resources):
    with pytest.raises(SnapshotError, match="A Snapshot is not a snapshot of a session"):
        restore_snapshot(session, resources, session.snapshot())


def test_instances_that_were_given_take_part_before_anybody_has_asked_for_them(session):
    memory, database = Memory(), Database()
    resources = ResourceRegistry.build({Memory: memory, Database: database}).open()
    snapshot = create_snapshot(session, resources)
    memory.items.append("new")
    restore_snapshot(session, resources, snapshot)
    assert memory.items == []

    tracker = PendingToolTracker(session=session, resources=resources)
    tracker.begin_tool_execution(tool_use_id="1", tool_name="write")
    change(session, resources)
    assert tracker.end_tool_execution(tool_use_id="1", success=False)
    assert state(session, resources) == UNCHANGED


def test_nothing_is_built_for_a_snapshot(session):
    made = []
    registry = ResourceRegistry.of(Binding(Memory, lambda r: made.append(1)))
    with tool_transaction(session, registry.open()):
        pass
    assert made == []


def test_all_is_restored_also_after_errors_and_all_failures_are_told(session, resources):
    class Broken(Memory):
        def restore(self, snapshot):
            raise OSError("disk")

    opened = ResourceRegistry.of(
        Binding(Memory, lambda r: Memory()), Binding(Broken, lambda r: Broken())
    ).open()
    memory = opened.get(Memory)
    opened.get(Broken)
    snapshot = create_snapshot(session, opened)
    memory.items.append("new")
    with pytest.raises(ResourceError, match=r"Restoring failed for Broken \(OSError: disk\)"):
        restore_snapshot(session, opened, snapshot)
    assert memory.items == []

    def use():
        with tool_transaction(session, opened):
            raise KeyError

    with pytest.raises(KeyError) as caught:
        use()
    assert "OSError: disk" in caught.value.__notes__[0]


def test_an_interrupt_while_putting_back_is_not_hidden_by_a_failure(session):
    class Interrupted(Memory):
        def restore(self, snapshot):
            raise KeyboardInterrupt

    opened = ResourceRegistry.of(
        Binding(Memory, lambda r: Memory()), Binding(Interrupted, lambda r: Interrupted())
    ).open()
    memory = opened.get(Memory)
    opened.get(Interrupted)

    def use():
        with tool_transaction(session, opened):
            memory.items.append("new")
            raise KeyError

    with pytest.raises(KeyboardInterrupt) as caught:
        use()
    assert isinstance(caught.value.__cause__, KeyError)
    assert memory.items == []


def test_an_exclusive_resource_that_a_call_holds_is_not_waited_for(session, resources):
    resources.get(Other)
    ticket = Claim(lock_of(resources.get(Other)), Call()).request()
    with (
        pytest.raises(ResourceBusyError, match="Other is held by call 1"),
        tool_transaction(session, resources),
    ):
        pytest.fail("the block must not run")
    assert resources.get(Database).savepoints == []
    assert lock_of(resources.get(Database)).claims == []
    ticket.claim.leave()


def test_a_call_does_not_wait_for_a_transaction(session, resources):
    with (
        tool_transaction(session, resources, tag="import"),
        pytest.raises(ResourceBusyError, match="Database is held by the transaction 'import'"),
    ):
        Claim(lock_of(resources.get(Database)), Call()).request()


def test_what_cannot_be_snapshotted_begins_no_transaction(session, resources):
    def fail():
        raise OSError("disk")

    resources.get(Memory).snapshot = fail
    with pytest.raises(OSError, match="disk"), tool_transaction(session, resources):
        pytest.fail("the block must not run")
    assert lock_of(resources.get(Database)).claims == []
    assert resources.get(Database).savepoints == []


def test_a_commit_that_fails_is_told_and_frees_the_lock(session, resources):
    def fail(savepoint):
        raise OSError("disk")

    resources.get(Database).commit = fail
    with (
        pytest.raises(ResourceError, match=r"Committing failed for Database \(OSError: disk\)"),
        tool_transaction(session, resources),
    ):
        pass
    assert lock_of(resources.get(Database)).claims == []


# --- tools that are only seen to begin and to end ---


def test_a_tool_that_fails_is_put_back(session, resources):
    tracker = PendingToolTracker(session=session, resources=resources)
    tracker.begin_tool_execution(tool_use_id="abc", tool_name="write_file")
    assert tracker.pending == {"abc": "write_file"}
    change(session, resources)
    assert tracker.end_tool_execution(tool_use_id="abc", success=False)
    assert state(session, resources) == UNCHANGED
    assert tracker.pending == {}


def test_a_tool_that_succeeds_is_kept(session, resources):
    tracker = PendingToolTracker(session=session, resources=resources)
    tracker.begin_tool_execution(tool_use_id="abc", tool_name="write_file")
    change(session, resources)
    assert not tracker.end_tool_execution(tool_use_id="abc", success=True)
    assert state(session, resources) == CHANGED
    assert lock_of(resources.get(Database)).claims == []


def test_a_tool_that_was_not_announced_changes_nothing(session, resources):
    tracker = PendingToolTracker(session=session, resources=resources)
    change(session, resources)
    assert not tracker.end_tool_execution(tool_use_id="abc", success=False)
    assert state(session, resources) == CHANGED


def test_an_id_cannot_begin_twice(session, resources):
    tracker = PendingToolTracker(session=session, resources=resources)
    tracker.begin_tool_execution(tool_use_id="abc", tool_name="write_file")
    with pytest.raises(StateError, match="'abc' of read_file has begun already"):
        tracker.begin_tool_execution(tool_use_id="abc", tool_name="read_file")
    assert tracker.end_tool_execution(tool_use_id="abc", success=False)


def test_a_tool_beside_one_that_holds_an_exclusive_resource_is_refused(session, resources):
    tracker = PendingToolTracker(session=session, resources=resources)
    tracker.begin_tool_execution(tool_use_id="1", tool_name="write_file")
    with pytest.raises(ResourceBusyError, match="the transaction 'write_file'"):
        tracker.begin_tool_execution(tool_use_id="2", tool_name="read_file")
    assert list(tracker.pending) == ["1"]
    tracker.end_tool_execution(tool_use_id="1", success=True)


def test_tools_side_by_side_go_where_nothing_is_exclusive(session):
    with ResourceRegistry.of(Binding(Memory, lambda r: Memory())).open() as resources:
        memory = resources.get(Memory)
        tracker = PendingToolTracker(session=session, resources=resources)
        tracker.begin_tool_execution(tool_use_id="1", tool_name="write_file")
        memory.items.append(1)
        tracker.begin_tool_execution(tool_use_id="2", tool_name="write_file")
        memory.items.append(2)
        tracker.end_tool_execution(tool_use_id="2", success=False)
        assert memory.items == [1]
        tracker.end_tool_execution(tool_use_id="1", success=True)
        assert memory.items == [1]
