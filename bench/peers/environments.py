"""A virtual environment for each peer, made once and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from peers import Peer

FOR_THE_FLOOR: Final = ("pydantic>=2.12", "typing-extensions>=4.12")
STAMP: Final = "installed.txt"


class NotInstalledError(Exception):
    """A peer cannot be installed; the message says why."""


def python_of(peer: Peer, folder: Path) -> Path:
    """Return the Python of a peer's environment, which is made where it is not there yet.

    Raises:
        NotInstalledError: If the peer cannot be installed.
    """
    if not peer.requirements:
        return Path(sys.executable)
    home = folder / peer.runner
    python = python_in(home)
    wanted = "\n".join((sys.version, *peer.requirements, *FOR_THE_FLOOR))
    stamp = home / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        run(sys.executable, "-m", "venv", str(home))
        run(str(python), "-m", "pip", "install", "-q", *peer.requirements, *FOR_THE_FLOOR)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def python_in(home: Path) -> Path:
    """Return the Python of a virtual environment."""
    return home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def run(*command: str) -> None:
    """Run a command of an installation.

    Raises:
        NotInstalledError: If it fails; the message is its own.
    """
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError((said or ended.stderr.splitlines() or ["no reason given"])[-1])
