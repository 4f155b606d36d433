from types import SimpleNamespace

import pytest

from toolstile_hookspecs.errors import CallClosed, StateError
from toolstile_hookspecs.policies import PolicyState


@pytest.fixture
def save(session):
    def save(state, where=session):
        state.save(SimpleNamespace(session=where))

    return save


def context(session):
    return SimpleNamespace(session=session)


def names(session):
    return [each.policy_name for each in session[PolicyState].all()]


def test_each_policy_has_one_record_found_by_its_name(session):
    for tool in ("build", "test"):
        PolicyState.of(context(session), "order").with_tool(tool).save(context(session))
    PolicyState.of(context(session), "quota").save(context(session))
    assert names(session) == ["order", "quota"]
    assert PolicyState.of(context(session), "order").invoked_tools == {"build", "test"}
    assert PolicyState.of(context(session), "new") == PolicyState("new")


def test_latest_is_the_record_that_was_updated_last(session, save):
    assert session[PolicyState].latest() is None
    save(PolicyState("a"))
    save(PolicyState("b"))
    save(PolicyState("a", frozenset({"x"})))
    assert session[PolicyState].latest() == PolicyState("a", frozenset({"x"}))
    branch = session.fork()
    save(PolicyState("b"), branch)
    assert names(branch) == ["a", "b"]
    branch.commit()
    assert names(session) == ["a", "b"]


def test_a_call_reads_the_newest_record_with_data_of_its_own_until_it_is_over(session, save):
    branch = session.fork()
    save(PolicyState("a", data={"n": [1]}))
    PolicyState.of(context(branch), "a").data["n"].append(2)
    assert PolicyState.of(context(branch), "a").data == {"n": [1]}
    branch.rollback()
    with pytest.raises(CallClosed):
        PolicyState.of(context(branch), "a")


def test_seeding_a_record_leaves_those_of_other_policies(session, save):
    save(PolicyState("a"))
    session[PolicyState].seed(PolicyState("b"), PolicyState("c"))
    assert names(session) == ["a", "b", "c"]


def test_records_can_be_cleared(session, save):
    for name in ("a", "b"):
        save(PolicyState(name))
    session[PolicyState].clear(lambda each: each.policy_name == "a")
    assert names(session) == ["b"]
    branch = session.fork()
    branch[PolicyState].clear()
    assert names(branch) == []
    branch.commit()
    assert names(session) == []


def test_parallel_calls_never_conflict_over_records(session, save):
    first, second = session.fork(), session.fork()
    for branch, tool in ((first, "build"), (second, "test")):
        PolicyState.of(context(branch), "order").with_tool(tool).save(context(branch))
        branch.validate()
        branch.commit()
    assert PolicyState.of(context(session), "order").invoked_tools == {"build", "test"}


def test_a_branch_sees_the_newest_records_not_those_of_its_fork(session, save):
    branch = session.fork()
    nested = branch.fork()
    save(PolicyState("a", frozenset({"x"})))
    save(PolicyState("b"), branch)
    assert names(branch) == ["a", "b"]
    assert names(nested) == ["a", "b"]


def test_a_rollback_drops_the_update_of_a_record(session, save):
    save(PolicyState("a"))
    branch = session.fork()
    nested = branch.fork()
    save(PolicyState("a", frozenset({"x"})), nested)
    nested.commit()
    assert branch[PolicyState].latest() == PolicyState("a", frozenset({"x"}))
    branch.rollback()
    assert session[PolicyState].latest() == PolicyState("a")


def test_data_that_is_changed_in_place_leaks_nowhere(session, save):
    state = PolicyState("a", data={"counts": [1]})
    save(state)
    state.data["counts"].append(2)
    for seen in (
        session[PolicyState].latest(),
        session[PolicyState].all()[0],
        PolicyState.of(context(session.fork()), "a"),
    ):
        seen.data["counts"].append(3)
    assert session[PolicyState].latest().data == {"counts": [1]}


def test_reserve_counts_on_the_session_at_once(session):
    view = session.fork().reserving()
    for _ in range(2):
        state = PolicyState.reserved(context(view), "quota")
        count = state.data.get("count", 0)
        PolicyState(state.policy_name, data={"count": count + 1}).save(context(view))
    assert PolicyState.reserved(context(session), "quota").data == {"count": 2}
    assert PolicyState.reserved(context(session.fork()), "quota").data == {"count": 2}


