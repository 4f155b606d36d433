"""Runs an agent over a stored session and a ledger, to be killed at any instant and run again.

`go FOLDER` runs the request; `pending FOLDER` runs it until a call waits for a person, and prints
the state and the token as JSON; `resume FOLDER` goes on, with both on standard input. Each prints
what came of it as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstile import Host, MarkdownSection, Prompt, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ApprovalAnswer, IdempotencyConfig, RunContext, ToolContext
from toolstile_hookspecs.agents.messages import Message, Role
from toolstile_hookspecs.agents.provider import ModelRequest
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.agent import Agent, RunState, TicketAnswer

TURNS = 5


@stored_as("run_driver.Charge")
@dataclass(frozen=True)
class Charge:
    """An item that a charge leaves in the session."""

    key: str


@tool(idempotency=IdempotencyConfig(scope="call", ttl=None))
def charge(key: str, *, context: ToolContext) -> str:
    """Charge a card, which nothing takes back."""
    context.session[Charge].append(Charge(key))
    with (folder / "effects.txt").open("ab", buffering=0) as stream:
        stream.write(f"{key}\n".encode())
    return f"charged {key}"


@tool(category="read")
def count(*, context: ToolContext) -> int:
    """Count the charges."""
    return len(context.session[Charge].all())


@tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="call", ttl=None))
def refund(key: str, *, context: ToolContext) -> str:
    """Refund a charge, which a person has to approve."""
    context.session[Charge].append(Charge(key))
    with (folder / "effects.txt").open("ab", buffering=0) as stream:
        stream.write(f"{key}\n".encode())
    return f"refunded {key}"


SECTION = MarkdownSection(key="desk", title="Desk", tools=[charge, count, refund])
PROMPT = Prompt.of("demo", "desk", [SECTION])


def reply(request: ModelRequest) -> Any:
    """Answer by how far the conversation has come, as a model does."""
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    if asks_a_person and turn == 1:
        return [("refund", {"key": "r"}), ("count", {})]
    if turn < TURNS:
        return [("charge", {"key": f"{turn}-{number}"}) for number in range(3)] + [("count", {})]
    return "All is charged."


class Desk(ScriptedModel):
    """A model whose calls have the same ids whenever it is asked the same."""

    def __init__(self) -> None:
        super().__init__(*[reply] * 100)

    def _turn(self, answer: Any, number: int) -> Any:
        turn = sum(m.role is Role.ASSISTANT for m in self.requests[-1].messages)
        return super()._turn(answer, turn)


def opened() -> Host:
    path = folder / "state.db"
    settings = Settings(
        plugins={"ledger": {"path": path}, "sessions": {"path": path}},
        approval_key="k" * 40,
        approval_spent=folder / "state.db",
        approval_expiry=100 * 365 * 24 * 3600.0,
    )
    return Host(
        discover=["ledger", "sessions"],
        settings=settings,
        approver=lambda _: ApprovalAnswer.pending("t-1"),
    )


def told(result: Any, session: Any) -> dict[str, Any]:
    messages = session[Message].all()
    return {
        "stop_reason": result.stop_reason,
        "text": result.text,
        "roles": [message.role for message in messages],
        "made": [call.id for message in messages for call in message.calls],
        "answered": [
            (answer.call_id, answer.name, answer.text)
            for message in messages
            for answer in message.answers
        ],
        "charges": [each.key for each in session[Charge].all()],
        "state": result.state.to_json() if result.state else None,
        "token": result.waiting[0].approval_token if result.waiting else None,
    }


def main() -> None:
    context = RunContext(request_id="request-1")
    with opened() as host:
        agent = Agent[str](PROMPT, adapter=Desk(), host=host)
        if mode == "resume":
            asked = json.loads(sys.stdin.read())
            state = RunState.from_json(asked["state"])
            answers = {"t-1": TicketAnswer(asked["token"], ApprovalAnswer.approve())}
            result, session = agent.resume(state, answers)
        else:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            result, session = agent.execute("Charge all.", session_id="s", run_context=context)
        sys.stdout.write(json.dumps(told(result, session)) + "\n")
        sys.stdout.flush()
        if mode == "pending":
            os.kill(os.getpid(), 9)


if __name__ == "__main__":
    mode, folder = sys.argv[1], Path(sys.argv[2])
    asks_a_person = mode in {"pending", "resume"}
    main()
