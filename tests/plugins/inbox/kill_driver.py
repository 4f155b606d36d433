"""A process that makes calls which a person has to approve, until somebody kills it.

`python kill_driver.py FOLDER WAIT`: each call pays somebody else, and its result is a line of a
file.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    IdempotencyConfig,
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.inbox import resume_pending

LEASE = 0.3


def opened(folder: Path, wait: str) -> Host:
    """Return a host whose session, ledger and inbox lie in a folder."""

    @tool(
        category="write", requires_confirmation=True, idempotency=IdempotencyConfig(scope="session")
    )
    def pay(to: str, *, context: ToolContext) -> str:
        """Pay somebody."""
        with (folder / "effects.txt").open("a") as effects:
            effects.write(f"{to}\n")
        context.session[str].append(to)
        return f"Paid {to}."

    state = str(folder / "state.db")
    inbox = {"path": str(folder / "inbox.db"), "interval": 0.002, "wait": wait, "lease": LEASE}
    settings = Settings.model_validate(
        {
            "approver": "inbox",
            "approval_key": "a key of the tests, 32 letters long",
            "approval_spent": state,
            "plugins": {"inbox": inbox, "sessions": {"path": state}, "ledger": {"path": state}},
        }
    )
    return Host(settings=settings, tools=[pay])


def note(folder: Path, outcome: Outcome) -> None:
    """Write a result down, unless the call waits."""
    if outcome.status is not Status.PENDING:
        with (folder / "results.txt").open("a") as results:
            results.write(f"{outcome.call.id} {outcome.status} {outcome.text}\n")


def pay_all(folder: Path, tools: Executor, wait: str) -> None:
    """Make one call after another, and resume those that were answered."""
    for number in count():
        note(folder, tools.dispatch(ToolCall("pay", {"to": f"p{number}"}, id=f"call-{number}")))
        while wait == "pending":
            outcomes = resume_pending(tools)
            for outcome in outcomes:
                note(folder, outcome)
            if outcomes:
                break
            time.sleep(0.002)


if __name__ == "__main__":
    where, how = Path(sys.argv[1]), sys.argv[2]
    with opened(where, how) as host, host.executor(session_id="s") as executor:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        pay_all(where, executor, how)
