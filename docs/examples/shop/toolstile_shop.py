"""A shop's desk: an agent with three tools over SQLite, behind FastAPI, by Toolstile."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from toolstile import ApprovalAnswer, Host, MarkdownSection, Prompt, Settings, tool
from toolstile_hookspecs import IdempotencyConfig
from toolstile_plugins.agent import Agent, RunResult, RunState, TicketAnswer


def create_app(folder: Path, model: Any, traces: TracerProvider) -> FastAPI:
    trace.set_tracer_provider(traces)

    def run(sql: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(folder / "shop.db")) as database, database:
            return database.execute(sql, values).fetchall()

    @tool(category="read")
    def stock(product: str) -> int:
        """Tell how many there are."""
        return run("SELECT number FROM stock WHERE product = ?", product)[0][0]

    @tool(category="write")
    def reserve(product: str, number: int) -> str:
        """Reserve some of a product."""
        run("UPDATE stock SET number = number - ? WHERE product = ?", number, product)
        return f"{number} x {product} reserved"

    @tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="call"))
    def pay(customer: str, euros: int) -> str:
        """Charge the customer's card."""
        run("INSERT INTO payment VALUES (?, ?)", customer, euros)
        return f"{customer} paid {euros} euros"

    section = MarkdownSection(key="desk", title="Desk", tools=[stock, reserve, pay])
    kept = {"path": folder / "calls.db"}
    settings = Settings(plugins={"ledger": kept, "sessions": kept})
    host = Host(settings=settings, approver=lambda _: ApprovalAnswer.pending())
    agent = Agent[str](Prompt.of("shop", "desk", [section]), adapter=model, host=host)
    waiting: dict[str, tuple[RunState, dict[str, str]]] = {}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        run("CREATE TABLE IF NOT EXISTS stock (product TEXT, number INTEGER)")
        run("CREATE TABLE IF NOT EXISTS payment (customer TEXT, euros INTEGER)")
        async with host:
            yield

    app = FastAPI(lifespan=lifespan)

    def told(session: str, result: RunResult[Any]) -> dict[str, Any]:
        if result.state is None:
            return {"text": result.text}
        tokens = {each.call.id: str(each.approval_token) for each in result.waiting}
        waiting[session] = result.state, tokens
        return {"asks": [each.call.arguments for each in result.waiting]}

    @app.post("/orders/{session}")
    async def order(session: str, text: str) -> dict[str, Any]:
        return told(session, (await agent.aexecute(text, session_id=session))[0])

    @app.post("/answers/{session}")
    async def answer(session: str, approve: bool) -> dict[str, Any]:
        state, tokens = waiting[session]
        given = {call: TicketAnswer(token, approve) for call, token in tokens.items()}
        return told(session, (await agent.aresume(state, given))[0])

    return app
