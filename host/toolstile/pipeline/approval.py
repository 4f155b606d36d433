"""Asking for approval: the request that an approver sees, the wait, the answers that count."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args

from toolstile.drivers.job import Run, Staged
from toolstile.drivers.limit import Limit, Stopped, TimedOut
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.environment import Resumption
from toolstile.pipeline.failures import CallRejected, unreadable
from toolstile.pipeline.hook_calls import off_loop, settle
from toolstile.pipeline.masking import log_failure, mask
from toolstile.plugins.offered_tools import names_of_dependencies
from toolstile.policies.approval_tokens import RedeemedToken, TokenRefused, TokenSubject
from toolstile_hookspecs import (
    NOTICE,
    Answer,
    ApprovalAnswer,
    ApprovalRequest,
    Stage,
    Status,
    ToolValidationError,
)
from toolstile_hookspecs.approval import PERSON_ONLY
from toolstile_hookspecs.calls import APPROVAL, APPROVAL_REASON, APPROVAL_TICKET, APPROVAL_TOKEN
from toolstile_hookspecs.codecs import as_json, as_sentence
from toolstile_hookspecs.execution.approval_card import ApprovalCard
from toolstile_hookspecs.execution.approvals import APPROVAL_BY
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_hookspecs.tools import Consequence

# --- Requests and answers


def canonical(call: ActiveCall) -> bytes:
    """Return the params as an approval binds them."""
    arguments: bytes = call.tool.params_codec.encode(call.params)
    return arguments


def digest_of(call: ActiveCall, diff: str | None = None, arguments: bytes | None = None) -> str:
    """Return the SHA-256 of tool, canonical params and diff, which an approval is bound to."""
    shown = call.tool.name.encode() + b"\0" + (canonical(call) if arguments is None else arguments)
    if diff is not None:
        shown += b"\0" + diff.encode(errors="surrogatepass")
    return hashlib.sha256(shown).hexdigest()


def read_answer(answer: object) -> ApprovalAnswer:
    """Return an approver's answer in one form.

    Raises:
        TypeError: When it is no answer, so that no person was asked properly.
    """
    if isinstance(answer, ApprovalAnswer):
        return answer
    if answer is True:
        return ApprovalAnswer.approve()
    if answer is None or answer is False:
        return ApprovalAnswer.deny()
    kind = type(answer).__qualname__
    raise TypeError(f"The approver answered {kind}. Answer True, False or an ApprovalAnswer.")


# --- Resumed approvals


log = logging.getLogger("toolstile.policies")

REFUSED: Final = "refused"
NOT_KEPT: Final = " Nothing of it is kept."
LATER: Final = "Retry it later."
_NOTHING_RAN: Final = " Nothing has run."
_INSTEAD: Final = "It cannot run here. Tell the user, or continue without it."
ASKED_BEFORE: Final = "A person was asked about it before."


def redeem(call: ActiveCall, resumption: Resumption) -> Staged:
    """Take the token of a resumed call back; a call that starts over has done so.

    It is used up at once, or in a stored session by the decision that keeps the call.

    Raises:
        CallRejected: When it does not hold; the call ends.
    """
    if resumption.redeemed is not None:
        return
    call.stage = Stage.APPROVE
    with _refusing(call, _NOTHING_RAN):
        yield from off_loop(call, partial(_take_back, call, resumption))


def _take_back(call: ActiveCall, resumption: Resumption) -> None:
    call.resumption = resumption
    token = resumption.redeemed = call.executor.seal.redeem(resumption.token, bearer_of(call))
    if ticket_of(call) is None or call.parent is not None:  # a nested call is decided with others
        token.spend()
    else:
        token.hold()


def bind(call: ActiveCall, answer: ApprovalAnswer, *, has_run: bool) -> Staged:
    """Have the token that an answer came with used up with the call, as that of a resumed one.

    Raises:
        CallRejected: When it does not hold; another process may have resumed the call.
    """
    if answer.token is not None:
        resumption = Resumption(answer.token, answer)
        yield from use_up_now(call)
        with _refusing(call, NOT_KEPT if has_run else _NOTHING_RAN):
            yield from off_loop(call, partial(_take_back, call, resumption))


def use_up_now(call: ActiveCall) -> Staged:
    """Use the token up that a call of a stored session came with, before the call is decided."""
    if ticket_of(call) is not None:
        yield from off_loop(call, partial(use_up, call))


def use_up(call: ActiveCall, connection: Any = None) -> None:
    """Use the token up that a call of a stored session came with, in a decision or at once.

    Raises:
        CallRejected: When another call did so.
    """
    if (token := ticket_of(call)) is not None:
        with _refusing(call, NOT_KEPT):
            token.spend(connection)


def ticket_of(call: ActiveCall) -> RedeemedToken | None:
    """Return the token that is used up with the call: in a stored session, if it ends alone."""
    executor = call.executor
    if call.resumption is None or executor.journal is None or executor.within or executor.dry_run:
        return None
    return call.resumption.redeemed


@contextmanager
def _refusing(call: ActiveCall, what_is_left: str) -> Generator[None]:
    try:
        yield
    except TokenRefused as refused:
        call.set_attribute(APPROVAL, REFUSED)
        msg = f"{refused}{what_is_left} Call {call.name} without it to ask for a new approval."
        raise CallRejected(Status.DENIED, msg) from refused
    except OSError as error:
        log_failure(call, log, "A used approval could not be noted; %s is denied.", call)
        raise CallRejected(
            Status.DENIED,
            f"The approval of {call.name} cannot be used now: that it was could not be noted. "
            "This requires human intervention.",
        ) from error


def bearer_of(call: ActiveCall) -> TokenSubject:
    """Return who may come back with a token for this call."""
    its = call.executor
    return TokenSubject(call.tool.name, its.session_id, its.principal, its.dry_run, its.agent)


# --- Questions to a person


UNANSWERED: Final = "unanswered"
BY_PERSON: Final = "It changes files that only a person may allow to be changed."
_WEIGHTS: Final = get_args(Consequence)
_counting = renewed_in_forks(__name__, "_counting", threading.Lock)


def approve(
    call: ActiveCall,
    reasons: Iterable[str],
    diff: str | None = None,
    change_set: Callable[[], ChangeSet | None] = lambda: None,
) -> Staged:
    """Return the approver's answer, which approves or edits; a diff is that of a call that has run.

    Raises:
        CallRejected: When it is denied or pending, or when no answer comes.
    """
    call.stage = Stage.APPROVE
    request = request_of(call, reasons, diff)
    token = partial(token_of, call, request.digest)
    request = replace(request, change_set=change_set, token=token)
    answer = None if call.resumption is None else call.resumption.answer_to(request.digest)
    if answer is None:
        answer = yield from _wait_for_answer(call, request)
    call.set_attribute(APPROVAL, answer.answer.value if answer.answered else UNANSWERED)
    if answer.reason:
        call.set_attribute(APPROVAL_REASON, mask(call, answer.reason))
    if answer.by:
        call.set_attribute(APPROVAL_BY, answer.by)
    if not answer.answered:
        _log_unanswered(call, reasons)
        kept = "" if diff is None else NOT_KEPT
        raise CallRejected(Status.DENIED, refusal_of(_needs(call, reasons), answer, kept))
    if answer.answer in {Answer.DENIED, Answer.PENDING}:
        yield from use_up_now(call)
        _refuse_denied(call, answer, request)
    yield from bind(call, answer, has_run=diff is not None)
    return answer


def _count_question(call: ActiveCall, more: int) -> None:
    """Let the calls around this one know that a person is being asked within them."""
    each = call.parent
    with _counting:
        while each is not None:
            each.questions += more
            each = each.parent


def refuse_unaskable(call: ActiveCall, reasons: Iterable[str], *, has_run: bool = False) -> None:
    """Deny if no person can be asked: there is no approver, or a resource would be held up.

    Raises:
        CallRejected: Saying why.
    """
    if call.executor.approver is None:
        call.set_attribute(APPROVAL, UNANSWERED)
        _log_unanswered(call, reasons)
        raise CallRejected(
            Status.DENIED,
            f"{_needs(call, reasons)}, and no one is available to approve it. {_INSTEAD}",
        )
    holder = call if has_run else call.parent
    while holder is not None:
        place = "the one place in which it runs" if holder.serial_claim is not None else None
        held = place or next(holder.scope.held_alone(), None)
        if held is not None:
            raise CallRejected(
                Status.DENIED,
                f"{_needs(call, reasons)}, but a person cannot be asked while {holder.name} holds "
                f"{held}. It cannot run within {holder.name}. Call it separately.",
            )
        holder = holder.parent


def _wait_for_answer(call: ActiveCall, request: ApprovalRequest) -> Staged:
    refuse_unaskable(call, request.reasons, has_run=request.diff is not None)
    # Waiting for a person counts against the deadline, not against any tool's timeout.
    with call.control.paused():
        _count_question(call, 1)
        try:
            needs = _needs(call, request.reasons)
            card: Any = None if call.batch is None or request.diff is not None else call.batch.card
            if card is not None and not card.answered.granted:
                asking: Staged = card.ask(call, request, needs)
                return (yield from asking)
            approver = call.executor.approver
            return (yield from ask_within(call, approver, request, needs, read_answer))
        finally:
            _count_question(call, -1)


def request_of(call: ActiveCall, reasons: Iterable[str], diff: str | None) -> ApprovalRequest:
    """Return the question about a call; a diff is that of a call that has run."""
    tool = call.tool
    arguments = canonical(call)
    try:
        params = tool.params_codec.decode(arguments)
    except ToolValidationError as error:
        raise unreadable(call.name, "params", error) from error
    diff = None if diff is None else mask(call, diff)
    reasons = (*reasons, *_dependencies(call))
    return ApprovalRequest(
        call=call.call_made,
        tool=tool,
        params=params,
        arguments=arguments.decode(),
        reasons=(*reasons, "Its effect can be taken back.") if tool.undo else reasons,
        digest=digest_of(call, diff, arguments),
        context=call.context,
        diff=diff,
        asked_by=_asked_by(call, reasons),
    )


def _asked_by(call: ActiveCall, reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the policies whose reasons are shown, and the reasons of none.

    A name that is only a position may be another policy's later, so it stands with its reason.
    """
    asks = [(each.policy or "", each.reason) for each in call.decisions if each.asks]
    told = [(name, reason or f"Policy {name} asks.") for name, reason in asks]
    shown = {mask(call, reason) for reason in reasons}
    named = [(name, reason) for name, reason in told if reason in shown]
    names = [f"{name}: {reason}" if "#" in name else name for name, reason in named]
    mark = (PERSON_ONLY,) if shown & _private(call) else ()
    return (*dict.fromkeys(names), *mark, *sorted(shown - {reason for _, reason in named}))


