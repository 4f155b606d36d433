"""The commands of `toolstile approvals`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from toolstile_hookspecs import Answer, HostHandle, Outcome, StateError, StatusPart
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import OPEN, ApprovalStore, Question, QuestionState
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import printable, suggest, wire_time
from toolstile_plugins.approval.beside import person
from toolstile_plugins.approval.display import Line, changed_lines
from toolstile_plugins.approval.grants import HOURS, Terms
from toolstile_plugins.approval.pager import show_lines
from toolstile_plugins.inbox.cli import wrapped
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import (
    ARGUMENTS,
    Inbox,
    by_turn,
    described_answer,
    parts_of,
    read_arguments,
    wire_of,
)
from toolstile_plugins.inbox.resumption import resume_pending
from toolstile_plugins.inbox.sql import SqliteApprovals
from toolstile_plugins.screen import Screen, console, printable_lines, show_line, tell

VIA: Final = "command line"
_NO_INBOX: Final = (
    "No inbox is configured. Name a file outside of every workspace in the configuration, as path "
    "in [plugins.inbox], or as key where a database is in [plugins.database], and write "
    'approver = "inbox"; then retry.'
)
_NOT_STORED: Final = (
    "No sessions are stored here, so their calls can only be resumed by the process that made "
    "them. Name a file as path in [plugins.sessions], or a database as url in [plugins.database], "
    "to have them resumed anywhere."
)
_ANSWERS: Final = {"approve": Answer.APPROVED, "deny": Answer.DENIED, "edit": Answer.EDITED}


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out a command, and return the exit status.

    Raises:
        StateError: The inbox or the question is missing, the question cannot be answered, or the
            store cannot be used.
    """
    with host.executor() as tools:
        inbox = tools.resources.get(Inbox, None)
        grants = tools.resources.get(InboxGrants, None)
        sessions = tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]
    if inbox is None or grants is None:
        raise StateError(_NO_INBOX)
    match args.what:
        case "list":
            _list(inbox, args)
        case "show":
            _show(inbox, args)
        case "withdraw":
            ticket = _named(inbox, args.ticket).ticket
            _tell(inbox.withdraw(ticket, person(), via=VIA), args)
        case "resume":
            return _resume(host, inbox, sessions, args)
        case "grants":
            _list_grants(grants, args)
        case "revoke":
            grant = grants.revoke(args.grant, person(), via=VIA)
            told = printable(f"{grant.tool} {grant.id} is revoked.")
            tell(args, told, grants.wire_of(grant))
        case _:
            _answer(host, inbox, grants, args)
    return 0


# --- list, show


def waiting_in(host: HostHandle, *, is_own: bool) -> StatusPart:
    """Return the questions that wait for an answer, in the host's own inbox and about servers."""
    found: list[tuple[str, Question]] = []
    if is_own:
        with host.executor() as tools:
            found = [("", question) for question in _by_turn(tools.resources.get(Inbox))]
    if (file := wrapped()).exists():
        with closing(SqliteApprovals(file)) as store:
            waiting, now = store.questions({QuestionState.WAITING}), host.clock.now()
            found += [(" --wrapped", each) for each in waiting if each.expires > now]
    items = [
        {
            "ticket": each.ticket,
            "tool": each.tool,
            "reasons": [*each.reasons],
            "expires": wire_time(each.expires),
            "wrapped": bool(option),
        }
        for option, each in found
    ]
    lines = [
        f"Waiting: {each.tool}: {' '.join(each.reasons)} "
        f"`toolstile approvals{option} approve {each.ticket}`, or `deny`."
        for option, each in found
    ]
    return StatusPart("waiting", items, lines)


def _list(inbox: Inbox, args: argparse.Namespace) -> None:
    waiting, seen = _by_turn(inbox), set[str]()
    while args.out is not None or args.watch:
        for question in waiting:
            if question.ticket not in seen:
                wire = wire_of(question, inbox.lost(question))
                tell(args, "  ".join(_row(inbox, question)), wire)
        if not args.watch:
            return
        sys.stdout.flush()
        seen = {question.ticket for question in waiting}
        time.sleep(inbox.settings.interval)  # until Ctrl-C
        waiting = _by_turn(inbox)
    if not waiting:
        show_line("No question waits for an answer.")
        return
    rows = [list(map(printable, _row(inbox, question))) for question in waiting]
    Screen("").table(("ticket", "tool", "left", "session", "turn", "reasons"), rows)


def _by_turn(inbox: Inbox) -> list[Question]:
    return [each for rows in by_turn(inbox.waiting()).values() for each in rows]


def _row(inbox: Inbox, question: Question) -> tuple[str, ...]:
    seconds = round((question.expires - inbox.clock.now()).total_seconds())
    left = f"{seconds} s" if inbox.lost(question) is None else "key is gone"
    has_run = " (has run)" if question.diff is not None else ""
    reasons = " ".join(question.reasons)
    name, session = question.tool + has_run, question.session_id
    return question.ticket, name, left, session, question.turn or "-", reasons


