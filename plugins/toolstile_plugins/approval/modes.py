"""The answer to a request, as the mode says."""

from __future__ import annotations

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest
from toolstile_plugins.approval.dialogue import Dialogue
from toolstile_plugins.approval.settings import ApprovalSettings, Mode
from toolstile_plugins.approval.terminal import (
    Terminal,
    Unavailable,
    Withdrawn,
    open_terminal,
    taking_turns,
)

NOBODY = "There is nobody to ask: approval is set to 'none'."
NO_TERMINAL = "There is nobody to ask: no terminal is attached."
NOT_READING = "Only tools of the category 'read' are approved here."
LEFT_OPEN = "Nobody answered before the question was withdrawn."


def answer(request: ApprovalRequest, settings: ApprovalSettings) -> ApprovalAnswer:
    """Return the answer to a request."""
    match settings.mode:
        case Mode.ALL:
            return ApprovalAnswer.approve()
        case Mode.NONE:
            return ApprovalAnswer.unanswered(NOBODY)
        case Mode.READ:
            if request.tool.category == "read":
                return ApprovalAnswer.approve()
            return ApprovalAnswer.unanswered(NOT_READING)
        case Mode.ASK | Mode.AUTO:
            return _ask(request, settings)


def _ask(request: ApprovalRequest, settings: ApprovalSettings) -> ApprovalAnswer:
    try:
        with (
            open_terminal(request.withdrawn, anywhere=settings.mode is Mode.ASK) as terminal,
            taking_turns(request.withdrawn),
        ):
            return _ask_at(terminal, request, settings)
    except Unavailable:
        return ApprovalAnswer.unanswered(NO_TERMINAL)
    except Withdrawn:
        return ApprovalAnswer.unanswered(LEFT_OPEN)


def _ask_at(
    terminal: Terminal, request: ApprovalRequest, settings: ApprovalSettings
) -> ApprovalAnswer:
    # Only now, as the person may just have said so, asked for a call beside this one.
    if settings.granted.covers(request):
        return ApprovalAnswer.approve()
    dialogue = Dialogue(terminal, request)
    given = dialogue.run()
    if dialogue.for_good:
        settings.granted.add(request)
    return given
