"""Ctrl-C at the end of a call: nothing stays held for ever, and what is kept is kept as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from toolyard.resources.exclusive import Claim, lock_of
from toolyard.runtime import Runtime, runtime_of
from toolyard_hookspecs import Binding, Status, ToolContext, tool


class Till:
    """An exclusive resource that keeps everything."""

    def begin(self) -> None: ...
    def commit(self, savepoint: None) -> None: ...
    def rollback(self, savepoint: None) -> None: ...


@pytest.fixture(name="till")
def open_till(yard: Any, touch: Any) -> Till:
    @tool(concurrency="serial")
    def marked(*, fails: bool = False, context: ToolContext) -> None:
        """Change something, and use the till."""
        context.resources.get(Till)
        touch(context)
        assert not fails

    till = Till()
    yard.open(marked, resources=(Binding.instance(Till, till),))
    return till


def interrupt_once(monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str) -> None:
    function = getattr(owner, name)

    def interrupted(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(owner, name, function)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"), [(Runtime, "leave"), (Claim, "leave"), (Claim, "_refuse_own")]
)
def test_nothing_is_held_where_giving_it_back_is_interrupted(  # noqa: PLR0917 - a case has these
    yard: Any,
    till: Till,
    monkeypatch: pytest.MonkeyPatch,
    owner: type[Any],
    name: str,
    fails: bool,
) -> None:
    interrupt_once(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked", fails=fails)

    runtime = runtime_of(yard.session)
    assert (len(runtime.inflight), runtime.turns.holder, lock_of(till).claims) == (0, None, [])
    assert yard.marks == yard.box.items == ([] if fails else ["x"])
    assert yard.call("marked").success


def test_all_is_kept_where_whoever_hears_of_it_interrupts(yard: Any, touch: Any) -> None:
    class Said:
        """An event."""

    @tool
    def says(*, context: ToolContext) -> None:
        """Change something, and publish an event."""
        touch(context)
        context.session.dispatcher.publish(Said())

    def interrupt(said: Said) -> None:
        raise KeyboardInterrupt

    yard.open(says)
    yard.session.dispatcher.subscribe(Said, interrupt)

    with pytest.raises(KeyboardInterrupt):
        yard.call("says")

    assert yard.marks == yard.box.items == ["x"]
    (event,) = yard.events
    assert (event.status, event.rolled_back) == (Status.RAISED, False)
