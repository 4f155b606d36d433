"""The settings of the table `[plugins.sqlite]`."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Settings(BaseModel):
    """The plugin's settings.

    Args:
        path: The database file. Without one there are no tools.
        create: Whether an empty database is made where the file is not there.
        writes: Whether `sql_execute` is offered; otherwise the file is opened for reading only.
        max_rows: The most rows that a result shows.
        max_characters: The most characters that a result shows, and a single value a tenth of them.
        time_limit: The most seconds that a statement may run.
        busy_timeout: The seconds to wait for another program that is writing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path | None = None
    create: bool = False
    writes: bool = True
    max_rows: int = Field(default=100, ge=1)
    max_characters: int = Field(default=20_000, ge=1_000)
    time_limit: float = Field(default=10.0, gt=0)
    busy_timeout: float = Field(default=2.0, ge=0)

    @model_validator(mode="after")
    def _find_the_file(self) -> Self:
        if self.path is None:
            return self
        if self.path.is_dir():
            raise ValueError(f"path: {self.path} is a directory; name the database file")
        if not self.path.exists() and not (self.create and self.writes):
            raise ValueError(
                f"path: there is no {self.path}; fix the path, or set create = true (and leave "
                "writes on) to begin with an empty database"
            )
        return self
