"""Killed at any instant, a call's session, record and files are all there, or none is."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.plugins.sessions.test_crash import (
    RAN,
    REPLAYED,
    STEPS,
    UNKNOWN,
    WITHIN,
    drive,
    what_it_was,
)

from .conftest import made_schema

pytestmark = pytest.mark.slow

QUICK = {"after the entry"}


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=() if step in QUICK else pytest.mark.long) for step in STEPS],
)
def test_killed_at_a_step(step, url):
    (line,) = drive("at", step, "act", "act", database=url)
    assert what_it_was(line) == STEPS[step]


@pytest.mark.long
@pytest.mark.parametrize("step", WITHIN)
def test_killed_while_a_call_within_contributes_to_the_decision(step, url):
    (line,) = drive("at", step, "put_within", "put", database=url)
    assert what_it_was(line) == WITHIN[step]


@pytest.mark.long
def test_killed_at_random_instants(postgres):
    # Side by side: most of a round is waiting for the lease of the process that was killed.
    urls = [made_schema(postgres) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda url: drive("random", "75", database=url), urls))
    lines = [line for lines in found for line in lines]
    assert len(lines) == 900
    seen = Counter(what_it_was(line) for line in lines)
    assert set(seen) == {RAN, REPLAYED, UNKNOWN}
