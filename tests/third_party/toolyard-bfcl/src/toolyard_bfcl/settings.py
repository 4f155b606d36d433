"""What a user can set in the table `[plugins.bfcl]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, FilePath, TypeAdapter, ValidationError

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

Scenarios = dict[str, dict[str, Any]]
_SCENARIOS = TypeAdapter(Scenarios)


class Settings(BaseModel):
    """The plugin's settings.

    Args:
        suites: The backends to offer.
        start: The state to start from, by suite: a table, or the path of a JSON file. A
            suite without an entry starts from its backend's own defaults.
        final_state: Where to write the state as JSON when a session is closed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suites: tuple[SuiteName, ...] = Field(default=ALL_SUITES, min_length=1)
    start: FilePath | Scenarios = Field(default_factory=dict)
    final_state: Path | None = None

    def read_start(self) -> Scenarios:
        """Return the start states, by suite.

        Raises:
            ValueError: When the file is not JSON, or not an object of objects.
        """
        if isinstance(self.start, dict):
            return self.start
        try:
            return _SCENARIOS.validate_json(self.start.read_bytes())
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in fault["loc"])
            msg = (
                f"{self.start}: the start state is not a JSON object with one object for each "
                f"suite ({place or 'as a whole'}: {fault['msg']}). Mend the file."
            )
            raise ValueError(msg) from error
