"""The settings of workers, the table `[plugins.workers]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from toolstile_hookspecs import Durability, ToolSelector
from toolstile_plugins.entry_points import loaded

if TYPE_CHECKING:
    from toolstile_hookspecs import HostHandle
    from toolstile_hookspecs.services.dispatcher import Dispatcher

BEATS: Final = 5
"""Heartbeats of a worker in a lease."""
DAY: Final = 24 * 3600

Seconds = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]


def endpoint(address: str) -> tuple[str, int]:
    """Return the host and port (else 0) of an address; an invalid one raises `ValueError`."""
    parts = urlsplit(f"//{address}")
    if not parts.hostname or parts.path or parts.query or parts.username is not None:
        raise ValueError(f"{address!r} is not HOST or HOST:PORT, such as 10.0.0.5:7410")
    return parts.hostname, parts.port or 0


def _checked(address: str) -> str:
    endpoint(address)
    return address


class WorkersSettings(BaseModel):
    """The tools that run on workers, and how calls reach the workers.

    Args:
        runs: The tools that run on workers, as fields of a selector; None for no tool.
        concurrency: The maximum number of calls at once on a worker within the host, in processes
            that end with the host; 0 if all workers are started by `toolstile worker`.
        dispatcher: `local` for workers on this machine, `dbos` for workers of one database, or the
            name of another entry point in the group `toolstile.dispatchers`.
        path: The file of `local` with calls and outcomes; the file of `[plugins.database]` if this
            table has no path.
        durability: The durability of `local`; with `power` no call runs twice after a power loss.
        lease: Seconds after which a worker without a heartbeat counts as dead.
        patience: Seconds that a call waits for a worker, in addition to its tool's timeout.
        address: `HOST` or `HOST:PORT` at which workers on other machines reach this host, for
            handlers that take a context or have secrets; None for workers of this machine.
        options: Options for the dispatcher; `dbos` takes `poll`.

    Example:
        >>> WorkersSettings(runs={"tags": ["slow"]}).dispatcher
        'local'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: ToolSelector | None = None
    concurrency: Annotated[int, Field(ge=0)] = 0
    dispatcher: Annotated[str, Field(min_length=1)] = "local"
    path: Path = Path(".toolstile/calls.db")
    durability: Durability = "power"
    lease: Seconds = 10.0
    patience: Seconds = 60.0
    address: Annotated[str, AfterValidator(_checked)] | None = None
    options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)


def dispatcher_of(settings: WorkersSettings, host: HostHandle) -> Dispatcher:
    """Return a new dispatcher of the kind in the settings."""
    make = loaded("toolstile.dispatchers", settings.dispatcher, "plugins.workers.dispatcher")
    made: Dispatcher = make(settings, host)
    return made
