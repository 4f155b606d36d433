"""Calls of agents that wait in the inbox, and are made again when they were answered."""

from __future__ import annotations

import json
from dataclasses import replace

from toolstile_hookspecs import ExecutorHandle, ForeignCall, Outcome, ToolCall
from toolstile_hookspecs.services.approval_store import OPEN, Question, QuestionState
from toolstile_plugins.inbox import Inbox
from toolstile_plugins.inbox.inbox import told_later
from toolstile_plugins.inbox.resumption import Due, claimed


def question_of(tools: ExecutorHandle, call: ToolCall) -> str | Due | None:
    """Return the answer to the question of a call; if it still waits, a text for the model.

    A call that is made again has the same id, or the same tool and arguments in its session.
    """
    inbox = tools.resources.get(Inbox, None)
    if inbox is None:
        return None
    open_ = inbox.store.questions(OPEN, session_id=tools.session.id)
    for question in open_:
        if not question.owner and _is_same(inbox, question, call):
            if question.state_at(inbox.clock.now()) is QuestionState.WAITING:
                return told_later(question)
            return next(claimed(inbox, [question]), None)
    return None


def _is_same(inbox: Inbox, question: Question, call: ToolCall) -> bool:
    if question.call_id == call.id:
        return True
    made = inbox.seal.call_of(question).call
    return made.name == call.name and json.loads(str(made.arguments)) == call.arguments


async def resume(tools: ExecutorHandle, due: Due, call: ToolCall, run: ForeignCall) -> Outcome:
    """Dispatch a call with the answer to its question, and close the question."""
    inbox = tools.resources.get(Inbox)
    call = replace(call, id=due.sealed.id)
    try:
        return await tools.aresume(call, due.sealed.token, due.answer, using=run)
    finally:
        inbox.store.end(due.question.ticket, due.end)
