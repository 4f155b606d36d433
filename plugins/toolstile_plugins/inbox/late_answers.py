"""Answers that a client sends with a repeated request, after the call has ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from toolstile_hookspecs import (
    ApprovalAnswer,
    ExecutorHandle,
    Outcome,
    Principal,
    StateError,
    ToolCall,
)
from toolstile_plugins.inbox.approver import told_later
from toolstile_plugins.inbox.inbox import Inbox
from toolstile_plugins.inbox.resumption import Due, claimed


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """An answer to a question about a call that has ended.

    Args:
        proof: The proof that the question was asked; see `Seal.seal_proof`.
        given: The answer.
        via: The way of the answer, such as `command line`.
        principal: The principal of the call.
        by: The person.
    """

    proof: str = field(repr=False)
    given: ApprovalAnswer
    via: str
    principal: Principal | None
    by: Principal

    async def settle(self, tools: ExecutorHandle, call: ToolCall) -> Outcome | str | None:
        """Store the answer, and resume the call with the first answer and the arguments shown.

        Args:
            tools: The executor of the session.
            call: The repeated call.

        Returns:
            The outcome; the reason why the call is not resumed; or None if the proof is invalid.
        """
        inbox: Inbox | None = tools.resources.get(Inbox, None)
        if inbox is None:
            return None
        due = await asyncio.to_thread(partial(self._keep, inbox, tools.session.id))
        if not isinstance(due, Due):
            return due
        call = replace(call, name=due.sealed.name, arguments=due.sealed.arguments)
        return await due.aresumed(inbox, tools, call)

    def _keep(self, inbox: Inbox, session_id: str) -> Due | str | None:
        try:
            ticket, digest = inbox.seal.proven(self.proof)
        except StateError:
            return None
        question = inbox.store.get(ticket)
        whose = (session_id, self.principal)
        if question is None or (question.session_id, question.principal) != whose:
            return None
        told = f"{question.tool} waits for a person's approval. {told_later(question)}"
        if self.given.answered:
            answer, reason = self.given.answer, self.given.reason
            try:
                question = inbox.answer(
                    ticket, answer, self.by, via=self.via, digest=digest, reason=reason
                )
            except StateError as error:
                told = str(error)
                question = inbox.store.get(ticket)
        return next(claimed(inbox, [question] if question else []), told)
