"""Ids of calls are unique over hosts, and ordered by time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolstile_hookspecs.support import process
from toolstile_hookspecs.support.process import new_id


def test_ids_are_in_the_order_of_their_making_and_begin_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = [new_id() for _ in range(20_000)]
    after = time.time_ns() // 1_000_000
    assert made == sorted(set(made))
    assert before <= int(made[0][:12], 16) <= int(made[-1][:12], 16) <= after


def test_an_id_has_the_layout_of_a_version_7_uuid() -> None:
    made = uuid.UUID(new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_threads_and_a_clock_that_is_set_back_make_no_id_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = iter([5_000_000, 4_000_000] * 20_000)
    monkeypatch.setattr(process, "time_ns", lambda: next(moments))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: new_id(), range(20_000)))
    assert len(set(made)) == len(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here")
def test_a_forked_process_makes_other_ids() -> None:
    code = """
import os
from toolstile_hookspecs.support.process import new_id
new_id()
child = os.fork()
os.write(1, f"{new_id()[12:]}\\n".encode())
if child:
    os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    # The random bits, not the count alone, differ.
    assert first[:8] != second[:8]
