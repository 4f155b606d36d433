"""Approvals of calls, as policies and plugins see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext

APPROVAL_BY: Final = "toolstile.approval_by"
"""The attribute of an event with the person who answered, and the way on which they did."""


def is_approved(context: ToolContext) -> bool:
    """Tell whether a person has approved the call, as it came or edited.

    It is known from the approval on: in `toolstile_execute`, `on_result` and `on_failure`.

    Args:
        context: The call's; False for one made by hand.
    """
    control: Any = context.control
    return bool(getattr(control, "is_approved", False))
