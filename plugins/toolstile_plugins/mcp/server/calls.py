"""`tools/call`: from a request to a dispatched call, and back."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputResponseRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_json

from toolstile_hookspecs import (
    ApprovalAnswer,
    Cancellation,
    Clock,
    Deadline,
    Dialect,
    Outcome,
    Principal,
    RequestTurn,
    ResourceLink,
    Status,
    ToolCall,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.services.workspace import WORKSPACE_URI
from toolstile_hookspecs.support.eager_task import begin
from toolstile_plugins.mcp.server.elicitation import (
    RequestState,
    answer_in,
    question_result,
    refuse_invalid,
)
from toolstile_plugins.mcp.server.request import (
    SOURCE,
    CallRequest,
    ProgressRelay,
    RequestContext,
    current_request,
    person_of,
    principal_of,
)
from toolstile_plugins.mcp.server.sessions import SESSION_META, ServedSession
from toolstile_plugins.mcp.settings import ANY_CLIENT, ServeSettings

log = logging.getLogger("toolstile.mcp")

T = TypeVar("T")

DEADLINE_META: Final = "toolstile/deadline"
"""The seconds that a client waits, in `_meta`."""
REQUEST_META: Final = "toolstile/request"
"""The user's request by a trusted client, in `_meta`: a text, or all of a conversation."""
LONGEST_DEADLINE: Final = sys.float_info.max
"""In seconds; JSON has integers beyond it."""
LATE: Final = (
    "The time for this call ended before the call was done. Its changes were rolled back. Ask for "
    "less at a time, or do without it."
)
RESERVED: Final = "io.modelcontextprotocol/"
_NOT_FOR_CALLS: Final = frozenset(
    {SESSION_META, DEADLINE_META, REQUEST_META, "progressToken", "progress_token"}
)


