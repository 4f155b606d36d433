"""The settings of the table `[plugins.bfcl]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

SuiteName = Literal[
    "GorillaFileSystem",
    "MathAPI",
    "MessageAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "TravelAPI",
    "VehicleControlAPI",
]
ALL_SUITES: tuple[SuiteName, ...] = get_args(SuiteName)


def _read(value: object) -> object:
    """Return what the file holds where a path is given, anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(Path(value).read_text(encoding="utf-8"))
    except OSError as error:
        fault = error.strerror or str(error)
    except ValueError as error:
        fault = f"not JSON, {error}"
    msg = f"a table, or the path of a JSON file ({fault})"
    raise ValueError(msg)


class Settings(BaseModel):
    """The plugin's settings.

    Args:
        suites: The backends to offer.
        start: The state to start from, by suite: a table, or the path of a JSON file. A
            suite without an entry starts from its backend's own defaults.
        final_state: Where to write the state as JSON when a session is closed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suites: tuple[SuiteName, ...] = ALL_SUITES
    start: Annotated[dict[str, dict[str, Any]], BeforeValidator(_read)] = Field(
        default_factory=dict
    )
    final_state: Path | None = None
