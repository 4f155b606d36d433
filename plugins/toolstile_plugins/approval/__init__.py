"""Approval by the person at the terminal, or by a rule given on the command line.

Settings, `[plugins.approval]`: `mode`, one of `auto`, `ask`, `all`, `none`, `read`; see `Mode`.
Enable the approver with `approver = "approval"`. `toolstile run`, `toolstile call` and
`toolstile replay` use it if no other approver is configured; `--approve` uses it in any case.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Binding,
    Command,
    ResourceResolver,
    effect_free,
    hookimpl,
)
from toolstile_plugins.approval import cli
from toolstile_plugins.approval.beside import AtTerminal
from toolstile_plugins.approval.grants import HeldGrants
from toolstile_plugins.approval.settings import ApprovalSettings, Mode

__all__ = ["ApprovalSettings", "Mode"]


def _dialogue() -> Any:
    # Late: terminals and editors bring much along, and few commands ask.
    from toolstile_plugins.approval import dialogue

    return dialogue


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return ApprovalSettings


@hookimpl
def toolstile_resources(settings: ApprovalSettings) -> list[Binding[Any]]:
    """Offer the terminal as a way to ask beside an inbox."""

    def at_terminal(resources: ResourceResolver) -> AtTerminal:  # noqa: ARG001 - it needs none
        way: AtTerminal = _dialogue().TerminalWay(settings)
        return way

    return [Binding[AtTerminal](AtTerminal, at_terminal)]  # type: ignore[type-abstract]


@hookimpl
@effect_free
def toolstile_lifespan() -> AbstractContextManager[HeldGrants]:
    """Keep the grants of a host without an inbox while the host is open."""
    return nullcontext(HeldGrants())


@hookimpl
def toolstile_approve(
    request: ApprovalRequest, settings: ApprovalSettings, state: HeldGrants
) -> ApprovalAnswer:
    """Answer as the mode says."""
    given: ApprovalAnswer = _dialogue().answer(request, settings.mode, state)
    return given


@hookimpl
def toolstile_approve_turn(
    card: ApprovalCard, settings: ApprovalSettings, state: HeldGrants
) -> dict[str, ApprovalAnswer]:
    """Answer the questions of a turn or of a transaction as the mode says."""
    given: dict[str, ApprovalAnswer] = _dialogue().answer_card(card, settings.mode, state)
    return given


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let the commands that dispatch calls say how they are approved."""
    return cli.commands(Command)
