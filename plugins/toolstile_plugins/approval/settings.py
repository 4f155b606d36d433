"""Settings of approval, and the standing approvals of a session."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, PrivateAttr

from toolstile_hookspecs import ApprovalRequest, Tool


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


class Granted:
    """The standing approvals of a session, tool by tool."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], Tool[Any, Any]] = {}

    def add(self, request: ApprovalRequest) -> None:
        """Remember that this tool need not be asked for again in this session."""
        self._tools[self._key(request)] = request.tool

    def covers(self, request: ApprovalRequest) -> bool:
        """Tell whether the tool was approved; another one of its name was not."""
        return self._tools.get(self._key(request)) is request.tool

    def _key(self, request: ApprovalRequest) -> tuple[str, str]:
        return request.context.session.id, request.tool.name


class ApprovalSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        mode: The approver. `auto` asks the person at the terminal, where there is one; `ask` also
            where standard input is something else. Without asking, `all` approves everything,
            `none` nothing, and `read` only tools of the category `read`.
    """

    mode: Mode = Mode.AUTO

    # Each host validates settings of its own, so what is granted in one is not in another.
    _granted: Granted = PrivateAttr(default_factory=Granted)

    @property
    def granted(self) -> Granted:
        """The standing approvals of a session."""
        return self._granted
