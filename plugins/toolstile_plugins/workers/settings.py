"""The settings of workers, the table `[plugins.workers]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolstile_hookspecs import ToolSelector

DAY: Final = 24 * 3600

Seconds = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]


class WorkersSettings(BaseModel):
    """The calls that run on workers, and their way there.

    Args:
        runs: The tools that run on workers, as fields of a selector; None for no tool.
        dispatcher: `local` for workers on this machine, `dbos` for workers of one database, or the
            name of another entry point in the group `toolstile.dispatchers`.
        path: The file of `local`, through which calls and outcomes pass.
        synchronous: For `local`: `full` keeps a call from running twice also after a loss of power.
        lease: Seconds after which a worker without a heartbeat counts as dead.
        patience: Seconds for which a call waits for a worker.
        options: What the dispatcher is given besides; `dbos` takes `poll`.

    Example:
        >>> WorkersSettings(runs={"tags": ["slow"]}).dispatcher
        'local'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: ToolSelector | None = None
    dispatcher: Annotated[str, Field(min_length=1)] = "local"
    path: Path = Path(".toolstile/calls.db")
    synchronous: Literal["normal", "full"] = "normal"
    lease: Seconds = 10.0
    patience: Seconds = 60.0
    options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
