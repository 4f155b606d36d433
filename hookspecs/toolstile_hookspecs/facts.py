"""The names of the facts that the host notes about calls, for events and observers."""

from __future__ import annotations

from typing import Final

REPLAYED_EFFECT: Final = "toolstile.replayed_effect"
"""The fact that a call was answered with a `Replay`: the id of the effect."""

APPROVAL: Final = "toolstile.approval"
"""The fact that a person was asked: what they answered (`approved`, `denied`, `edited` or
`pending`), that nobody did (`unanswered`), or that a token did not hold (`refused`)."""

APPROVAL_REASON: Final = "toolstile.approval_reason"
"""The fact that whoever answered gave a reason: the reason, without secrets."""

APPROVAL_TOKEN: Final = "toolstile.approval_token"  # noqa: S105 - its name
"""The fact that a call waits for approval: the token with which it can be resumed."""

APPROVAL_TICKET: Final = "toolstile.approval_ticket"
"""The fact that a call waits for approval elsewhere: the ticket that the approver gave."""

DIFF: Final = "toolstile.diff"
"""The fact that the changes of a call were shown, to an approver or in a dry run: the changes,
without secrets, or `NO_CHANGES`."""

NO_CHANGES: Final = "no changes"
"""What is shown of a call that would change nothing."""

DRY_RUN: Final = "toolstile.dry_run"
"""The fact that nothing of the call was to be kept: True."""
