"""The parts of our tools and calls that a foreign agent shows to its model and its person."""

from __future__ import annotations

from typing import Final

from toolstile_hookspecs import ExecutorHandle, OpenedSections, Outcome, VisibilityExpansionRequired
from toolstile_hookspecs.calls import APPROVAL_TICKET, APPROVAL_TOKEN, DIFF
from toolstile_hookspecs.execution.schemas import ToolSchema

TOKEN: Final = "toolstile_token"  # noqa: S105 - the key of one
"""The key of the token in the question of a call that waits."""


def offered(tools: ExecutorHandle) -> list[ToolSchema]:
    """Return the tools that can be called now, as any model is told of them."""
    return [ToolSchema.of(tool) for tool in tools.prompt.tools(tools.session)]


def question(outcome: Outcome) -> dict[str, str]:
    """Return the question of a call that waits for a person: all of it is plain text.

    Returns:
        `toolstile_token`, which resumes the call, and `question`; `diff` and `ticket` where there
        are such.
    """
    shown = {"ticket": APPROVAL_TICKET, "diff": DIFF, TOKEN: APPROVAL_TOKEN}
    attributes = outcome.event.attributes
    return {
        "question": outcome.text,
        **{key: str(attributes[name]) for key, name in shown.items() if name in attributes},
    }


def opened(tools: ExecutorHandle, request: VisibilityExpansionRequired) -> str:
    """Open the sections that a call asked for; return the text that its model reads."""
    keys = ", ".join(request.section_keys)
    if set(request.section_keys) <= OpenedSections.of(tools.session):
        return f"These sections were open already: {keys}."
    tools.expand(request)
    return f"These sections are open now: {keys}."
