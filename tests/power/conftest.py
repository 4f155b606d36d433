"""A disk that loses its power, for tests of the files on it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from .mirrored_disk import MirroredDisk, build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that keeps the mirror; skips where it cannot be compiled."""
    if sys.platform != "linux":
        pytest.skip("LD_PRELOAD and statx are of Linux")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) is installed")
    return build(tmp_path_factory.mktemp("power"))


@pytest.fixture
def disk(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredDisk:
    """A disk on which all that is there has been synced."""
    disk = MirroredDisk(tmp_path, library)
    for name in ("POWER_CUT_ROOT", "POWER_CUT_MIRROR"):
        monkeypatch.setenv(name, disk.environment[name])
    disk.settle()
    return disk
