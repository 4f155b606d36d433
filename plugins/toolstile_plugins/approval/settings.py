"""Settings of approval at the terminal."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, PrivateAttr

from toolstile_plugins.approval.grants import HeldGrants


class Mode(StrEnum):
    """The approver."""

    AUTO = "auto"
    """The person at the terminal, where there is one; else nobody."""
    ASK = "ask"
    """The person at the terminal, also where standard input is something else."""
    ALL = "all"
    """Everything is approved unseen."""
    NONE = "none"
    """Nothing is approved."""
    READ = "read"
    """Tools of the category `read` are approved unseen, others are not."""


class ApprovalSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        mode: The approver. `auto` asks the person at the terminal, where there is one; `ask` also
            where standard input is something else. Without asking, `all` approves everything,
            `none` nothing, and `read` only tools of the category `read`.
    """

    mode: Mode = Mode.AUTO

    # Each host validates settings of its own, so what is granted in one is not in another.
    _granted: HeldGrants = PrivateAttr(default_factory=HeldGrants)

    @property
    def granted(self) -> HeldGrants:
        """The grants of a host without an inbox."""
        return self._granted
