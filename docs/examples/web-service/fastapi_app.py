"""The desk over HTTP, with FastAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from desk import Desk
from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.requests import Request

from toolstile_hookspecs import QuestionClosedError, StateError, UnknownQuestionError


class Asked(BaseModel):
    id: str
    text: str


class Answered(BaseModel):
    approve: bool


def create_app(desk: Desk) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with desk.host:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/users/{user}/requests")
    async def ask(user: str, asked: Asked, accept: Annotated[str, Header()] = "") -> Any:
        if "text/event-stream" in accept:
            events = desk.stream(user, asked.id, asked.text)
            return StreamingResponse(events, media_type="text/event-stream")
        return await desk.ask(user, asked.id, asked.text)

    @app.get("/users/{user}/conversation")
    async def conversation(user: str) -> list[tuple[str, str]]:
        return await desk.conversation(user)

    @app.get("/questions")
    async def questions() -> list[dict[str, Any]]:
        return await desk.questions()

    # The proxy that signs people in says who it is.
    @app.post("/questions/{ticket}")
    async def answer(
        ticket: str, answered: Answered, x_person: Annotated[str, Header()]
    ) -> dict[str, Any]:
        return await desk.answer(ticket, x_person, approve=answered.approve)

    @app.exception_handler(StateError)
    def refused(_: Request, error: StateError) -> JSONResponse:
        # A second answer to one question conflicts with the first; else the client asks again.
        known = {QuestionClosedError: 409, UnknownQuestionError: 404}
        return JSONResponse({"error": str(error)}, known.get(type(error), 503))

    return app
