"""An answer that came later: whether its token holds, and what it answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolstile.pipeline.masking import log_failure
from toolstile.pipeline.refusals import Refusal
from toolstile.policies.approval import read_answer
from toolstile.policies.sealing import Approvable, Bearer, TokenRefused
from toolstile_hookspecs import Answer, ApprovalAnswer, Stage, Status
from toolstile_hookspecs.calls import APPROVAL

if TYPE_CHECKING:
    from toolstile.pipeline.call_run import CallRun

log = logging.getLogger("toolstile.policies")

REFUSED = "refused"
ASKED_BEFORE = "A person was asked about it before."


class Resumption:
    """What a call is resumed with.

    Args:
        token: The token that the pending call came with.
        answer: What a person says to it by now.
    """

    __slots__ = ("_answer", "_approvable", "_token")

    def __init__(self, token: object, answer: ApprovalAnswer | bool) -> None:  # noqa: FBT001 - see `read_answer`
        self._token = token
        self._answer: ApprovalAnswer | None = read_answer(answer)
        self._approvable: Approvable | None = None

    @property
    def waits(self) -> bool:
        """Whether something other than a plain approval has still to be said."""
        return self._answer is not None and self._answer.answer is not Answer.APPROVED

    def redeem(self, run: CallRun) -> None:
        """Use the token up; a call that starts over has done so.

        Raises:
            Refusal: When it does not hold; the call does not go on.
        """
        if self._approvable is not None:
            return
        run.stage = Stage.APPROVE
        try:
            self._approvable = run.executor.seal.redeem(self._token, bearer_of(run))
        except TokenRefused as refused:
            run.note(APPROVAL, REFUSED)
            msg = f"{refused} Nothing has run. Call {run.name} without it, to have it asked again."
            raise Refusal(Status.DENIED, msg) from None
        except OSError as error:
            log_failure(run, log, "A used approval could not be noted; %s is denied.", run)
            msg = (
                f"The approval of {run.name} cannot be used now: that it was could not be noted. "
                "This requires human intervention."
            )
            raise Refusal(Status.DENIED, msg) from error

    def answer_to(self, digest: str) -> ApprovalAnswer | None:
        """Return the answer if it was given to a request with this digest; it is, once."""
        if self._approvable is None or not self._approvable.covers(digest):
            return None
        answer, self._answer = self._answer, None
        return answer

    def has_place(self, digest: str) -> bool:
        """Tell whether the call took its place, with these params, before it was pending."""
        return self._approvable is not None and self._approvable.has_place(digest)


def token_for(run: CallRun, digest: str, params: str) -> str:
    """Return the token with which a pending call can be resumed.

    Args:
        run: The call.
        digest: That of the request which shows it.
        params: That of its tool and params alone.
    """
    place = params if run.admitted else None
    return run.executor.seal.seal(bearer_of(run), digest, place=place)


def bearer_of(run: CallRun) -> Bearer:
    """Return who may come back with a token for this call."""
    executor = run.executor
    return Bearer(run.name, executor.session_id, executor.user_id, executor.dry_run)
