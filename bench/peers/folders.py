"""The folders that failing calls write into, and what they write."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

TEXT: Final = "0123456789abcde\n" * 64
WRITTEN: Final = "new.txt"


def name_of(index: int) -> str:
    """Return the path of one of the files that are there."""
    return f"d{index // 100}/f{index}.txt"


@cache
def folder(files: int) -> Path:
    """Return a folder with so many files; it is gone when the program ends."""
    made = Path(tempfile.mkdtemp(prefix="toolstile-bench-"))
    atexit.register(shutil.rmtree, made)
    for index in range(files):
        path = made / name_of(index)
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXT)
    return made
