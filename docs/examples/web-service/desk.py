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
from toolstile_hookspecs.agents.messages import Message
from toolstile_hookspecs.agents.provider import ProviderAdapter
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.agent import Agent, CallMade, RunResult
from toolstile_plugins.inbox import Inbox

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
        # What a dead process held is free after so many seconds.
        leases = {"ledger": {"lease": 5}, "inbox": {"lease": 5}}
        settings = Settings.durable(folder / "desk.db", key=approval_key, plugins=leases)
        section = MarkdownSection(key="desk", title="Desk", tools=[price, pay])
        self.prompt = Prompt.of("shop", "desk", [section])
        self.host = Host(settings=settings)
        self.agent = Agent(self.prompt, adapter=model, host=self.host)

    async def ask(self, user: str, request_id: str, text: str) -> dict[str, Any]:
        """Answer a user's request; one that comes again goes on where it was."""
        result, _ = await self.agent.aexecute(text, **self._of(user, request_id))
        return await self._told(result)

    async def stream(self, user: str, request_id: str, text: str) -> AsyncIterator[str]:
        """Yield the answer to a request piece by piece, as server-sent events."""
        try:
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
                            yield _event("end", await self._told(piece))
                        case _:
                            pass  # the pieces of a call
        except (PromptEvaluationError, StateError) as error:
            yield _event("end", {"error": str(error)})

    async def answer(self, ticket: str, person: str, *, approve: bool) -> dict[str, Any]:
        """Take a person's answer, and go on with the run that waits for it.

        Raises:
            StateError: Another answer was first, or the question is gone.
        """
        inbox = await self._inbox()
        said, by = Answer.APPROVED if approve else Answer.DENIED, Principal(ISSUER, person)
        question = await asyncio.to_thread(inbox.answer, ticket, said, by, via="the desk")
        try:
            # Nothing is said: the run takes the answer, and goes on where it was.
            result, _ = await self.agent.aexecute(None, **self._of(question.session_id))
        except StateError:
            return {"kept": ticket}  # a request of the user is under way, and takes the answer
        return await self._told(result)

    async def questions(self) -> list[dict[str, Any]]:
        """Return the questions that wait for a person."""
        return _asks(await self._inbox())

    async def conversation(self, user: str) -> list[tuple[str, str]]:
        """Return what was said in the session of a user."""
        async with self.host.executor(session_id=user) as tools:
            return [(each.role, each.text) for each in tools.session[Message].all() if each.text]

    async def _inbox(self) -> Inbox:
        async with self.host.executor() as tools:
            return tools.resources.get(Inbox)

    async def _told(self, result: RunResult[str]) -> dict[str, Any]:
        if result.state is None:
            return {"text": result.text}
        asks = {"asks": _asks(await self._inbox(), result.session_id)}
        return asks | ({"note": result.note} if result.note else {})

    def _of(self, user: str, request_id: str | None = None) -> Any:
        context, principal = RunContext(request_id=request_id), Principal(ISSUER, user)
        return {"session_id": user, "principal": principal, "run_context": context}


def _asks(inbox: Inbox, user: str | None = None) -> list[dict[str, Any]]:
    return [
        {"ticket": asked.ticket, "tool": asked.tool, "arguments": json.loads(asked.arguments)}
        for asked in inbox.waiting()
        if user in (None, asked.session_id)
    ]


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
