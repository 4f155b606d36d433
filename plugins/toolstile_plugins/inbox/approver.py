"""The approver `inbox` stores a question; it waits for the answer, or ends the call as pending."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar
from uuid import uuid4

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Cancellation,
    StateError,
)
from toolstile_hookspecs.calls import APPROVAL_TICKET
from toolstile_hookspecs.services.approval_store import ANSWERED, OPEN, Question, QuestionState
from toolstile_plugins.approval.beside import WAYS, Reached
from toolstile_plugins.approval.display import question_of
from toolstile_plugins.approval.grants import Grants, Terms
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import LATE, WITHDRAWN, Ended, Inbox, told_later, too_late
from toolstile_plugins.inbox.seal import SealedCall

log = logging.getLogger("toolstile.inbox")

TO_LEAVE: Final = 1.0
"""Seconds for a way to withdraw its question; an editor may be open on the question."""

Asked = Collection[asyncio.Task[None]]
"""A task per person who is asked; it ends when they answer or leave the question to others."""


def reached_by(
    inbox: Inbox, request: ApprovalRequest, asked: Question, *, can_end: bool
) -> dict[str, Reached]:
    """Return the people to ask beside the inbox, by the way to them.

    A call that cannot end is skipped if the answer needs the call to end.
    """
    found: dict[str, Reached] = {}
    for name in inbox.settings.ask:
        way = request.context.resources.get(WAYS[name], None)
        reached = None if way is None else way.reach()
        if reached is None or (reached.ends_call and not can_end):
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
        now = self.inbox.clock.now()
        question = self.inbox.store.get(self.question.ticket)
        question = question or replace(self.question, state=QuestionState.WITHDRAWN)
        waits = question.state_at(now) is QuestionState.WAITING
        return "" if waits else too_late(question, now)

    def proof(self) -> str:
        return self.inbox.seal.seal_proof(self.question)


async def _ask(kept: _Kept) -> None:
    try:
        await kept.reached.ask(kept)
    except Exception:
        log.exception("No one can be asked about %s (%s).", kept.question.tool, kept.via)


T = TypeVar("T")

ENDED_ELSEWHERE: Final = "Another process continued the call."
_ENDS: Final = {QuestionState.EXPIRED: LATE, QuestionState.WITHDRAWN: WITHDRAWN}
_HOLD: Final = 30.0
"""Seconds until the claim of a waiting call expires if its process dies."""
_APART: Final = 0.04
"""Minimum seconds between two polls of all waiting calls, to leave the processor to others."""
_waiting: Final[set[str]] = set()
"""The tickets for which calls of this process wait."""


@dataclass(eq=False, slots=True)
class Turn:
    """The questions of one card.

    Attributes:
        id: The id that they have in common; "" for a question by itself.
        is_transaction: Whether the calls have ended and wait to be kept together.
        open: The ids of the calls without an answer.
        found: The tickets of the rows, so that two equal calls have a question each.
        looking: Held by the row that looks for its question.
    """

    id: str = ""
    is_transaction: bool = False
    open: set[str] = field(default_factory=set[str])
    found: set[str] = field(default_factory=set[str])
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


async def ask_all(ended: Ended, card: ApprovalCard) -> Mapping[str, ApprovalAnswer]:
    """Return the answers to the rows of a card by the ids of the calls; raises `StateError`."""
    turn = Turn(uuid4().hex[:12], card.diff is not None, {row.call.id for row in card.rows})
    asking: dict[str, Approver] = {}
    for row in card.rows:
        card.withdrawn.on_cancel(row.withdrawn.cancel)
        shown = replace(row, diff=card.diff) if turn.is_transaction else row
        asking[row.call.id] = Approver(ended, shown, turn)
    if all(each.leaves for each in asking.values()):
        return await _left(asking)
    async with asyncio.TaskGroup() as group:
        tasks = {id_: group.create_task(each.ask()) for id_, each in asking.items()}
    return {id_: task.result() for id_, task in tasks.items()}


async def _left(asking: Mapping[str, Approver]) -> Mapping[str, ApprovalAnswer]:
    """Return the answers to all rows of a transaction, or that all of them wait for later ones."""
    found = {id_: await each.find() for id_, each in asking.items()}
    is_answered = all(
        isinstance(found[id_], ApprovalAnswer) or each.is_answered for id_, each in asking.items()
    )
    return {id_: await each.end(found[id_], is_answered) for id_, each in asking.items()}


class Approver:
    """Asks people about one request through an inbox, unless a grant covers the request.

    Attributes:
        leaves: Whether it is a row of a transaction that ends, and is resumed with all answers.
        is_answered: Whether a question was found with its answer.
    """

    def __init__(self, ended: Ended, request: ApprovalRequest, turn: Turn | None = None) -> None:
        self._turn = turn = turn or Turn()
        resources = request.context.resources
        self._inbox = inbox = resources.get(Inbox)
        self._grants: Grants = resources.get(Grants)  # type: ignore[type-abstract]
        self._ended = ended
        self._request = request
        self._clock = request.context.clock
        self._holder = uuid4().hex
        asked = question_of(request, timedelta(seconds=inbox.settings.expiry))
        self._asked = replace(asked, turn=turn.id)
        # A row of a transaction within another has no token, because it is not resumed alone.
        can_end = request.context.parent is None and bool(request.token())
        self._people = reached_by(inbox, request, self._asked, can_end=can_end)
        # Because a nested call cannot be resumed alone, such a call never ends as pending.
        ends = inbox.settings.wait == "pending" or any(
            reached.ends_call for reached in self._people.values()
        )
        self._lets_end = ends and can_end
        self._waits = not self._lets_end or bool(self._people)
        # Because a run stores the id of its call, any process can find the question by that id.
        self._joins = self._lets_end or bool(self._asked.owner)
        self.leaves = turn.is_transaction and self._lets_end and not self._people
        self.is_answered = False
        self._end: QuestionState | None = QuestionState.WITHDRAWN

    async def ask(self) -> ApprovalAnswer:
        """Return a person's answer, or that the call is pending; raises `StateError`."""
        try:
            return await self._ask()
        finally:
            self._turn.open.discard(self._request.call.id)

    async def find(self) -> Question | ApprovalAnswer:
        """Return the question, found or stored, or a grant's answer; raises `StateError`."""
        async with self._turn.looking:
            # No task, because a closing loop cancels all tasks, and a thread cannot be cancelled.
            look = partial(copy_context().run, self._kept_or_new)
            looking = asyncio.get_running_loop().run_in_executor(None, look)
            try:
                found = await asyncio.shield(looking)
            except asyncio.CancelledError:
                while not looking.done():  # because the thread may still store a question
                    with suppress(asyncio.CancelledError):
                        await asyncio.shield(looking)
                found, own, end = looking.result(), self._request.call.id, self._end
                if isinstance(found, Question) and found.call_id == own and end is not None:
                    self._inbox.end(found, end)
                raise
            if isinstance(found, Question):
                self._turn.found.add(found.ticket)
            return found

    async def end(self, found: Question | ApprovalAnswer, is_whole: bool) -> ApprovalAnswer:  # noqa: FBT001 - about the others
        """Return the answer that was found, if all rows have one, else that the call waits."""
        if is_whole:
            return self._take(found) if isinstance(found, Question) else found
        question = found if isinstance(found, Question) else self._keep(self._asked, "")
        if self.is_answered:
            await self._off_loop(partial(self._inbox.store.release, question.ticket, self._holder))
        return self._later(question)

    async def _ask(self) -> ApprovalAnswer:
        found = await self.find()
        if isinstance(found, ApprovalAnswer):
            return found
        if self.is_answered:
            return self._take(found)
        if not self._waits:
            return self._later(found)
        # Meanwhile this process keeps its claim of the call.
        _waiting.add(found.ticket)
        async with asking(self._inbox, self._request, found, self._people) as asked:
            try:
                await asyncio.sleep(0)  # so that ways that end the call have asked
                return await self._look(found, asked)
            finally:
                _waiting.discard(found.ticket)
                if self._end is not None:
                    self._inbox.end(found, self._end)

    def _kept_or_new(self) -> Question | ApprovalAnswer:
        """Return a claimed question with its answer, a grant's answer, or a waiting question."""
        asked, now = self._asked, self._clock.now()
        shown_before: str | None = None
        waiting: Question | None = None
        before = ""
        # Held, because a row is released if other rows of its transaction have no answer yet.
        claim = self._hold if self._turn.is_transaction else self._inbox.claim
        for question in self._inbox.store.questions([*QuestionState], session_id=asked.session_id):
            # In a run, a question is the same only if the question is about the same call.
            is_same = question.call_id == asked.call_id if asked.owner else not question.owner
            if not (is_same and _subject(question) == _subject(asked)):
                # Because ids may repeat, a call that asks again is recognized by all these fields.
                names = ("call_id", "tool", "arguments", "principal")
                is_its_own = all(getattr(question, name) == getattr(asked, name) for name in names)
                if is_its_own and question.state is QuestionState.APPROVED:
                    shown_before = question.diff
            elif (
                question.state not in OPEN
                or now >= question.expires
                or question.ticket in self._turn.found
            ):
                before = question.ticket
            elif self._inbox.lost(question) is not None:
                # Because no answer to the question can count, a new question is asked.
                self._inbox.end(question, QuestionState.WITHDRAWN)
                before = question.ticket
            elif question.state in ANSWERED and claim(question):
                self.is_answered = True
                return question
            elif self._joins and waiting is None:
                waiting = self._joined(question)
        if (granted := self._grants.answer_to(asked)) is not None:
            if waiting is not None:
                self._inbox.end(waiting, QuestionState.WITHDRAWN)
            return granted
        return waiting or self._keep(replace(asked, shown_before=shown_before), before)

    def _joined(self, question: Question) -> Question | None:
        """Return an open question if this call may wait with it, else None."""
        if self._waits:
            if self._hold(question):
                return question
            if not question.owner:
                return None  # because another call waits with it, for the people asked beside
        self._end = None  # because other calls rely on the question
        return question

    def _keep(self, question: Question, before: str) -> Question:
        request = self._request
        if self._joins and (question.owner or not self._waits):
            # Every process computes the same ticket, so that the store has one question.
            about = [*_subject(question), question.owner and question.call_id, before]
            ticket = sha256(json.dumps([question.session_id, *about], default=str).encode())
            question = replace(question, ticket=ticket.hexdigest()[:12])
        changes = request.change_set()
        call = SealedCall(
            request.call.name,
            request.arguments,
            request.call.id,
            # The call can be resumed for as long as its question is stored.
            request.token(seconds=self._inbox.settings.expiry + self._inbox.settings.keep),
            None if changes is None else changes.to_json(),
            request.call.provider_id,
            json.dumps(request.tool.params_codec.schema()),
        )
        kept = self._inbox.seal.seal_call(question, call)
        self._inbox.ask(kept)
        if self._waits:
            self._hold(kept)
        stored = self._inbox.store.get(kept.ticket) or kept
        self._end = self._end if stored.sealed == kept.sealed else None  # another process was first
        return stored

    async def _look(self, question: Question, asked: Asked) -> ApprovalAnswer:
        """Poll for the answer; without one, the call may end as pending."""
        store, renewal = self._inbox.store, self._clock.monotonic() + _HOLD / 2
        while not self._request.withdrawn.aborted:
            now = self._clock.now()
            # Before the poll, because an answer is stored before its task is done.
            lets_end = self._lets_end and all(task.done() for task in asked)
            if self._clock.monotonic() >= renewal:
                await self._off_loop(partial(self._hold, question))
                renewal = self._clock.monotonic() + _HOLD / 2
            found = await self._off_loop(partial(store.get, question.ticket))
            state = QuestionState.WITHDRAWN if found is None else found.state_at(now)
            if found is not None and state in ANSWERED:
                self._turn.open.discard(self._request.call.id)
                # Held, while the person has not answered the other rows.
                is_held = await self._off_loop(partial(self._hold, found))
                if is_held and not self._turn.open:
                    self._end = None
                    return self._take(found)
            elif state is not QuestionState.WAITING:
                self._end = self._end and state
                if question.owner and state is QuestionState.RESUMED:
                    return self._later(question)  # because the run has the other process's result
                return ApprovalAnswer.unanswered(_ENDS.get(state, ENDED_ELSEWHERE))
            elif lets_end:
                self._end = None
                await self._off_loop(partial(store.release, question.ticket, self._holder))
                return self._later(question)
            await pause(asked, max(self._inbox.settings.interval, _APART * len(_waiting)))
        return ApprovalAnswer.unanswered(WITHDRAWN)

    def _hold(self, question: Question) -> bool:
        return self._inbox.claim(question, holder=self._holder, seconds=_HOLD)

    def _take(self, question: Question) -> ApprovalAnswer:
        if self._turn.is_transaction:
            # Because its call has ended already, no end of the call closes the question.
            self._inbox.end(question, QuestionState.RESUMED)
        else:
            self._ended.note(self._inbox, question, self._request)
            self._request.context.set_attribute(APPROVAL_TICKET, question.ticket)
        token = self._inbox.seal.call_of(question).token
        return replace(self._inbox.answer_to(question), token=token or None)

    def _later(self, question: Question) -> ApprovalAnswer:
        token = self._inbox.seal.call_of(question).token
        return replace(ApprovalAnswer.pending(question.ticket, told_later(question)), token=token)

    async def _off_loop(self, ask: Callable[[], T]) -> T:
        return await asyncio.to_thread(ask) if self._inbox.store.waits else ask()


def _subject(question: Question) -> list[Any]:
    return [question.tool, question.digest, question.principal]
