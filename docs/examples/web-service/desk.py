"""A shop's desk for many users: all of it but the web framework."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstile import Host, MarkdownSection, Prompt, Settings, tool
from toolstile_hookspecs import (
    Answer,
    IdempotencyConfig,
    Principal,
    PromptEvaluationError,
    RunContext,
    StateError,
    ToolContext,
    ToolInvoked,
)
from toolstile_hookspecs.agents.messages import CallMade, Message
from toolstile_hookspecs.agents.provider import ProviderAdapter
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.agent import Agent, RunResult, RunState
from toolstile_plugins.inbox import Inbox, answers_to, waiting_run

ISSUER = "https://id.example.org"
PRICES = {"kettle": 45, "mug": 12}


@stored_as("shop.Payment")
@dataclass(frozen=True)
class Payment:
    """A payment, kept in the session of the user."""

    number: int
    product: str


@tool(category="read")
def price(product: str) -> int:
    """Tell what a product costs, in euros."""
    return PRICES[product]


# Session and ledger are one file: where a process died, the payment is kept or was never made.
@tool(
    category="write",
    requires_confirmation=True,
    idempotency=IdempotencyConfig(scope="call", on_unknown="retry"),
)
def pay(number: int, product: str, *, context: ToolContext) -> str:
    """Let the customer pay."""
    context.session[Payment].append(Payment(number, product))
    return f"Paid {number} x {product}, {number * PRICES[product]} euros."


class Desk:
    """The users' agent: each user has a session, which any process goes on with.

    Args:
        folder: What all processes share.
        model: The adapter of a provider.
        approval_key: The secret that all processes share.
    """

    def __init__(self, folder: Path, model: ProviderAdapter, approval_key: str) -> None:
        journal = folder / "desk.db"
        settings = Settings.model_validate(
            {
                "approver": "inbox",
                "approval_key": approval_key,
                "approval_spent": journal,
                "plugins": {
                    "sessions": {"path": journal},
                    # What a dead process held is free after so many seconds.
                    "ledger": {"path": journal, "lease": 5},
                    "inbox": {"path": folder / "inbox.db", "wait": "pending", "lease": 5},
                },
            }
        )
        section = MarkdownSection(key="desk", title="Desk", tools=[price, pay])
        self.prompt = Prompt.of("shop", "desk", [section])
        self.host = Host(settings=settings)
        self.agent = Agent[str](self.prompt, adapter=model, host=self.host)

    async def ask(self, user: str, request_id: str, text: str) -> dict[str, Any]:
        """Answer a user's request; one that comes again goes on where it was."""
        inbox, state = await self._look(user)
        if state is None:
            result, _ = await self.agent.aexecute(text, **self._of(user, request_id))
            return _told(result, inbox)
        if state.request_id != request_id:
            return {"error": "Your last request waits for a person.", "asks": _asks(inbox, user)}
        return await self._go_on(inbox, state)

    async def stream(self, user: str, request_id: str, text: str) -> AsyncIterator[str]:
        """Yield the answer to a request piece by piece, as server-sent events."""
        inbox, state = await self._look(user)
        try:
            if state is not None:
                yield _event("end", await self.ask(user, request_id, text))
                return
            async with aclosing(self.agent.astream(text, **self._of(user, request_id))) as pieces:
                async for piece in pieces:
                    match piece:
                        case str():
                            yield _event("text", piece)
                        case CallMade():
                            yield _event("call", piece.name)
                        case ToolInvoked():
                            yield _event("result", [piece.tool_name, piece.status])
                        case RunResult():
                            yield _event("end", _told(piece, inbox))
                        case _:
                            pass  # the pieces of a call
        except (PromptEvaluationError, StateError) as error:
            yield _event("end", {"error": str(error)})

    async def answer(self, ticket: str, person: str, *, approve: bool) -> dict[str, Any]:
        """Take a person's answer, and go on with the run that waits for it.

        Raises:
            StateError: Another answer was first, or the question is gone.
        """
        inbox, _ = await self._look(None)
        said, by = Answer.APPROVED if approve else Answer.DENIED, Principal(ISSUER, person)
        question = await asyncio.to_thread(inbox.answer, ticket, said, by, via="the desk")
        inbox, state = await self._look(question.session_id)
        return {} if state is None else await self._go_on(inbox, state)

    async def questions(self) -> list[dict[str, Any]]:
        """Return the questions that wait for a person."""
        inbox, _ = await self._look(None)
        return _asks(inbox)

    async def conversation(self, user: str) -> list[tuple[str, str]]:
        """Return what was said in the session of a user."""
        async with self.host.executor(session_id=user) as tools:
            return [(each.role, each.text) for each in tools.session[Message].all() if each.text]

    async def _look(self, user: str | None) -> tuple[Inbox, RunState | None]:
        principal = None if user is None else Principal(ISSUER, user)
        async with self.host.executor(session_id=user, principal=principal) as tools:
            return tools.resources.get(Inbox), waiting_run(tools, self.prompt)

    async def _go_on(self, inbox: Inbox, state: RunState) -> dict[str, Any]:
        given = self._of(state.session_id, state.request_id)
        result, _ = await self.agent.aresume(state, answers_to(inbox, state), **given)
        return _told(result, inbox)

    def _of(self, user: str, request_id: str) -> Any:
        context, principal = RunContext(request_id=request_id), Principal(ISSUER, user)
        return {"session_id": user, "principal": principal, "run_context": context}


def _told(result: RunResult[str], inbox: Inbox) -> dict[str, Any]:
    if result.state is None:
        return {"text": result.text}
    return {"asks": _asks(inbox, result.session_id)}


def _asks(inbox: Inbox, user: str | None = None) -> list[dict[str, Any]]:
    return [
        {"ticket": asked.ticket, "tool": asked.tool, "arguments": json.loads(asked.arguments)}
        for asked in inbox.waiting()
        if user in (None, asked.session_id)
    ]


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
