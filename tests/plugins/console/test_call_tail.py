"""Pages that follow calls get each new one once, or are told to load the list."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from toolstile_plugins.console.call_index import MOST, CallIndex, Filter, Tail

from .test_call_index import ALL, Run, record


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def run(folder):
    folder.mkdir()
    with ExitStack() as stack:
        yield Run(folder / "calls.jsonl", stack)


@pytest.fixture
def tail(run, folder):
    return Tail(CallIndex([folder]))


def since(tail, place, asked=ALL):
    found = tail.look().since(str(place), asked)
    return None if found is None else [row.gist for row in found]


def test_what_came_since_is_given_once(tail, run):
    run.say("a")
    before = tail.look()
    assert tail.look() == before
    run.say("b", "c")
    after = tail.look()
    run.say("d")
    now = tail.look()
    assert len({str(look) for look in (before, after, now)}) == 3
    assert since(tail, before) == ["d", "c", "b"]
    assert since(tail, after) == ["d"]
    assert since(tail, now) == []


@pytest.mark.parametrize("place", ["", "0-0", "99999-1", "1-x", "x"])
def test_a_page_that_was_told_nothing_yet_loads_the_list(tail, run, place):
    run.say("a")
    assert since(tail, place) is None


def test_of_more_than_a_page_shows_the_newest_are_given(tail, run):
    before = tail.look()
    run.say(*[str(number) for number in range(MOST + 20)])
    tail.look()
    newest = [str(number) for number in reversed(range(20, MOST + 20))]
    assert since(tail, before) == newest
    # One that was not read may be among those that are asked for.
    assert since(tail, before, Filter(tool="say")) is None


def test_a_page_with_a_filter_gets_what_it_asks_for_as_long_as_all_is_held(tail, run):
    before = tail.look()
    run.say(*"ab")
    between = tail.look()
    assert since(tail, before, Filter(tool="s?y")) == ["b", "a"]
    assert since(tail, before, Filter(outcome="failed")) == []
    run.say(*[str(number) for number in range(MOST - 1)])
    tail.look()
    assert since(tail, before, Filter(tool="say")) is None
    assert len(since(tail, between, Filter(tool="say"))) == MOST - 1


def test_a_record_that_comes_later_is_followed_as_well(tail, run, folder):
    before = tail.look()
    record(folder / "later.jsonl", "a")
    run.say("b")
    tail.look()
    assert since(tail, before) == ["b", "a"]


def test_where_a_record_was_replaced_the_list_is_loaded(tail, run, folder):
    record(folder / "other.jsonl", "a", "b")
    before = tail.look()
    (folder / "other.jsonl").unlink()
    run.say("c")
    record(folder / "other.jsonl", "d")
    assert tail.look() != before
    assert since(tail, before) is None


def test_a_page_gets_calls_up_to_the_version_that_it_hears_of(tail, run):
    run.say("a")
    before = tail.look()
    run.say("b")
    known = tail.look()
    run.say("c")
    after = tail.look()
    assert [row.gist for row in known.since(str(before), ALL)] == ["b"]
    assert [row.gist for row in after.since(str(known), ALL)] == ["c"]
