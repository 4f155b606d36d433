"""The settings of the table `[plugins.prometheus]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class Settings(BaseModel):
    """The plugin's settings.

    Args:
        port: Where the metrics are served; 0 for one that is free. Without it nothing is counted.
        address: The address that is listened on.
        targets_file: Where to write the address while it is served, as a file for Prometheus's
            `file_sd_configs`.
        buckets: The upper bounds of the durations' buckets, in seconds.
        max_tools: The most tools that have labels of their own; all others share one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    address: str = "127.0.0.1"
    targets_file: Path | None = None
    buckets: tuple[float, ...] = BUCKETS
    max_tools: int = Field(default=500, ge=1)

    @field_validator("buckets")
    @classmethod
    def _rise(cls, buckets: tuple[float, ...]) -> tuple[float, ...]:
        if not buckets or buckets[0] <= 0 or list(buckets) != sorted(set(buckets)):
            raise ValueError("rising upper bounds above 0, such as [0.01, 0.1, 1.0]")
        return buckets
