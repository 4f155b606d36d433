"""Outcomes of calls: a worker keeps them until they are recorded, and records stay for a week."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import chain, repeat
from typing import Final, TypeVar

from toolstile_hookspecs import StateError

T = TypeVar("T")

KEPT: Final = 7 * 24 * 3600.0
"""Seconds for which an outcome is kept, for hosts that ask late."""
LONGEST_PAUSE: Final = 15.0
"""The most seconds between attempts to record an outcome."""
_logger = logging.getLogger("toolstile.workers")


def until_recorded(record: Callable[[], T]) -> T:
    """Record something as soon as it can be: a handler has run, and only this tells of it.

    Args:
        record: Records it, and raises `StateError` where it cannot.

    Returns:
        What `record` returns.
    """
    for pause in chain((0.2, 1.0, 3.0), repeat(LONGEST_PAUSE)):
        try:
            return record()
        except StateError as error:
            _logger.warning("An outcome cannot be recorded yet: %s", error)
            time.sleep(pause)
    raise AssertionError
