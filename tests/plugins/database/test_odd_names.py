"""Ids and keys of odd characters are kept like any other, or refused before anything is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.testing.counter import take
from toolstile_hookspecs.testing.session_store import entry_of
from toolstile_hookspecs.testing.suite import at
from toolstile_plugins.sessions.sqlite import SqliteCounter, SqliteSessions

pytestmark = pytest.mark.slow

ODD = ["a\0b", "a\ud800", "\udfff\0", "ü\U0001f600"]


def is_done(work: Callable[[], object]) -> bool:
    """Tell whether something was done; False where its name was refused."""
    try:
        work()
    except StateError as error:
        if "out of ids and keys" not in str(error):
            raise
        return False
    return True


@pytest.fixture(params=["file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path) -> Iterator[SessionStore]:
    """A store of sessions."""
    if request.param == "postgres":
        yield request.getfixturevalue("stores")()
        return
    with closing(SqliteSessions(tmp_path / "state.db")) as sessions:
        yield sessions


@pytest.fixture
def counter(store):
    """The counter beside it."""
    return SqliteCounter(store) if isinstance(store, SqliteSessions) else store.counter()


@pytest.mark.parametrize("name", ODD)
def test_a_session_of_any_id_is_stored_or_refused(store, name):
    def append():
        with store.deciding(name) as decision:
            decision.append(entry_of())

    (done,) = {
        *map(is_done, (lambda: store.after(name, 0), lambda: store.has_moved(name, 0), append))
    }
    assert [info.id for info in store.sessions()] == [name] * done


@pytest.mark.parametrize("name", ODD)
def test_a_decision_goes_on_after_a_key_or_an_id_that_was_refused(store, counter, name):
    with store.deciding("s") as decision:
        (done,) = {
            is_done(lambda: take(counter, name)),
            is_done(lambda: take(counter, "b", key=name)),
            is_done(lambda: counter.settle(name, 2)),
            is_done(lambda: counter.read(name, now=at(0))),
        }
        decision.append(entry_of())
    assert len(store.after("s", 0)) == 1
    assert counter.read("k", now=at(0)) == 2 * done


@pytest.mark.parametrize("kind", ["sessions", "database"])
def test_a_host_refuses_the_id_where_it_enters(request, tmp_path, kind):
    place = {"path": tmp_path / "state.db"}
    if kind == "database":
        place = {"url": request.getfixturevalue("url")}
    plugins = {"database": {"memory": True}, kind: place}
    make = partial(Host, discover=["database", "ledger", "sessions"])
    with (
        make(settings=Settings.model_validate({"plugins": plugins})) as host,
        pytest.raises(StateError, match="out of ids and keys"),
    ):
        host.executor(session_id="a\ud800")
