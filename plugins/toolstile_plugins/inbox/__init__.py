"""The approver `inbox`: questions are stored, and people answer them from any process.

Settings, `[plugins.inbox]`: see `InboxSettings`. Enable the approver with `approver = "inbox"`.
`toolstile approvals` lists questions and answers them. `resume_pending` resumes calls that ended
as pending.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import (
    NOTICE,
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Binding,
    Command,
    Diagnostic,
    HostHandle,
    StatusPart,
    effect_free,
    hookimpl,
)
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.inbox import cli
from toolstile_plugins.inbox.settings import Answerers, InboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.inbox.inbox import ApprovalEvent, Inbox, OpenInbox
    from toolstile_plugins.inbox.resumption import (
        answers_to,
        aresume_pending,
        resume_pending,
        waiting_run,
    )

__all__ = [
    "Answerers",
    "ApprovalEvent",
    "Inbox",
    "InboxSettings",
    "answers_to",
    "aresume_pending",
    "resume_pending",
    "waiting_run",
]

ENDED: Final = "inbox_ended"
log = logging.getLogger("toolstile.inbox")
NO_INBOX: Final = "No inbox is configured. This requires human intervention."
_MISSING: Final = "The table [plugins.inbox] has no path, or beside a database no key."

# Late: few hosts have an inbox.
__getattr__ = late_names(
    __name__,
    {
        "inbox": "ApprovalEvent Inbox",
        "resumption": "answers_to aresume_pending resume_pending waiting_run",
    },
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return InboxSettings


@hookimpl
def toolstile_diagnose(host: HostHandle, settings: InboxSettings) -> Iterator[Diagnostic]:
    """Check whether questions can be stored, and who can answer them."""
    from toolstile_plugins.inbox.doctor import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings, host)


@hookimpl
def toolstile_status(host: HostHandle) -> Iterator[StatusPart]:
    """Report the questions that wait for an answer."""
    if (is_own := host.state("inbox") is not None) or cli.wrapped().exists():
        from toolstile_plugins.inbox.commands import waiting_in  # late: few hosts have an inbox

        yield waiting_in(host, is_own=is_own)


@hookimpl
def toolstile_resources(settings: InboxSettings) -> list[Binding[Any]]:
    """Offer the store and the inbox if a key file is configured."""
    if settings.key_file is None:
        return []
    from toolstile_plugins.inbox.grants import bindings  # late: few hosts have an inbox

    return bindings(settings)


@hookimpl
def toolstile_approve(request: ApprovalRequest, state: OpenInbox | None) -> Any:
    """Store the question; wait for its answer, or end the call as pending."""
    return _asked(state, request)


@hookimpl
def toolstile_approve_turn(card: ApprovalCard, state: OpenInbox | None) -> Any:
    """Store a question for each row; wait for all answers, or end the calls as pending."""
    return _asked(state, card)


def _asked(state: OpenInbox | None, asked: ApprovalRequest | ApprovalCard) -> Any:
    if state is None:
        log.warning("%s", _MISSING, extra=NOTICE)
        return ApprovalAnswer.unanswered(NO_INBOX)
    from toolstile_plugins.inbox.approver import Approver, ask_all  # late: few hosts have an inbox

    if isinstance(asked, ApprovalCard):
        return ask_all(state.ended, asked)
    return Approver(state.ended, asked).ask()


@hookimpl
@effect_free
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: InboxSettings) -> Generator[OpenInbox | None]:
    """Listen for the end of calls if a key file is configured; close the store with the host."""
    if settings.key_file is None:
        yield None
        return
    from toolstile_plugins.inbox.inbox import OpenInbox  # late: few hosts have an inbox

    opened = OpenInbox(settings, host)
    host.register(opened.ended, ENDED)
    try:
        yield opened
    finally:
        host.unregister(ENDED)
        opened.close()


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)
