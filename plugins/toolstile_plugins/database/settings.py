"""The settings of the database, the table `[plugins.database]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from toolstile_hookspecs import Durability

# Because PostgreSQL rounds less than a millisecond to 0, which means no limit.
Seconds = Annotated[float, Field(ge=0.001, le=3600)]


class DatabaseSettings(BaseModel):
    """The one place of sessions, effects, questions and queued calls.

    Args:
        url: The connection string of a PostgreSQL database, for hosts on many machines. Needs the
            extra `postgres`.
        path: A SQLite file, for the hosts of one machine.
        memory: Whether effects stay in memory, so that no file is made for them.
        durability: The durability of the file; by default the host's.
        pool_size: Maximum connections of one process: one for each concurrent decision.
        statement_timeout: Seconds after which the server cancels a statement.
        lock_timeout: Maximum seconds that a statement waits for a lock, or a transaction idles.
        lease: Seconds after which the claim of a silent process expires.

    Example:
        >>> DatabaseSettings(url="postgresql://shop:secret@db/shop").url
        SecretStr('**********')
    """

    model_config = ConfigDict(extra="forbid")

    url: SecretStr | None = None
    path: Path | None = None
    memory: bool = False
    durability: Durability = "power"
    pool_size: Annotated[int, Field(ge=2, le=1000)] = 8
    statement_timeout: Seconds = 15.0
    lock_timeout: Seconds = 10.0
    lease: Seconds = 30.0

    @model_validator(mode="after")
    def _name_one_place(self) -> DatabaseSettings:
        if (self.url is not None) + (self.path is not None) + self.memory > 1:
            raise ValueError("url, path and memory each name a place; keep one of them")
        return self
