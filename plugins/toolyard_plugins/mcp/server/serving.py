"""The server: what each request of the protocol comes to."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final, get_args

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
)
from mcp_types.methods import CacheableMethod

from toolyard_hookspecs import HostHandle
from toolyard_plugins.mcp.server.calls import Caller
from toolyard_plugins.mcp.server.choosing import SessionChoice
from toolyard_plugins.mcp.server.handles import SESSION_META
from toolyard_plugins.mcp.server.prompts import PromptList, instructions_of
from toolyard_plugins.mcp.server.requests import RequestContext
from toolyard_plugins.mcp.server.settings import ServeSettings
from toolyard_plugins.mcp.server.tools import DIALECT, ToolList

DISTRIBUTION: Final = "toolyard"


class HostServer:
    """Answers requests with what the host offers.

    Args:
        host: The host.
        settings: How it is served.
        choice: Chooses the session of a request.
    """

    def __init__(self, host: HostHandle, settings: ServeSettings, choice: SessionChoice) -> None:
        self._choice = choice
        self._tools = ToolList(host, settings.page_size)
        self._prompts = PromptList(host, settings.page_size)
        self.caller = Caller(host.dialect(DIALECT), host.clock, settings.deadline)
        self.protocol: Server[Any] = Server(
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

    async def _list_tools(
        self, context: RequestContext, params: PaginatedRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_look(context) as chosen:
            session = None if chosen.session is None else chosen.session.executor.session
            return _complete(self._tools.page(session, params.cursor), chosen.meta)

    async def _call_tool(
        self, context: RequestContext, params: CallToolRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_call(context) as chosen:
            assert chosen.session is not None  # noqa: S101 - a call always has one
            begun = chosen.meta.get(SESSION_META)
            result = await self.caller.answer(chosen.session, context, params, begun)
            return _complete(result, chosen.meta)

    async def _list_prompts(
        self, context: RequestContext, params: PaginatedRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_look(context) as chosen:
            session = None if chosen.session is None else chosen.session.executor.session
            return _complete(self._prompts.page(session, params.cursor), chosen.meta)

    async def _get_prompt(
        self, context: RequestContext, params: GetPromptRequestParams
    ) -> dict[str, Any]:
        with self._choice.for_look(context) as chosen:
            session = None if chosen.session is None else chosen.session.executor.session
            found = self._prompts.get(session, params.name, params.arguments or {})
            return _complete(found, chosen.meta)


def _complete(result: dict[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    complete = {"resultType": "complete", **result}
    return {**complete, "_meta": {**result.get("_meta", {}), **meta}} if meta else complete
