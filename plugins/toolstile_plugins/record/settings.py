"""The settings of recording and replaying."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from toolstile_hookspecs import Durability


class RecordSettings(BaseModel):
    """The settings of recording and replaying.

    Args:
        file: The file that every call is appended to; None to record nothing.
        folder: A directory where each run gets its own record; for hosts that run at the same
            time.
        durability: The host's; with `power` each line is on disk before its call ends.
        replay: A record to answer calls from, in place of the handlers; None to run them.
        off: Whether nothing is recorded or replayed. The commands that make no calls set it.
        beside: Whether a run records to a new file beside `file` if another process writes `file`.
            The commands set it, unless they have `--record`.
        strict: Whether calls are answered in the recorded order only, and not by their names
            and arguments.
        diff: Whether each call's changes are recorded as an approver reads them. The host then
            works them out for every call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path | None = None
    folder: Path | None = None
    durability: Durability = "power"
    replay: Path | None = None
    off: bool = False
    beside: bool = False
    strict: bool = False
    diff: bool = False

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.file is not None and self.folder is not None:
            raise ValueError("give either a file for all runs, or a folder with one for each")
        return self
