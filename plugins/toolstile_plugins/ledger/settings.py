"""The settings of the ledger, the table `[plugins.ledger]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolstile_hookspecs import Durability

Seconds = Annotated[float, Field(gt=0)]

YEAR: Final = 365 * 24 * 3600
"""In seconds; neither threads nor databases count without end."""
_REPLACED: Final = {"memory": "memory = true", "postgres": 'url = "postgresql://..."'}
"""The lines of `[plugins.database]` in place of a `store` of earlier versions."""


class OtherTool(BaseModel):
    """A tool that says what became of another tool's calls, `[plugins.ledger.reconcile.TOOL]`.

    Args:
        tool: Its name.
        arguments: Its arguments: `key`, `params`, or a part of them such as `params.item`, each
            under the name that the tool gives it.

    Example:
        >>> OtherTool(tool="find_order", arguments={"reference": "key"}).tool
        'find_order'
    """

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, str] = Field(default={"key": "key"}, min_length=1)


class LedgerSettings(BaseModel):
    """Where effects are recorded, and who settles those of which nobody knows.

    Args:
        path: A SQLite file; without it, the file of stored sessions if there is one.
            `[plugins.database]` names another place.
        durability: The host's; `power` waits for the disk twice a call.
        lease: Seconds after which the claim of a silent process is given up; at most a year.
        wait: The most seconds that a call waits for another one of the same key, and for what
            became of an unknown effect.
        reconcile: The tools that say what became of others' calls, by the names of those.
        backoff: The least seconds until an effect of which nothing can be told is asked about
            again; the pause grows up to an hour.
        reconcile_every: Seconds between two looks at all unknown effects while a host is open; 0
            for none.
        owner: Who settles what stays unknown, for messages.
        settle_within: Seconds after which an unknown effect is an alarm.

    Example:
        >>> LedgerSettings(lease=10).path
        PosixPath('.toolstile/ledger.db')
    """

    model_config = ConfigDict(extra="forbid")

    path: Path = Path(".toolstile/ledger.db")
    durability: Durability = "power"
    lease: Annotated[Seconds, Field(le=YEAR)] = 30.0
    wait: Seconds = 30.0
    reconcile: dict[str, OtherTool] = Field(default_factory=dict[str, OtherTool])
    backoff: Annotated[Seconds, Field(le=3600)] = 5.0
    reconcile_every: Annotated[float, Field(ge=0, le=YEAR)] = 30.0
    owner: str | None = None
    settle_within: Annotated[Seconds, Field(le=YEAR)] = 3600.0

    @model_validator(mode="before")
    @classmethod
    def _refuse_another_place(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not (found := table.keys() & {"store", "url"}):
            return table
        store = "postgres" if "url" in found else str(table["store"])
        line = _REPLACED.get(store)
        instead = (
            f", and write in [plugins.database]: {line}" if line else "; a file needs no store"
        )
        raise ValueError(f"remove {' and '.join(sorted(found))}{instead}")

    @property
    def unused(self) -> list[str]:
        """The settings of the own file, for a host in which a plugin offers another store."""
        return [name for name in ("path", "lease") if name in self.model_fields_set]
