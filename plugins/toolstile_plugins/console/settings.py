"""The settings of the console, the table `[plugins.console]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ConsoleSettings(BaseModel):
    """The settings of the console.

    Args:
        port: The port on this machine; 0 for any free port.
        interval: Seconds between two looks for changes, while a page is open.
        index: The file of the index of recorded calls, beside the record by default. You can
            remove the file at any time: the console makes it again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    index: Path | None = None
    interval: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