def token_of(call: ActiveCall, digest: str, *, seconds: float | None = None) -> str:
    """Return the token that resumes a call with the answer to the question of a digest."""
    place = digest_of(call) if call.admitted else None
    return call.executor.seal.seal(bearer_of(call), digest, seconds=seconds, place=place)


def _dependencies(call: ActiveCall) -> Iterator[str]:
    """Yield the tools that the call may make in its turn, where they weigh more than itself."""
    plans = call.executor.table().plans
    waiting, seen = [call.tool], {call.tool.name}
    while waiting:
        for name in names_of_dependencies(waiting.pop()):
            if name in seen or (plan := plans.get(name)) is None:
                continue
            seen.add(name)
            tool = plan.tool
            waiting.append(tool)
            weighs = _WEIGHTS.index(tool.consequence) > _WEIGHTS.index(call.tool.consequence)
            if weighs or tool.requires_confirmation:
                yield f"It calls {tool.label} ({tool.consequence})."


def ask_within(
    call: ActiveCall,
    approver: Any,
    request: ApprovalRequest | ApprovalCard,
    needs: str,
    read: Callable[[Any], Any],
) -> Staged:
    """Return the answer of an approver to a request or a card, as `read` reads it.

    Raises:
        CallRejected: The approver failed, or took too long.
    """
    limit = Limit(call.executor.approval_timeout, call.deadline, call.left())
    asked = _Asked(call, request)
    kept = "" if request.diff is None else NOT_KEPT
    try:
        given = yield Run(
            lambda: approver(request), is_async_callable(approver), limit, asked, limit.endless
        )
        return read((yield from settle(asked, given, limit)))
    except TimedOut:
        call.set_attribute(APPROVAL, UNANSWERED)
        msg = f"{needs}, but the approval timed out.{kept} Tell the user, or retry later."
        raise CallRejected(Status.DENIED, msg) from None
    except Stopped:
        raise
    except Exception as error:
        call.check_limits()
        log_failure(call, log, "The approver failed; the call is denied.")
        msg = f"{needs}, but asking for approval failed.{kept} Tell the user, or retry later."
        raise CallRejected(Status.DENIED, msg) from error
    except BaseException:
        # An awaited approver is interrupted with its caller; no limit abandons it.
        request.withdrawn.cancel()
        raise


