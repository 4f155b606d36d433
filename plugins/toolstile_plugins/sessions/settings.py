"""The settings of stored sessions, the table `[plugins.sessions]`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from toolstile_hookspecs import Durability


class SessionsSettings(BaseModel):
    """Where sessions are stored, and where limits over several sessions are counted.

    Args:
        path: The file, which the ledger takes, too, so that a call is decided once, with its
            record. None stores nothing, and counts in this host alone.
        durability: The host's; `power` waits for the disk at each call.

    Example:
        >>> SessionsSettings(path=".toolstile/ledger.db").durability
        'power'
    """

    model_config = ConfigDict(extra="forbid")

    path: Path | None = None
    durability: Durability = "power"
