"""Log records about plugins and policies whose failure changes no outcome."""

from __future__ import annotations

import logging
from typing import Final

import pytest

_BEGINNINGS: Final = ("Plugin ", "Policy ")


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the host has logged of plugins and policies that failed."""
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("toolstile")
        and each.levelno >= logging.ERROR
        and each.getMessage().startswith(_BEGINNINGS)
    ]
