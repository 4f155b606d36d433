"""A workspace with a hook, whose helper ends with its test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.plugins.hook.hooked import Workspace


@pytest.fixture
def hooked(tmp_path: Path) -> Iterator[Workspace]:
    folders = [tmp_path / name for name in ("work", "state", "home")]
    for folder in folders:
        folder.mkdir()
    made = Workspace(*folders)
    yield made
    made.kill()
