"""A process that makes calls which a person has to approve, until somebody kills it.

`python kill_driver.py FOLDER WAIT [STEP]`: each call pays somebody else, and its result is a line
of a file. With a step the process kills itself there, in its first call. `person` in place of WAIT
approves the questions that wait, the last argument being their name, once a line comes in; `shown`
resumes the call whose changes were approved. All is kept in a PostgreSQL database where the folder
has a file `url`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    Answer,
    IdempotencyConfig,
    Outcome,
    Principal,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.approval_store import ANSWERED
from toolstile_plugins.database.session_store import PostgresDecision
from toolstile_plugins.inbox import Inbox, resume_pending
from toolstile_plugins.inbox.sql import SqlApprovals
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore, SqlStore
from toolstile_plugins.record import RecordFile
from toolstile_plugins.sessions.sqlite import SqliteDecision

LEASE = 0.3

reach: Callable[[str], None] = lambda step: None  # noqa: E731 - what each step of a call does


def opened(folder: Path, wait: str) -> Host:
    """Return a host whose session, ledger and inbox lie in a folder."""

    @tool(
        category="write", requires_confirmation=True, idempotency=IdempotencyConfig(scope="session")
    )
    def pay(to: str, *, context: ToolContext) -> str:
        """Pay somebody."""
        reach("in the handler")
        with (folder / "effects.txt").open("a") as effects:
            effects.write(f"{to}\n")
        reach("after the effect")
        context.session[str].append(to)
        return f"Paid {to}."

    @tool(
        category="write",
        contained=True,
        requires_confirmation=True,
        idempotency=IdempotencyConfig(scope="session"),
    )
    def generate(path: str, *, context: ToolContext) -> str:
        """Write something else each time."""
        with (folder / "runs.txt").open("a") as runs:
            runs.write(f"{path}\n")
        assert context.filesystem is not None
        context.filesystem.write(path, f"{uuid4()}\n")
        context.session[str].append(path)
        return "Generated."

    (folder / "work").mkdir(exist_ok=True)
    state, url = str(folder / "state.db"), folder / "url"
    inbox = {"interval": 0.002, "wait": wait, "lease": LEASE}
    kept: dict[str, Any] = (
        {
            "database": {"url": url.read_text(), "lease": LEASE},
            "inbox": {"key": str(folder / "inbox.key"), **inbox},
        }
        if url.exists()
        else {
            "sessions": {"path": state},
            "ledger": {"path": state},
            "inbox": {"path": str(folder / "inbox.db"), **inbox},
        }
    )
    settings = Settings.model_validate(
        {
            "approver": "inbox",
            "approval_key": "a key of the tests, 32 letters long",
            "approve_diff": ["generate"],
            "plugins": {
                "record": {"folder": str(folder / "records")},
                "vfs": {"root": str(folder / "work")},
                **kept,
            },
        }
    )
    return Host(settings=settings, tools=[pay, generate])


def note(folder: Path, outcome: Outcome) -> None:
    """Write a result down, unless the call waits."""
    if outcome.status is not Status.PENDING:
        with (folder / "results.txt").open("a") as results:
            results.write(f"{outcome.call.id} {outcome.status} {outcome.text}\n")


# --- Steps


class Steps:
    """Tells of the stages of a call that goes on with an answer."""

    @hookimpl
    def toolstile_check(self, context: ToolContext) -> None:
        """Tell that policies are asked, after an answer."""
        if context.resources.get(Inbox).store.questions(ANSWERED):
            reach("policies asked anew")

    @hookimpl
    def toolstile_snapshot(self) -> None:
        """Tell that the call gets its branch."""
        reach("snapshot")


def tell(owner: type[Any], name: str, title: Callable[..., str]) -> None:
    """Have a method tell of its beginning and its end."""
    method = getattr(owner, name)

    @wraps(method)
    def telling(*args: Any, **kwargs: Any) -> Any:
        reached = title(*args)
        reach(f"before {reached}")
        result = method(*args, **kwargs)
        reach(f"after {reached}")
        return result

    setattr(owner, name, telling)


def claim_of(store: SqlApprovals, ticket: str, *_: object) -> str:
    """Return what a claim is: of a call that waits, or of one that goes on."""
    question = store.get(ticket)
    return "the claim" if question and question.state in ANSWERED else "the hold"


def tell_all() -> None:
    """Have all tell of their steps that have a part in an answered call."""
    for owner, name, title in (
        (SqlApprovals, "add", "the question"),
        (SqlApprovals, "answer", "the answer"),
        (SqlApprovals, "end", "the end of the question"),
        (SqlApprovals, "release", "the release"),
        (SqlStore, "claim", "the claim of the ledger"),
        (SqliteStore, "finish_within", "the record of the ledger"),
        (PostgresStore, "finish_within", "the record of the ledger"),
        (SqliteDecision, "append", "the entry of the session"),
        (PostgresDecision, "append", "the entry of the session"),
        (RecordFile, "append", "the line of the record"),
    ):
        tell(owner, name, partial(lambda title, *_: title, title))
    tell(SqlApprovals, "claim", claim_of)


def die_at(step: str) -> Callable[[str], None]:
    """Return what kills the process at a step."""

    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


# --- Calls


def pay_all(folder: Path, tools: Executor, wait: str) -> None:
    """Make one call after another, and resume those that were answered."""
    for number in count():
        outcome = tools.dispatch(ToolCall("pay", {"to": f"p{number}"}, id=f"call-{number}"))
        reach("before the result")
        note(folder, outcome)
        while wait == "pending":
            outcomes = resume_pending(tools)
            for outcome in outcomes:
                reach("before the result")
                note(folder, outcome)
            if outcomes:
                break
            time.sleep(0.002)


def approve_all(inbox: Inbox, name: str) -> None:
    """Approve what waits, once a line comes in, and tell which answers counted."""
    waiting = inbox.waiting()
    sys.stdin.readline()
    for question in waiting:
        with suppress(StateError):
            inbox.answer(question.ticket, Answer.APPROVED, Principal("os", name), via="driver")
            sys.stdout.write(f"{question.ticket}\n")


if __name__ == "__main__":
    where, how = Path(sys.argv[1]), sys.argv[2]
    with (
        opened(where, how if how == "answer" else "pending") as host,
        host.executor(session_id="s") as executor,
    ):
        if sys.argv[3:] and sys.argv[3]:
            tell_all()
            host.register(Steps())
            reach = die_at(sys.argv[3])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if how == "person":
            approve_all(executor.resources.get(Inbox), sys.argv[4])
        elif how == "shown":
            for outcome in resume_pending(executor):
                note(where, outcome)
        else:
            pay_all(where, executor, how)
