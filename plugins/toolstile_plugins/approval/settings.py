"""Settings of approval at the terminal."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel


class Mode(StrEnum):
    """The approver."""

    AUTO = "auto"
    """The person at the terminal if there is a terminal; without one, calls are denied."""
    ASK = "ask"
    """The person at the terminal, even if standard input is something else."""
    ALL = "all"
    """Everything is approved unseen."""
    NONE = "none"
    """Nothing is approved."""
    READ = "read"
    """Tools of the category `read` are approved unseen, others are not."""


class ApprovalSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        mode: The approver. `auto` asks the person at the terminal, if any; `ask` even if standard
            input is something else. Without asking, `all` approves everything, `none` nothing,
            and `read` only tools of the category `read`.
    """

    mode: Mode = Mode.AUTO
