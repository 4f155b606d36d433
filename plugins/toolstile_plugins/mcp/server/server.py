"""The server: what each request of the protocol comes to."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final, get_args

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ResourcesCapability,
    ServerCapabilities,
    SubscriptionsListenRequestParams,
)
from mcp_types.methods import CacheableMethod

from toolstile_hookspecs import ExecutorHandle, HostHandle
from toolstile_plugins.mcp.server.calls import Caller
from toolstile_plugins.mcp.server.notifications import Changes
from toolstile_plugins.mcp.server.prompts import PromptList, instructions_of
from toolstile_plugins.mcp.server.request import RequestContext
from toolstile_plugins.mcp.server.resources import WorkspaceResources
from toolstile_plugins.mcp.server.sessions import SESSION_META, Chosen, SessionChoice
from toolstile_plugins.mcp.server.tools import DIALECT, Completions, ToolList
from toolstile_plugins.mcp.settings import ServeSettings

DISTRIBUTION: Final = "toolstile"


class HostServer:
    """Answers requests with what the host offers.

    Args:
        host: The host.
        settings: How it is served.
        choice: Chooses the session of a request.
        changes: Tells the client of other tools than before; None where nobody is told.
    """

    def __init__(
        self,
        host: HostHandle,
        settings: ServeSettings,
        choice: SessionChoice,
        changes: Changes | None = None,
    ) -> None:
        self._choice = choice
        self._changes = changes
        self._tools = ToolList(host, settings.page_size)
        self._prompts = PromptList(host, settings.page_size)
        self._workspace = WorkspaceResources(settings) if settings.workspace else None
        self._completions = Completions(self._prompts, self._workspace)
        self.caller = Caller(host.dialect(DIALECT), host.clock, settings.deadline)
        self.protocol: Server[Any] = _Protocol(
            settings.name,
            version=version(DISTRIBUTION),
            instructions=instructions_of(host.prompt),
            # Everything may differ between sessions and change at any time.
            cache_hints={method: CacheHint() for method in get_args(CacheableMethod)},
            get_tool_input_schema=self._tools.input_schema,
        )
        self._answer_requests()

    def _answer_requests(self) -> None:
        add = self.protocol.add_request_handler
        add("tools/list", PaginatedRequestParams, self._list_tools)
        add("tools/call", CallToolRequestParams, self._call_tool)
        add("prompts/list", PaginatedRequestParams, self._list_prompts)
        add("prompts/get", GetPromptRequestParams, self._get_prompt)
        add("completion/complete", CompleteRequestParams, self._complete)
        if self._workspace is not None:
            add("resources/list", PaginatedRequestParams, self._list_resources)
            add("resources/templates/list", PaginatedRequestParams, self._list_templates)
            add("resources/read", ReadResourceRequestParams, self._read_resource)
        if self._changes is not None:
            add("subscriptions/listen", SubscriptionsListenRequestParams, self._changes.listen)

    async def _list_tools(
        self, context: RequestContext, params: PaginatedRequestParams
    ) -> dict[str, Any]:
        self._shown_to(context)
        with self._choice.for_look(context) as chosen:
            return _whole(self._tools.page(chosen.state, params.cursor), chosen.meta)

    async def _call_tool(
        self, context: RequestContext, params: CallToolRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_call(context) as chosen:
            assert chosen.session is not None  # noqa: S101 - a call always has one
            begun = chosen.meta.get(SESSION_META)
            result = await self.caller.answer(chosen.session, context, params, begun)
            return _whole(result, chosen.meta)

    async def _list_prompts(
        self, context: RequestContext, params: PaginatedRequestParams
    ) -> dict[str, Any]:
        self._shown_to(context)
        with self._choice.for_look(context) as chosen:
            return _whole(self._prompts.page(chosen.state, params.cursor), chosen.meta)

    async def _get_prompt(
        self, context: RequestContext, params: GetPromptRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_look(context) as chosen:
            found = self._prompts.get(chosen.state, params.name, params.arguments or {})
            return _whole(found, chosen.meta)

    async def _complete(
        self, context: RequestContext, params: CompleteRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_call(context) as chosen:
            values = await self._completions.of(_executor(chosen), params)
            return _whole({"completion": values}, chosen.meta)

    async def _list_resources(
        self, context: RequestContext, params: PaginatedRequestParams
    ) -> dict[str, Any]:
        assert self._workspace is not None  # noqa: S101 - else nobody answers this
        with self._choice.for_call(context) as chosen:
            page = await self._workspace.page(_executor(chosen), params.cursor)
            return _whole(page, chosen.meta)

    async def _list_templates(
        self,
        context: RequestContext,  # noqa: ARG002 - the same for all
        params: PaginatedRequestParams,  # noqa: ARG002 - there is one page
    ) -> dict[str, Any]:
        assert self._workspace is not None  # noqa: S101 - else nobody answers this
        return _whole(self._workspace.templates(), {})

    async def _read_resource(
        self, context: RequestContext, params: ReadResourceRequestParams
    ) -> dict[str, Any]:
        assert self._workspace is not None  # noqa: S101 - else nobody answers this
        with self._choice.for_call(context) as chosen:
            found = await self._workspace.read(
                _executor(chosen), str(params.uri), context.protocol_version
            )
            return _whole(found, chosen.meta)

    def _shown_to(self, context: RequestContext) -> None:
        if self._changes is not None:
            self._changes.seen_by(context.session)


class _Protocol(Server[Any]):
    """Promises no more than is served: of single resources and their list nobody is told."""

    def get_capabilities(self, *args: Any, **kwargs: Any) -> ServerCapabilities:
        found = super().get_capabilities(*args, **kwargs)
        if found.resources is None:
            return found
        resources = ResourcesCapability(subscribe=False, list_changed=False)
        return found.model_copy(update={"resources": resources})


def _executor(chosen: Chosen) -> ExecutorHandle:
    assert chosen.session is not None  # noqa: S101 - it was chosen for a call
    return chosen.session.executor


def _whole(result: dict[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    complete = {"resultType": "complete", **result}
    return {**complete, "_meta": {**result.get("_meta", {}), **meta}} if meta else complete
