"""Hosts whose power is cut keep all that they acknowledged: effects, sessions, files, records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .mirrored_disk import MirroredDisk

DRIVER = Path(__file__).with_name("power_driver.py")


class Found(NamedTuple):
    """The result of many looks.

    Args:
        faults: All that should not be.
        seen: How many calls ended in which way.
    """

    faults: list[str]
    seen: Counter[str]


def drive(disk: MirroredDisk, library: Path, **options: Any) -> Found:
    options = {"library": str(library), "settings": {}, "stored": True, "seed": 1, **options}
    environment = {**os.environ, **disk.environment}
    # What a host has that says nothing about it; other tests ask for `process`.
    environment.pop("TOOLSTILE_DURABILITY", None)
    done = subprocess.run(
        [sys.executable, DRIVER, disk.root.parent, json.dumps(options)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=7_200,
    )
    assert done.returncode == 0, done.stderr
    found = Found([], Counter())
    for line in map(json.loads, done.stdout.splitlines()):
        found.faults.extend(line["faults"])
        found.seen.update(line["seen"])
    return found


KNOWN = {"acknowledged replayed", "replayed", "unknown", "ran"}
"""The ends of calls that are made again; one that was acknowledged is always replayed."""


@pytest.mark.slow
@pytest.mark.parametrize("stored", [True, False])
def test_a_few_cuts_lose_nothing_that_was_acknowledged(
    disk: MirroredDisk, library: Path, stored: bool
) -> None:
    found = drive(disk, library, cuts=6, stored=stored)
    assert found.faults == []
    assert found.seen["acknowledged replayed"] > 6
    assert found.seen.keys() <= KNOWN


@pytest.mark.slow
def test_they_do_where_nothing_waits_for_the_disk(disk: MirroredDisk, library: Path) -> None:
    # Several, because a cut is at a random instant, and some lose nothing.
    found = drive(disk, library, cuts=12, settings={"durability": "process"})
    told = " ".join(found.faults)
    assert "is forgotten" in told
    assert "is not recorded" in told


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
@pytest.mark.parametrize("stored", [True, False])
def test_two_hundred_cuts_do_not(
    disk: MirroredDisk, library: Path, stored: bool, seed: int
) -> None:
    found = drive(disk, library, cuts=40, stored=stored, seed=seed)
    assert found.faults == []
    assert found.seen.keys() <= KNOWN
    assert found.seen["acknowledged replayed"] > 40