class Caller:
    """Dispatches the calls that clients ask for; the dialect makes results of outcomes."""

    def __init__(self, dialect: Dialect, clock: Clock, settings: ServeSettings) -> None:
        self._dialect = dialect
        self._clock = clock
        self._deadline = settings.deadline
        self._request_from = settings.request_from
        self._workspace_uri = settings.workspace_uri if settings.workspace else None
        self._running: set[asyncio.Task[Any]] = set()

    async def answer(
        self,
        session: ServedSession,
        context: RequestContext,
        params: CallToolRequestParams,
        handle: str | None = None,
    ) -> dict[str, Any]:
        """Return the result of a `tools/call`, or the question for a person.

        `handle` names the session, if the request has begun it. Raises `MCPError` if the tool is
        unknown, or the call is not resumed because the state that the client gave back does not
        hold.
        """
        call = self.call(context, params.name, params.arguments or {})
        ended = await self.outcome(session, context, call, params, handle)
        if isinstance(ended, dict):
            return ended
        is_late = call.deadline is not None and call.deadline.elapsed()
        if isinstance(ended, BaseException) and is_late:
            return {"content": [{"type": "text", "text": LATE}], "isError": True}
        result = self.result(ended)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return result if modern else _with_object(result)

    async def outcome(
        self,
        session: ServedSession,
        context: RequestContext,
        call: ToolCall,
        params: InputResponseRequestParams,
        handle: str | None = None,
    ) -> Outcome | BaseException | str | dict[str, Any]:
        """Return how the call of a request ended, or the question for a person.

        Raises `MCPError` if the call is not resumed because the state that the client gave back
        does not hold, or if the user's request cannot be read.
        """
        if said := self._newly_said(session, context):
            session.executor.request(said)
        progress = ProgressRelay(context.session.report_progress)
        request = CallRequest(context, params, progress)
        # In a separate task, because the SDK cancels repeatedly, and a rollback takes time.
        state = RequestState.in_answer(context.params)
        answered = None if state is None else (state, answer_in(params))
        task = begin(request.loop, _dispatch(session, request, call, answered))
        try:
            if not task.done():
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                await asyncio.shield(task)
            await progress.finish()
        except asyncio.CancelledError:
            progress.stop()
            assert call.cancellation is not None  # noqa: S101 - made here
            call.cancellation.cancel()
            raise
        ended = task.result()
        if isinstance(ended, Outcome) and ended.approval_token is not None:
            question = request.questions.get(call.id)
            if question is not None:
                return question_result(ended, question, handle)
        if isinstance(ended, Outcome):
            refuse_invalid(ended)
        return ended

    async def finish(self) -> None:
        """Wait until the cancelled calls have been rolled back."""
        if self._running:
            await asyncio.wait(self._running)

    def call(self, context: RequestContext, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call that a request asks for."""
        meta = cast("Mapping[str, Any]", context.meta or {})
        asked = meta.get(DEADLINE_META)
        if asked is not None and (
            isinstance(asked, bool)
            or not isinstance(asked, int | float)
            or not 0 < asked <= LONGEST_DEADLINE
        ):
            raise MCPError(INVALID_PARAMS, f"_meta[{DEADLINE_META!r}] must be a number of seconds.")
        seconds = [limit for limit in (asked, self._deadline) if limit is not None]
        return ToolCall(
            name,
            _written(arguments),
            provider_id=str(context.request_id),
            cancellation=Cancellation(),
            deadline=Deadline.after(min(seconds), clock=self._clock) if seconds else None,
            meta={
                key: value
                for key, value in meta.items()
                if key not in _NOT_FOR_CALLS and not key.startswith(RESERVED)
            },
        )

    def _newly_said(self, session: ServedSession, context: RequestContext) -> list[str]:
        """Return the user's texts of a trusted client that are new to the session."""
        meta = cast("Mapping[str, Any]", context.meta or {})
        if REQUEST_META not in meta:
            return []
        client = principal_of(context)
        if self._request_from.isdisjoint({ANY_CLIENT, client.id if client else ANY_CLIENT}):
            log.info("A client is not trusted to give the user's request; see request_from.")
            return []
        said: Any = meta[REQUEST_META]
        texts = [*cast("Iterable[Any]", said)] if isinstance(said, list) else [said]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            told = f"_meta[{REQUEST_META!r}] must be a text of the user, or a list of these."
            raise MCPError(INVALID_PARAMS, told)
        known = {turn.text for turn in session.executor.session[RequestTurn].all()}
        return [text for text in dict.fromkeys(texts) if text not in known]

    def result(self, ended: Outcome | BaseException | str) -> dict[str, Any]:
        """Return the result of a call for the client; `MCPError` if its tool is unknown."""
        if isinstance(ended, str):
            # From a tool with an output schema, a client accepts only an error without data.
            return {"content": [{"type": "text", "text": ended}], "isError": True}
        if isinstance(ended, Outcome) and ended.status is Status.UNKNOWN_TOOL:
            raise MCPError(INVALID_PARAMS, ended.text)
        result: dict[str, Any] = self._dialect.results([ended])[0]
        if self._workspace_uri is not None and isinstance(ended, Outcome) and ended.success:
            result["content"] += [_block(link, self._workspace_uri) for link in _links_of(ended)]
        return result


def _written(arguments: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return arguments as JSON; unchanged if they have none, so that the host reports the fault."""
    try:
        return to_json(arguments).decode()
    except ValueError:
        return arguments


async def _dispatch(
    session: ServedSession,
    request: CallRequest,
    call: ToolCall,
    answered: tuple[RequestState, ApprovalAnswer] | None,
) -> Outcome | BaseException | str:
    current_request.set(request)
    with session:
        try:
            if answered is None:
                return await session.executor.adispatch(call)
            state, given = answered
            if state.is_proof:
                from toolstile_plugins.inbox.resumption import LateAnswer  # few have an inbox

                principal = principal_of(request.context)
                by = person_of(request.context) or Principal(SOURCE, "")
                late = LateAnswer(state.token, given, SOURCE, principal, by)
                if (ended := await late.settle(session.executor, call)) is not None:
                    return ended
            return await session.executor.aresume(call, state.token, given)
        except VisibilityExpansionRequired as wanted:
            opened = session.executor.expand(wanted)
            return f"Opened {', '.join(wanted.section_keys)}. The prompt is now:\n{opened.text}"
        except KeyboardInterrupt as error:
            # An exact KeyboardInterrupt is the handler's: Ctrl-C cancels the server's task, and
            # a command turns its signals into subclasses.
            if type(error) is not KeyboardInterrupt:
                raise
            return _of(call, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the dialect reports it
            return _of(call, error)


def _links_of(ended: Outcome) -> list[ResourceLink]:
    result = ended.result
    value = None if result.exclude_value_from_context else result.value
    try:
        # Because getattr is slow for a missing attribute of a pydantic model, ask `object`.
        links: Any = object.__getattribute__(value, "links")
        return [link for link in links if isinstance(link, ResourceLink)]
    except Exception:  # noqa: BLE001 - `links` of values may be anything else
        return []


def _block(link: ResourceLink, workspace: str) -> dict[str, Any]:
    """Return a link as a content block; a link into the workspace has this server's URI."""
    uri = link.uri
    if uri.startswith(WORKSPACE_URI):
        uri = workspace + uri.removeprefix(WORKSPACE_URI)
    known = {"title": link.title, "description": link.description, "size": link.size}
    shape = {"type": link.type, "uri": uri, "name": link.name, "mimeType": link.mime_type, **known}
    return {name: value for name, value in shape.items() if value is not None}


def _with_object(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of the older era, whose structured content is an object or absent."""
    if isinstance(result.get("structuredContent", {}), Mapping):
        return result
    return {name: value for name, value in result.items() if name != "structuredContent"}


def _of(call: ToolCall, error: BaseException) -> BaseException:
    error.call = call  # type: ignore[attr-defined]
    return error