def _show(inbox: Inbox, args: argparse.Namespace) -> None:
    lines: list[Line] = []
    for question in _chosen(inbox, args):
        if args.out is not None:
            args.out.write(wire_of(question, inbox.lost(question)))
            continue
        lines += (("", printable(line).rstrip()) for line in lines_of(inbox, question))
        for title, text in parts_of(question).items():
            lines.append(("bold", f"{title}:"))
            plain = (("", f"  {line}") for line in printable_lines(text))
            shown = plain if title == ARGUMENTS else changed_lines(text)
            lines += ((style, line.rstrip()) for style, line in shown)
    show_lines(console(), lines)


def lines_of(inbox: Inbox, question: Question) -> Iterator[str]:
    """Yield the lines about a question, without its arguments and changes."""
    effect = f"{question.category}, {question.consequence} consequence"
    yield f"{question.tool} ({effect})"
    state = question.state_at(inbox.clock.now())
    yield f"  state      {state}, until {wire_time(question.expires)}"
    if (lost := inbox.lost(question)) is not None:
        yield f"  lost       {lost}"
    if question.answer is not None:
        yield f"  answer     {described_answer(question.answer)}"
    if question.principal is not None:
        yield f"  for        {question.principal.id} ({question.principal.source})"
    yield f"  session    {question.session_id}"
    if question.agent != MAIN_AGENT:
        yield f"  agent      {question.agent}"
    if question.turn:
        yield f"  turn       {question.turn}"
    yield f"  digest     {question.digest}"
    for reason in question.reasons:
        yield f"  reason     {reason}"


# --- approve, deny, edit


def _answer(host: HostHandle, inbox: Inbox, grants: InboxGrants, args: argparse.Namespace) -> None:
    is_grant = getattr(args, "always", None) is not None
    more = any(getattr(args, name, None) is not None for name in ("scope", "hours", "times"))
    if more and not is_grant:
        raise StateError("--for, --hours and --times say more of --always. Write it, then retry.")
    for question in _chosen(inbox, args):
        if is_grant:
            _grant(grants, question, args)
            continue
        answered = inbox.answer(
            question.ticket,
            _ANSWERS[args.what],
            person(),
            via=VIA,
            digest=args.digest or question.digest,
            reason=getattr(args, "reason", None),
            arguments=read_arguments(args.arguments) if args.what == "edit" else None,
            tool=host.catalog.get(question.tool),
        )
        _tell(answered, args)


def _tell(answered: Question, args: argparse.Namespace) -> None:
    given = answered.answer
    how = answered.state if given is None else described_answer(given)
    tell(args, printable(f"{answered.tool} {answered.ticket} is {how}."), wire_of(answered))


def _chosen(inbox: Inbox, args: argparse.Namespace) -> list[Question]:
    """Return the question of a ticket, or those of a turn that wait."""
    turn = getattr(args, "turn", None)
    if (turn is None) is (args.ticket is None):
        raise StateError("Name either a ticket, or a turn with --turn; then retry.")
    if turn is None:
        return [_named(inbox, args.ticket)]
    if found := [each for each in inbox.waiting() if each.turn == turn]:
        return found
    raise StateError(
        f"No question of the turn {printable(turn)!r} waits. List them with `toolstile approvals "
        "list`."
    )


def _named(inbox: Inbox, ticket: str) -> Question:
    found = inbox.store.get(ticket)
    if found is None:
        near = suggest(ticket, [question.ticket for question in inbox.store.questions()])
        raise StateError(
            f"There is no question {printable(ticket)!r}{near or ''}. List them with `toolstile "
            "approvals list`."
        )
    return found


# --- approve --always, grants, revoke


def _grant(grants: InboxGrants, question: Question, args: argparse.Namespace) -> None:
    terms = Terms(
        is_exact=args.always == "exact",
        scope=args.scope or "session",
        hours=HOURS if args.hours is None else args.hours,
        times=args.times,
    )
    answered = grants.approve(question.ticket, person(), terms, via=VIA, digest=args.digest)
    _tell(answered, args)


def _list_grants(grants: InboxGrants, args: argparse.Namespace) -> None:
    found = grants.all()
    for grant in found:
        used = "" if grant.times is None else f", {grants.used(grant)} used"
        line = f"{grant.id}  {grant.described}{used}; by {grant.by.id} ({grant.via})"
        tell(args, printable(line), grants.wire_of(grant))
    if not found and args.out is None:
        show_line("Nothing is granted.")


# --- resume


def _resume(
    host: HostHandle, inbox: Inbox, sessions: SessionStore | None, args: argparse.Namespace
) -> int:
    if sessions is None:
        raise StateError(_NOT_STORED)
    outcomes: list[Outcome] = []
    store: ApprovalStore = inbox.store
    # A dictionary, because it keeps the order and has each key once.
    owners = dict.fromkeys((found.session_id, found.principal) for found in store.questions(OPEN))
    for session_id, principal in owners:
        with host.executor(session_id=session_id, principal=principal) as tools:
            outcomes += resume_pending(tools)
    for outcome in outcomes:
        if args.out is not None:
            args.out.write({"callId": outcome.call.id, **outcome.envelope()})
        else:
            show_line(f"{outcome.call.name} {outcome.call.id}: {outcome.status}")
            for line in printable_lines(outcome.text):
                show_line(f"  {line}")
    if not outcomes and args.out is None:
        show_line("No call was answered since.")
    return 0 if all(outcome.success for outcome in outcomes) else 1