@pytest.mark.parametrize("changes", [False, True])
def test_what_others_save_and_reserve_before_a_commit_is_kept_beside_its_own(
    session, save, changes
):
    branch = session.fork()
    save(PolicyState("own"), branch)
    if changes:
        branch[int].append(1)
    branch.validate()
    save(PolicyState("other"))
    save(PolicyState("quota/reserved"), session.fork().reserving())
    branch.commit()
    assert sorted(names(session)) == ["other", "own", "quota/reserved"]


def test_reserve_of_a_nested_call_reads_the_branch_and_counts_on_the_session(session, save):
    branch = session.fork()
    branch[str].append("on the branch")
    save(PolicyState("order"), branch)
    view = branch.reserving()
    assert view[str].latest() == "on the branch"
    assert view[str].where(lambda each: False) == []
    assert names(view) == ["order"]
    PolicyState("quota/reserved").save(context(view))
    branch.rollback()
    assert names(session) == ["quota/reserved"]


def test_reading_in_reserve_is_no_read_of_the_call(session):
    branch = session.fork()
    assert branch.reserving()[str].all() == []
    branch.begin()
    branch[int].append(1)
    session[str].append("other")
    branch.validate()


WRITES = {
    "append": lambda view: view[str].append("x"),
    "seed": lambda view: view[str].seed("x"),
    "clear": lambda view: view[str].clear(),
    "dispatch": lambda view: view.dispatch("x"),
    "publish": lambda view: view.dispatcher.publish("x"),
    "restore": lambda view: view.restore(view.snapshot()),
    "reset": lambda view: view.reset(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_reserve_can_do_nothing_else(session, write):
    with pytest.raises(StateError, match=r"is read-only.* in reserve"):
        write(session.fork().reserving())


def test_reserve_cannot_save_a_record_that_is_rolled_back(session, save):
    with pytest.raises(StateError, match=r"saved the policy record quota.*PolicyState.reserved"):
        save(PolicyState("quota"), session.fork().reserving())


def test_a_call_that_clears_the_records_leaves_what_is_reserved(session, save):
    save(PolicyState("order"))
    save(PolicyState("quota/reserved"), session.fork().reserving())
    branch = session.fork()
    branch[PolicyState].clear()
    branch.commit()
    assert names(session) == ["quota/reserved"]


def test_a_call_cannot_save_a_reserved_record(session, save):
    with pytest.raises(StateError, match="quota/reserved is kept by `reserve` alone"):
        save(PolicyState("quota/reserved"), session.fork())


def test_no_reducer_can_be_registered_for_records(session):
    with pytest.raises(StateError, match="No reducer can be registered for PolicyState"):
        session[PolicyState].register(str, print)


def test_reservations_can_be_put_back_without_touching_other_records(session, save):
    save(PolicyState("quota/reserved", data={"count": 1}))
    save(PolicyState("order"))
    before = session.policy_records
    save(PolicyState("quota/reserved", data={"count": 2}), session.fork().reserving())
    save(PolicyState("rate/reserved"), session.fork().reserving())
    branch = session.fork()
    save(PolicyState("order", frozenset({"build"})), branch)
    branch.commit()
    session.policy_records = before
    assert PolicyState.reserved(context(session), "quota").data == {"count": 1}
    assert PolicyState.of(context(session), "order").invoked_tools == {"build"}
    assert names(session) == ["order", "quota/reserved"]


def test_restore_and_reset_put_records_back_but_no_reservation(session, save):
    save(PolicyState("order"))
    save(PolicyState("quota/reserved", data={"count": 1}))
    snapshot = session.snapshot()
    save(PolicyState("order", frozenset({"build"})))
    save(PolicyState("quota/reserved", data={"count": 2}))
    session.restore(snapshot)
    assert PolicyState.of(context(session), "order").invoked_tools == frozenset()
    assert PolicyState.reserved(context(session), "quota").data == {"count": 2}
    session.reset()
    assert names(session) == ["quota/reserved"]


def test_restore_and_reset_inside_a_call_put_records_back_on_its_branch(session, save):
    save(PolicyState("order"))
    save(PolicyState("quota/reserved", data={"count": 1}))
    snapshot = session.snapshot()
    branch = session.fork()
    save(PolicyState("late"), branch)
    branch.reset()
    assert names(branch) == ["quota/reserved"]
    branch.restore(snapshot)
    assert names(branch) == ["quota/reserved", "order"]
    branch.commit()
    assert names(session) == ["quota/reserved", "order"]
