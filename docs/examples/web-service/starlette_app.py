"""The desk over HTTP, with Starlette."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from desk import Desk
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolstile_hookspecs import QuestionClosedError, StateError, UnknownQuestionError


class Asked(BaseModel):
    id: str
    text: str


class Answered(BaseModel):
    approve: bool


def create_app(desk: Desk) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with desk.host:
            yield

    async def ask(request: Request) -> Response:
        user, asked = request.path_params["user"], Asked.model_validate_json(await request.body())
        if "text/event-stream" in request.headers.get("accept", ""):
            events = desk.stream(user, asked.id, asked.text)
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(await desk.ask(user, asked.id, asked.text))

    async def conversation(request: Request) -> Response:
        return JSONResponse(await desk.conversation(request.path_params["user"]))

    async def questions(_: Request) -> Response:
        return JSONResponse(await desk.questions())

    async def answer(request: Request) -> Response:
        answered = Answered.model_validate_json(await request.body())
        # The proxy that signs people in says who it is.
        if not (person := request.headers.get("x-person")):
            raise HTTPException(422, "The header x-person is missing.")
        ticket = request.path_params["ticket"]
        return JSONResponse(await desk.answer(ticket, person, approve=answered.approve))

    def invalid(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    def refused(_: Request, error: Exception) -> Response:
        # A second answer to one question conflicts with the first; else the client asks again.
        known = {QuestionClosedError: 409, UnknownQuestionError: 404}
        return JSONResponse({"error": str(error)}, known.get(type(error), 503))

    routes = [
        Route("/users/{user}/requests", ask, methods=["POST"]),
        Route("/users/{user}/conversation", conversation),
        Route("/questions", questions),
        Route("/questions/{ticket}", answer, methods=["POST"]),
    ]
    handlers = {StateError: refused, ValidationError: invalid}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
