"""Tools of ours that the tests of several adapters use, and what became of their calls."""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import ApprovalAnswer, ExecutorHandle, Status, ToolInvoked, tool


@tool(category="side_effect")
def place(item: str, quantity: int = 1) -> str:
    """Order something."""
    return f"{quantity} x {item}"


@tool(category="delete", requires_confirmation=True)
def erase(name: str) -> str:
    """Erase something for good."""
    return f"Erased {name}."


def later(_: Any) -> ApprovalAnswer:
    return ApprovalAnswer.pending()


def statuses(tools: ExecutorHandle) -> list[Status]:
    return [event.status for event in tools.session[ToolInvoked].all()]
