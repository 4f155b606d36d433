"""The desk over HTTP, with Starlette."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from desk import Desk
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolstile_hookspecs import StateError


def create_app(desk: Desk) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with desk.host:
            yield

    async def ask(request: Request) -> Response:
        user, given = request.path_params["user"], await request.json()
        if "text/event-stream" in request.headers.get("accept", ""):
            events = desk.stream(user, given["id"], given["text"])
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(await desk.ask(user, given["id"], given["text"]))

    async def conversation(request: Request) -> Response:
        return JSONResponse(await desk.conversation(request.path_params["user"]))

    async def questions(_: Request) -> Response:
        return JSONResponse(await desk.questions())

    async def answer(request: Request) -> Response:
        # The proxy that signs people in says who it is.
        person, given = request.headers["x-person"], await request.json()
        ticket = request.path_params["ticket"]
        return JSONResponse(await desk.answer(ticket, person, approve=given["approve"]))

    def too_late(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 409)

    routes = [
        Route("/users/{user}/requests", ask, methods=["POST"]),
        Route("/users/{user}/conversation", conversation),
        Route("/questions", questions),
        Route("/questions/{ticket}", answer, methods=["POST"]),
    ]
    handlers = {StateError: too_late}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
