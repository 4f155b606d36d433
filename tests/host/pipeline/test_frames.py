"""A session's log keeps what was raised, and nothing that frames held."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import Interrupt, ToolResult, ToolValidationError, hookimpl, tool


class Load:
    """Something large that a frame holds."""


def grouped(load: Load) -> None:
    def fails() -> None:
        kept = load
        raise ValueError(f"no {type(kept).__name__}")

    failures = []
    for _ in range(2):
        try:
            fails()
        except ValueError as error:
            failures.append(error)
    raise ExceptionGroup("both failed", failures)


def masking(load: Load) -> None:
    def fails() -> None:
        kept = load
        raise KeyError(type(kept).__name__)

    try:
        fails()
    except KeyError:
        raise ToolValidationError("It does not fit.") from OSError()


def pausing(load: Load) -> None:
    kept = load
    raise Interrupt(f"wait for {type(kept).__name__}")


class NeedsMore(Interrupt):
    def __init__(self, what: str, *, how_much: int) -> None:
        super().__init__(f"{how_much} {what}")
        self.how_much = how_much


def demanding(load: Load) -> None:
    kept = load
    raise NeedsMore(type(kept).__name__, how_much=3)


@pytest.fixture
def failing() -> Callable[..., Any]:
    """Makes a tool that fails in a way, and the references to what its frames held."""

    def failing(fails: Callable[[Load], None]) -> Any:
        loads: list[weakref.ref[Load]] = []

        @tool
        def fail() -> ToolResult[None]:
            """Fail."""
            load = Load()
            loads.append(weakref.ref(load))
            fails(load)
            return ToolResult.ok()

        return fail, loads

    return failing


@pytest.mark.parametrize("fails", [grouped, masking, pausing, demanding])
def test_what_frames_held_is_gone_with_them(yard, failing, fails):
    fail, loads = failing(fails)
    yard.open(fail)
    try:
        yard.call("fail")
    except Interrupt as error:
        error.__traceback__ = None
    gc.collect()
    assert [load() for load in loads] == [None]


@pytest.mark.parametrize("fails", [pausing, demanding])
def test_of_what_is_raised_the_log_keeps_the_like(yard, failing, fails):
    yard.open(failing(fails)[0])
    with pytest.raises(Interrupt) as raised:
        yard.call("fail")
    kept = yard.events[0].error
    assert kept is not raised.value
    assert (type(kept), str(kept), vars(kept)) == (
        type(raised.value),
        str(raised.value),
        vars(raised.value),
    )
    assert kept.__traceback__ is None
    assert raised.value.__traceback__ is not None


def test_observers_see_the_frames_of_what_is_raised(yard, failing):
    seen: list[Any] = []

    class Looking:
        @hookimpl
        def toolstile_telemetry(self, event):
            seen.append(event.error.__traceback__)

    yard.open(failing(pausing)[0], plugins=(Looking(),))
    with pytest.raises(Interrupt):
        yard.call("fail")
    assert seen[0] is not None