def _refuse_denied(call: ActiveCall, answer: ApprovalAnswer, request: ApprovalRequest) -> None:
    kept = "" if request.diff is None else NOT_KEPT
    if answer.answer is Answer.PENDING:
        if call.parent is not None:
            raise CallRejected(
                Status.DENIED,
                f"{call.name} is not approved yet, and a call within another cannot wait for it."
                f"{kept} Call {call.name} by itself.",
            )
        call.set_attribute(APPROVAL_TOKEN, answer.token or request.token())
        if call.executor.journal is not None and not call.executor.seal.lasts:
            log.warning("%s: a restart loses the approval; give approval_key.", call)
        _settle_call(call)
        if answer.ticket is not None:
            call.set_attribute(APPROVAL_TICKET, answer.ticket)
        later = answer.reason or LATER
        msg = f"{call.name} waits for a person's approval.{kept or _NOTHING_RAN} {later}"
        raise CallRejected(Status.PENDING, msg)
    if answer.answer is Answer.DENIED:
        raise CallRejected(Status.DENIED, refusal_of(call.name, answer, kept))


def refusal_of(name: str, answer: ApprovalAnswer, kept: str = NOT_KEPT) -> str:
    """Return the model's text about a call that a person, or no person, has refused."""
    reason = as_sentence(answer.reason.strip()) if answer.reason else ""
    if not answer.answered:
        why = f" {reason}" if reason else ""
        return f"{name}.{why}{kept} {_INSTEAD}"
    why = f": {reason}" if reason else "."
    return f"A person did not approve {name}{why}{kept} Do not retry it unchanged."


