"""The settings of undo, the table `[plugins.undo]`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict

from toolstile_plugins.cli_support import state_folder

_UNITS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_UNITS.update(b=1, kb=10**3, mb=10**6, gb=10**9, tb=10**12)


def _amount(given: object) -> object:
    found = re.fullmatch(r"([0-9]+) *([a-z]+?)s?", str(given).strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError('a number and a unit, such as "7 days" or "50 MB"')
    return int(found[1]) * _UNITS[found[2]]


Amount = Annotated[int, BeforeValidator(_amount)]


class UndoSettings(BaseModel):
    """The time for which calls can be undone, and the place of the replaced contents.

    Args:
        keep: The time for which calls can be undone, such as "7 days".
        most: The bytes of all contents that are kept, such as "1 GB"; the oldest are dropped.
        file: The bytes of the largest file whose content is kept, such as "50 MB".
        path: A directory outside of every workspace, best on the same file system; None for
            `toolstile/undo` in the user's directory for state.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keep: Amount = 7 * _UNITS["day"]
    most: Amount = 10**9
    file: Amount = 50 * 10**6
    path: Path | None = None

    @property
    def directory(self) -> Path:
        """The directory of the contents."""
        return (self.path or state_folder() / "undo").expanduser().absolute()
