"""The settings of the ledger, the table `[plugins.ledger]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolstile_hookspecs import Durability

Seconds = Annotated[float, Field(gt=0)]

YEAR: Final = 365 * 24 * 3600
"""In seconds, because threads and databases cannot wait for ever."""
_REPLACED: Final = {"memory": "memory = true", "postgres": 'url = "postgresql://..."'}
"""The lines of `[plugins.database]` in place of a `store` of earlier versions."""


class OtherTool(BaseModel):
    """A tool that finds out whether calls of TOOL happened, `[plugins.ledger.reconcile.TOOL]`.

    Args:
        tool: Its name.
        arguments: Its arguments, by their names: each is `key`, `params`, or a part of the params
            such as `params.item`.

    Example:
        >>> OtherTool(tool="find_order", arguments={"reference": "key"}).tool
        'find_order'
    """

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, str] = Field(default={"key": "key"}, min_length=1)


class LedgerSettings(BaseModel):
    """The file in which effects are recorded, and the reconciliation of unknown effects.

    Args:
        path: A SQLite file; without it, the file of stored sessions if there is one.
            `[plugins.database]` names another place.
        durability: The host's; `power` waits for the disk twice a call.
        lease: Seconds after which the claim of a silent process lapses; at most a year.
        wait: The most seconds that a call waits for another call of the same key, and for the
            answer about an unknown effect.
        reconcile: The tools that are asked about the calls of other tools, by those tools' names.
        backoff: The least seconds until the next question about an effect that stays unknown; the
            pause grows up to an hour.
        reconcile_every: Seconds between two passes over all unknown effects while a host is open;
            0 for none.
        owner: The person or team that resolves unknown effects, for messages.
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
        given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
        found = given.keys() & {"store", "url"}
        if not found:
            return cast("Any", table)
        store = "postgres" if "url" in found else str(given["store"])
        line = _REPLACED.get(store)
        instead = (
            f", and write in [plugins.database]: {line}" if line else "; a file needs no store"
        )
        raise ValueError(f"remove {' and '.join(sorted(found))}{instead}")

    @property
    def unused(self) -> list[str]:
        """The settings of the file, which a host does not use if a plugin offers a store."""
        return [name for name in ("path", "lease") if name in self.model_fields_set]
