"""What the SDK logs of servers whose notifications do not fit the protocol, kept short."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

LOGGER: Final = "client"
"""The logger of the SDK's sessions."""
MISFIT: Final = "Failed to validate notification"
"""How it begins, and goes on with a traceback, for each of them."""


@contextmanager
def told_once() -> Generator[None]:
    """Have the SDK tell of notifications that do not fit once within the block, on one line."""
    told = False

    def pass_first(record: logging.LogRecord) -> bool:
        nonlocal told
        if not str(record.msg).startswith(MISFIT):
            return True
        record.exc_info, again, told = None, told, True
        return not again

    logger = logging.getLogger(LOGGER)
    logger.addFilter(pass_first)
    try:
        yield
    finally:
        logger.removeFilter(pass_first)
