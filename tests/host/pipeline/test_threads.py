"""The threads of a host end with it, also those that a call still needed when it was closed."""

from __future__ import annotations

import threading

from toolstile.drivers.background_loop import Background
from toolstile_hookspecs.support.event_loop import Workers

# Only what never comes takes this long.
PATIENCE = 60.0


def threads(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == name]


def test_a_busy_worker_ends_after_what_it_does() -> None:
    workers, go_on = Workers("closing"), threading.Event()
    workers.submit(go_on.wait)
    [busy] = threads("closing-worker")

    workers.close()
    go_on.set()

    busy.join(PATIENCE)
    assert not busy.is_alive()


def test_a_loop_that_is_needed_after_it_was_closed_ends_with_the_last_who_could_need_it() -> None:
    before = threads("toolstile-loop")
    background = Background()
    background.close()
    assert background.loop.is_running()
    [late] = set(threads("toolstile-loop")) - set(before)

    del background

    late.join(PATIENCE)
    assert not late.is_alive()
