"""Calls work on branches: what fails leaves nothing, what succeeds is there as a whole."""

import json

import pytest
from toolstile_bfcl.json_form import state_form
from toolstile_bfcl.store import BackendStore

from toolstile_hookspecs import Branchable, Closeable, ConflictError

FILES, CAR = "GorillaFileSystem", "VehicleControlAPI"


@pytest.fixture
def store():
    return BackendStore([FILES, CAR], {})


def names(backends):
    return sorted(state_form(backends.view(FILES))["root"]["contents"])


def finish(branch):
    branch.prepare()
    branch.commit()


def test_the_contract_is_met(store):
    assert isinstance(store, Branchable)
    assert isinstance(store, Closeable)


def test_a_change_is_seen_by_others_once_it_is_committed(store):
    branch = store.branch(None, None)
    branch.edit(FILES).touch("a")
    assert names(store.branch(None, None)) == []
    finish(branch)
    assert names(store.branch(None, None)) == ["a"]


def test_a_change_that_is_rolled_back_was_never_there(store):
    before = store.lend(FILES)
    branch = store.branch(None, None)
    branch.edit(FILES).touch("a")
    branch.rollback()
    assert store.lend(FILES) is before
    assert names(store.branch(None, None)) == []


def test_only_what_a_call_touches_is_copied(store):
    branch = store.branch(None, None)
    branch.edit(FILES)
    assert branch.view(CAR) is store.lend(CAR)
    assert branch.edit(FILES) is branch.edit(FILES) is not store.lend(FILES)


def test_calls_that_only_look_never_conflict(store):
    first, second = store.branch(None, None), store.branch(None, None)
    assert names(first) == names(second) == []
    finish(first)
    finish(second)


def test_of_two_changes_to_one_backend_the_later_conflicts(store):
    first, second = store.branch(None, None), store.branch(None, None)
    first.edit(FILES).touch("a")
    second.edit(FILES).touch("b")
    finish(first)
    with pytest.raises(ConflictError, match=FILES):
        second.prepare()


def test_a_look_conflicts_with_a_change_committed_meanwhile(store):
    looking, changing = store.branch(None, None), store.branch(None, None)
    looking.view(FILES)
    changing.edit(FILES).touch("a")
    finish(changing)
    with pytest.raises(ConflictError):
        looking.prepare()


def test_changes_to_different_backends_do_not_conflict(store):
    first, second = store.branch(None, None), store.branch(None, None)
    first.edit(FILES).touch("a")
    second.edit(CAR).set_navigation("Here")
    finish(first)
    finish(second)
    assert names(store.branch(None, None)) == ["a"]
    assert store.lend(CAR).destination == "Here"


def test_a_nested_call_changes_its_caller_alone(store):
    outer = store.branch(None, None)
    outer.edit(FILES).touch("a")
    inner = store.branch(None, outer)
    assert names(inner) == ["a"]
    inner.edit(FILES).touch("b")
    assert names(outer) == ["a"]
    finish(inner)
    assert names(outer) == ["a", "b"]
    assert names(store.branch(None, None)) == []
    finish(outer)
    assert names(store.branch(None, None)) == ["a", "b"]


def test_a_nested_call_that_fails_leaves_its_caller_as_it_was(store):
    outer = store.branch(None, None)
    outer.edit(FILES).touch("a")
    inner = store.branch(None, outer)
    inner.edit(FILES).touch("b")
    inner.rollback()
    outer.edit(FILES).touch("c")
    finish(outer)
    assert names(store.branch(None, None)) == ["a", "c"]


def test_a_caller_that_fails_takes_its_nested_calls_along(store):
    outer = store.branch(None, None)
    inner = store.branch(None, outer)
    inner.edit(FILES).touch("b")
    finish(inner)
    outer.rollback()
    assert names(store.branch(None, None)) == []


def test_what_a_caller_does_while_a_nested_call_runs_is_not_lost(store):
    outer = store.branch(None, None)
    outer.edit(FILES).touch("a")
    inner = store.branch(None, outer)
    inner.edit(FILES).touch("b")
    outer.edit(FILES).touch("c")
    with pytest.raises(ConflictError):
        inner.prepare()
    inner.rollback()
    assert names(outer) == ["a", "c"]


def test_a_nested_look_counts_as_one_of_its_caller(store):
    outer = store.branch(None, None)
    inner = store.branch(None, outer)
    inner.view(FILES)
    finish(inner)
    other = store.branch(None, None)
    other.edit(FILES).touch("a")
    finish(other)
    with pytest.raises(ConflictError):
        outer.prepare()


def test_the_final_state_is_written_when_the_session_is_closed(tmp_path):
    target = tmp_path / "final.json"
    store = BackendStore([FILES], {}, target)
    branch = store.branch(None, None)
    branch.edit(FILES).touch("a")
    finish(branch)
    assert not target.exists()
    store.close()
    written = json.loads(target.read_text())
    assert written[FILES]["root"]["contents"] == {"a": {"type": "file", "name": "a", "content": ""}}
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_written_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BackendStore([FILES], {}).close()
    assert list(tmp_path.iterdir()) == []
