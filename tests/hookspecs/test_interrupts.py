"""Ctrl-C waits for the end of a block, but not for ever, and none comes unpressed."""

import signal
import sys
import threading
from typing import Any

import pytest

from toolstile_hookspecs.support.process import allowed_interrupts, deferred_interrupts

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)

INSTALLER: Any = sys.modules["_signal"]


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_signal_raises_at_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - the end raises
        press()
        press()
        done.append("all")
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_third_signal_ends_a_block_that_hangs() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - the third raises
        for _ in range(3):
            press()
        done.append("more")
    assert done == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_waits_for_the_last_open_block() -> None:
    first, second, third = (deferred_interrupts() for _ in range(3))
    first.__enter__()
    second.__enter__()
    press()
    third.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    with pytest.raises(KeyboardInterrupt):
        third.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_comes_as_a_block_begins_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = []
    install = INSTALLER.signal

    def installed(number: int, handler: Any) -> Any:
        before = install(number, handler)
        if handler is not signal.default_int_handler:
            press()
        return before

    monkeypatch.setattr(INSTALLER, "signal", installed)
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - the end raises
        with deferred_interrupts():
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_a_block_that_a_third_signal_has_ended_holds_no_later_one_back() -> None:
    outer, later = deferred_interrupts(), deferred_interrupts()
    outer.__enter__()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the third raises
        for _ in range(3):
            press()
    later.__enter__()
    press()
    outer.__exit__(None, None, None)
    with pytest.raises(KeyboardInterrupt):
        later.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_of_foreign_code_ends_no_block_around_it() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():  # noqa: PT012 - the end raises
        with pytest.raises(KeyboardInterrupt), allowed_interrupts():
            press()
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_between_two_blocks_does_not_come_again() -> None:
    restore = INSTALLER.signal

    def interrupted(number, handler):
        before = restore(number, handler)
        if handler is signal.default_int_handler:
            press()
        return before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(INSTALLER, "signal", interrupted)
        with pytest.raises(KeyboardInterrupt), deferred_interrupts():
            press()
    with deferred_interrupts():
        pass
