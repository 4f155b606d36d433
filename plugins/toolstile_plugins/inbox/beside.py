"""Asking people directly while a call waits; the inbox stores their answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest, Cancellation, StateError
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_plugins.approval.beside import WAYS, Reached
from toolstile_plugins.approval.grants import Terms
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import Inbox, too_late

log = logging.getLogger("toolstile.inbox")

TO_LEAVE: Final = 1.0
"""Seconds for a way to withdraw its question; an editor may be open on the question."""

Asked = Collection[asyncio.Task[None]]
"""A task per person who is asked; it ends when they answer or leave the question to others."""


def reached_by(inbox: Inbox, request: ApprovalRequest, asked: Question) -> dict[str, Reached]:
    """Return the people to ask beside the inbox, by the way to them.

    A nested call is skipped if the answer needs the call to end.
    """
    found: dict[str, Reached] = {}
    for name in inbox.settings.ask:
        way = request.context.resources.get(WAYS[name], None)
        reached = None if way is None else way.reach()
        if reached is None or (reached.ends_call and request.context.parent is not None):
            continue
        if (fault := inbox.settings.fault_of(reached.by, asked)) is None:
            found[name] = reached
        else:
            log.info("No one is asked about %s (%s): %s", asked.tool, name, fault)
    return found


@asynccontextmanager
async def asking(
    inbox: Inbox, request: ApprovalRequest, question: Question, people: Mapping[str, Reached]
) -> AsyncGenerator[Asked]:
    """Ask people during the block; at its end, unanswered questions are withdrawn from them."""
    request = replace(request, withdrawn=Cancellation())
    tasks = [
        asyncio.ensure_future(_ask(_Kept(inbox, request, question, via, reached)))
        for via, reached in people.items()
    ]
    try:
        yield tasks
    finally:
        request.withdrawn.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=TO_LEAVE)


async def pause(asked: Asked, seconds: float) -> None:
    """Wait for some seconds, or until a person has answered or left."""
    if waiting := [task for task in asked if not task.done()]:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A question, and one person who is asked beside the inbox; a `KeptQuestion`."""

    inbox: Inbox
    request: ApprovalRequest
    question: Question
    via: str
    reached: Reached

    def answer(self, given: ApprovalAnswer, terms: Terms | None = None) -> str:
        """Store the answer, or add a grant by terms; return why it does not count."""
        ticket, digest = self.question.ticket, self.request.digest
        by, via, arguments = self.reached.by, self.via, given.arguments
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        try:
            if terms is None:
                self.inbox.answer(
                    ticket,
                    given.answer,
                    by,
                    via=via,
                    digest=digest,
                    reason=given.reason,
                    arguments=arguments,
                    tool=self.request.tool,
                )
            else:
                grants: InboxGrants = self.request.context.resources.get(InboxGrants)
                grants.approve(ticket, by, terms, via=via, digest=digest)
        except StateError as error:
            return str(error)
        return ""

    def end(self) -> str:
        """Return who answered first, or why the question is closed; "" while it waits."""
        now = self.inbox.clock.now()
        question = self.inbox.store.get(self.question.ticket)
        question = question or replace(self.question, state=QuestionState.WITHDRAWN)
        waits = question.state_at(now) is QuestionState.WAITING
        return "" if waits else too_late(question, now)

    def proof(self) -> str:
        """Return the proof that this question was asked."""
        return self.inbox.seal.seal_proof(self.question)


async def _ask(kept: _Kept) -> None:
    try:
        await kept.reached.ask(kept)
    except Exception:
        log.exception("No one can be asked about %s (%s).", kept.question.tool, kept.via)
