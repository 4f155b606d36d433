"""Ctrl-C waits for the end of a block, but not for ever, and none comes unpressed."""

import signal
import threading

import pytest

from toolstile_hookspecs.support.process import deferred_interrupts

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)


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


def test_a_signal_waits_for_no_block_that_began_after_it() -> None:
    first, second, third = (deferred_interrupts() for _ in range(3))
    first.__enter__()
    second.__enter__()
    press()
    third.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(KeyboardInterrupt):
        second.__exit__(None, None, None)
    # The next one waits for it, as ever.
    press()
    with pytest.raises(KeyboardInterrupt):
        third.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_between_two_blocks_does_not_come_again() -> None:
    restore = signal.signal

    def interrupted(number, handler):
        before = restore(number, handler)
        if handler is signal.default_int_handler:
            press()
        return before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", interrupted)
        with pytest.raises(KeyboardInterrupt), deferred_interrupts():
            press()
    with deferred_interrupts():
        pass
