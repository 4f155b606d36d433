"""The server: the answer to each request of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, TypeVar, get_args

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

from toolstile_hookspecs import HostHandle
from toolstile_plugins.mcp.server.calls import Caller
from toolstile_plugins.mcp.server.request import Changes, RequestContext
from toolstile_plugins.mcp.server.sessions import SESSION_META, Chosen, SessionChoice
from toolstile_plugins.mcp.server.tools import (
    DIALECT,
    Completions,
    PromptList,
    ToolList,
    WorkspaceResources,
    instructions_of,
)
from toolstile_plugins.mcp.settings import ServeSettings
from toolstile_plugins.mcp.workspace_read import TOOL

DISTRIBUTION: Final = "toolstile"

Params = TypeVar("Params")
Result = dict[str, Any]
Handler = Callable[[RequestContext, Params], Awaitable[Result]]


class HostServer:
    """Answers requests from a host; `changes` notifies the client of other tools and prompts."""

    def __init__(
        self,
        host: HostHandle,
        settings: ServeSettings,
        choice: SessionChoice,
        changes: Changes | None = None,
    ) -> None:
        self._choice = choice
        self._changes = changes
        self._tools = ToolList(host)
        self._prompts = PromptList(host)
        self.caller = Caller(host.dialect(DIALECT), host.clock, settings)
        # Files are read through a tool of this host; a server's tool has other files.
        reader = host.catalog.get(TOOL) if settings.workspace else None
        is_own = reader is not None and reader.origin is None
        workspace = WorkspaceResources(settings, self.caller) if is_own else None
        self._completions = Completions(self._prompts, workspace)
        self.protocol: Server[Any] = _Protocol(
            settings.name,
            version=version(DISTRIBUTION),
            instructions=instructions_of(host.prompt),
            # All answers may differ between sessions and change at any time.
            cache_hints={method: CacheHint() for method in get_args(CacheableMethod)},
            get_tool_input_schema=self._tools.input_schema,
        )
        add = self.protocol.add_request_handler
        add("tools/list", PaginatedRequestParams, self._lister(self._tools))
        add("tools/call", CallToolRequestParams, self._chosen(self._call_tool))
        add("prompts/list", PaginatedRequestParams, self._lister(self._prompts))
        add("prompts/get", GetPromptRequestParams, self._chosen(self._get_prompt))
        add("completion/complete", CompleteRequestParams, self._chosen(self._complete))
        if workspace is not None:
            self._serve_workspace(workspace)
        if changes is not None:
            add("subscriptions/listen", SubscriptionsListenRequestParams, changes.listen)

    def _lister(self, listed: ToolList | PromptList) -> Handler[PaginatedRequestParams]:
        async def page(
            chosen: Chosen, context: RequestContext, params: PaginatedRequestParams
        ) -> Result:
            if self._changes is not None:
                self._changes.seen_by(context.session)
            return listed.page(chosen.executor, params.cursor)

        return self._chosen(page)

    def _chosen(
        self, answer: Callable[[Chosen, RequestContext, Params], Awaitable[Result]]
    ) -> Handler[Params]:
        """Return a handler that answers with the session of its request."""

        async def handle(context: RequestContext, params: Params) -> Result:
            with self._choice.of(context) as chosen:
                return _whole(await answer(chosen, context, params), chosen.meta)

        return handle

    async def _call_tool(
        self, chosen: Chosen, context: RequestContext, params: CallToolRequestParams
    ) -> Result:
        begun = chosen.meta.get(SESSION_META)
        return await self.caller.answer(chosen.session, context, params, begun)

    async def _get_prompt(
        self, chosen: Chosen, _: object, params: GetPromptRequestParams
    ) -> Result:
        return self._prompts.get(chosen.executor, params.name, params.arguments or {})

    async def _complete(self, chosen: Chosen, _: object, params: CompleteRequestParams) -> Result:
        return {"completion": await self._completions.of(chosen.executor, params)}

    def _serve_workspace(self, workspace: WorkspaceResources) -> None:
        async def page(chosen: Chosen, _: object, params: PaginatedRequestParams) -> Result:
            return await workspace.page(chosen.executor, params.cursor)

        async def templates(*_: object) -> Result:
            return _whole(workspace.templates(), {})

        async def read(
            chosen: Chosen, context: RequestContext, params: ReadResourceRequestParams
        ) -> Result:
            begun = chosen.meta.get(SESSION_META)
            return await workspace.read(chosen.session, context, params, begun)

        add = self.protocol.add_request_handler
        add("resources/list", PaginatedRequestParams, self._chosen(page))
        add("resources/templates/list", PaginatedRequestParams, templates)
        add("resources/read", ReadResourceRequestParams, self._chosen(read))


class _Protocol(Server[Any]):
    """The SDK's server, without the notifications of resources, which are not sent."""

    def get_capabilities(self, *args: Any, **kwargs: Any) -> ServerCapabilities:
        found = super().get_capabilities(*args, **kwargs)
        if found.resources is None:
            return found
        resources = ResourcesCapability(subscribe=False, list_changed=False)
        return found.model_copy(update={"resources": resources})


def _whole(result: Result, meta: Mapping[str, Any]) -> Result:
    complete = {"resultType": "complete", **result}
    return {**complete, "_meta": {**result.get("_meta", {}), **meta}} if meta else complete