def _settle_call(call: ActiveCall) -> None:
    """Replace the call's arguments by those shown, if reading them again gives other params."""
    codec, shown = call.tool.params_codec, canonical(call)
    try:
        again = codec.encode(codec.decode(as_json(call.call_made.arguments)))
    except ToolValidationError:
        # A plugin parsed them in a way that the codec does not.
        return
    if again != shown:
        call.call_made = replace(call.call_made, arguments=shown.decode())


def _needs(call: ActiveCall, reasons: Iterable[str]) -> str:
    told = " ".join(for_model(call, reasons)).removesuffix(".")
    return f"{call.name} needs a person's approval ({told})"


def for_model(call: ActiveCall, reasons: Iterable[str]) -> list[str]:
    """Return the reasons as the model reads them, without the reasons for a person only."""
    private = _private(call)
    told = [BY_PERSON if mask(call, each) in private else each for each in reasons]
    return list(dict.fromkeys(told))


def _private(call: ActiveCall) -> set[str | None]:
    return {each.reason for each in call.decisions if each.by_person}


def _log_unanswered(call: ActiveCall, reasons: Iterable[str]) -> None:
    """Tell the person who reads the log the reasons that the model does not read."""
    private = _private(call)
    for reason in reasons:
        if (told := mask(call, reason)) in private:
            log.warning("%s was refused. %s", call, told, extra=NOTICE)


class _Asked:
    """An approver at work; giving it up abandons nothing of the call."""

    def __init__(self, call: ActiveCall, request: ApprovalRequest | ApprovalCard) -> None:
        self.on_loop = call.on_loop
        self._request = request
        self._run = call

    def limit_without_timeout(self) -> Limit:
        return self._run.limit_without_timeout()

    def abandon(self, reason: str) -> None:
        self._request.withdrawn.cancel()
        log.info("The approval of %s was given up: %s.", self._run, reason)

    def callable_ended(self) -> None:
        return None

    def ended_late(self) -> None:
        log.info("An approver answered for %s after it was given up.", self._run)
