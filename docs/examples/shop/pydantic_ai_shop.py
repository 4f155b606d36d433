"""A shop's desk: an agent with three tools over SQLite, behind FastAPI, by pydantic-ai."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.instrumented import InstrumentationSettings


def create_app(folder: Path, model: Any, traces: TracerProvider) -> FastAPI:
    def run(sql: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(folder / "shop.db")) as database, database:
            return database.execute(sql, values).fetchall()

    agent = Agent(
        model,
        output_type=[str, DeferredToolRequests],
        capabilities=[Instrumentation(InstrumentationSettings(tracer_provider=traces))],
    )
    waiting: dict[str, tuple[list[ModelMessage], DeferredToolRequests]] = {}

    @agent.tool_plain
    def stock(product: str) -> int:
        """Tell how many there are."""
        return run("SELECT number FROM stock WHERE product = ?", product)[0][0]

    @agent.tool_plain
    def reserve(product: str, number: int) -> str:
        """Reserve some of a product."""
        run("UPDATE stock SET number = number - ? WHERE product = ?", number, product)
        return f"{number} x {product} reserved"

    @agent.tool(requires_approval=True)
    def pay(context: RunContext, customer: str, euros: int) -> str:
        """Charge the customer's card."""
        call = context.tool_call_id
        with closing(sqlite3.connect(folder / "shop.db")) as database, database:
            if not database.execute("SELECT 1 FROM paid WHERE call = ?", (call,)).fetchone():
                database.execute("INSERT INTO paid VALUES (?)", (call,))
                database.execute("INSERT INTO payment VALUES (?, ?)", (customer, euros))
        return f"{customer} paid {euros} euros"

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        run("CREATE TABLE IF NOT EXISTS stock (product TEXT, number INTEGER)")
        run("CREATE TABLE IF NOT EXISTS payment (customer TEXT, euros INTEGER)")
        run("CREATE TABLE IF NOT EXISTS paid (call TEXT PRIMARY KEY)")
        yield

    app = FastAPI(lifespan=lifespan)

    def told(session: str, result: Any) -> dict[str, Any]:
        if isinstance(result.output, DeferredToolRequests):
            waiting[session] = result.all_messages(), result.output
            return {"asks": [each.args for each in result.output.approvals]}
        return {"text": result.output}

    @app.post("/orders/{session}")
    async def order(session: str, text: str) -> dict[str, Any]:
        return told(session, await agent.run(text))

    @app.post("/answers/{session}")
    async def answer(session: str, approve: bool) -> dict[str, Any]:
        messages, asked = waiting[session]
        approvals = {each.tool_call_id: approve for each in asked.approvals}
        given = DeferredToolResults(approvals=approvals)
        return told(session, await agent.run(message_history=messages, deferred_tool_results=given))

    return app
