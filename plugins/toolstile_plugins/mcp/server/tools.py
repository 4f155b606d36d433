"""Tools, prompts, and files of the workspace, as clients see them."""

from __future__ import annotations

import asyncio
import base64
import logging
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    PromptReference,
    ReadResourceRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import (
    DefinitionError,
    Dialect,
    ExecutorHandle,
    FileStat,
    Filesystem,
    HostHandle,
    Outcome,
    Prompt,
    PromptValidationError,
    Section,
    SessionProtocol,
    Status,
    Tool,
)
from toolstile_plugins.mcp.server.calls import Caller
from toolstile_plugins.mcp.server.request import RequestContext, page_of, refuse_cursor
from toolstile_plugins.mcp.server.sessions import ServedSession
from toolstile_plugins.mcp.settings import ServeSettings
from toolstile_plugins.mcp.workspace_read import TOOL, WorkspaceRead, current_read

NOT_FOUND: Final = -32002
"""The older era's error code for a missing resource."""
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
UNREADABLE: Final = "The resource could not be read. Try again later."
NO_TOOL: Final = (
    "This server does not offer the tool read_file, and resources are read by that tool's "
    "policies, so they cannot be read."
)
PARAMETER: Final = "path"
"""The template's placeholder for a file."""


class WorkspaceResources:
    """Lists and reads the files of a session's workspace."""

    def __init__(self, settings: ServeSettings, caller: Caller) -> None:
        self._caller = caller
        self._base = settings.workspace_uri
        self._page_size = settings.page_size
        self._largest = settings.max_resource

    async def page(self, executor: ExecutorHandle, cursor: str | None) -> dict[str, Any]:
        files = await asyncio.to_thread(_files, executor)
        page, more = page_of(files, cursor, self._page_size, lambda file: file.path)
        return {"resources": [self._shape(file) for file in page], **more}

    def templates(self) -> dict[str, Any]:
        shape = {
            "uriTemplate": f"{self._base}{{+{PARAMETER}}}",
            "name": "workspace-file",
            "title": "File of the workspace",
            "description": "A file of the workspace, by its path from there.",
        }
        return {"resourceTemplates": [shape]}

    async def read(
        self,
        session: ServedSession,
        context: RequestContext,
        params: ReadResourceRequestParams,
        handle: str | None = None,
    ) -> dict[str, Any]:
        """Return the content of a resource, or the question for a person, like `Caller.answer`.

        It is a call of `read_file`: policies decide on it, and it is recorded. Raises `MCPError` if
        no file has that URI, or it cannot be read.
        """
        uri = str(params.uri)
        path = self.path_of(uri)
        if path is None:
            raise _not_found(uri, context)
        call = self._caller.call(context, TOOL, {"path": path})
        read = WorkspaceRead(call.id, self._largest)
        token = current_read.set(read)
        try:
            ended = await self._caller.outcome(session, context, call, params, handle)
        finally:
            current_read.reset(token)
        if isinstance(ended, dict):
            return ended
        if isinstance(ended, Outcome) and ended.success and read.content is not None:
            return {"contents": [_held(uri, path, read.content)]}
        if read.is_missing or (isinstance(ended, Outcome) and ended.status is Status.INVALID):
            raise _not_found(uri, context)
        told = ended.text if isinstance(ended, Outcome) else UNREADABLE
        if isinstance(ended, Outcome) and ended.status is Status.UNKNOWN_TOOL:
            told = NO_TOOL
        raise MCPError(INVALID_PARAMS, told, {"uri": uri})

    async def paths(self, executor: ExecutorHandle, beginning: str) -> list[str]:
        """Return the paths with a given beginning, in order."""
        files = await asyncio.to_thread(_files, executor)
        return [file.path for file in files if file.path.startswith(beginning)]

    def path_of(self, uri: str) -> str | None:
        """Return the path that a URI stands for, None for a URI from elsewhere."""
        return unquote(uri.removeprefix(self._base)) if uri.startswith(self._base) else None

    def _shape(self, file: FileStat) -> dict[str, Any]:
        name = file.path.rpartition("/")[2]
        shape: dict[str, Any] = {
            "uri": self._base + quote(file.path),
            "name": file.path,
            "title": name,
            "description": f"{file.path} in the workspace",
            "size": file.size,
        }
        mime_type = mimetypes.guess_type(name)[0]
        return shape if mime_type is None else {**shape, "mimeType": mime_type}


def _not_found(uri: str, context: RequestContext) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return MCPError(INVALID_PARAMS if is_modern else NOT_FOUND, "Resource not found", {"uri": uri})


def _files(executor: ExecutorHandle) -> Sequence[FileStat]:
    # A protocol serves as the key, which mypy does not foresee for type[T].
    files = executor.resources.get(Filesystem, None)  # type: ignore[type-abstract]
    if files is None:
        return []
    found = (file for file in files.glob("**") if file.kind == "file")
    return sorted(found, key=lambda file: file.path)


def _held(uri: str, path: str, content: bytes) -> dict[str, Any]:
    mime_type = mimetypes.guess_type(path)[0]
    if b"\0" not in content:
        with suppress(UnicodeDecodeError):
            return {"uri": uri, "mimeType": mime_type or TEXT, "text": content.decode()}
    return {"uri": uri, "mimeType": mime_type or BYTES, "blob": base64.b64encode(content).decode()}


def instructions_of(prompt: Prompt) -> str | None:
    """Return the text about the tools for a model, without sections that lack a value."""
    texts: list[str] = []
    for section in prompt.sections:
        with suppress(PromptValidationError):
            texts.append(_only(prompt, section).render().text)
    return "\n\n".join(filter(None, texts)) or None


class PromptList:
    """Describes and renders the prompt as a whole and each of its sections."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host

    def page(self, executor: ExecutorHandle | None, cursor: str | None) -> dict[str, Any]:
        """Return the whole list, like that of the tools."""
        refuse_cursor(cursor)
        return {"prompts": [*self._shapes(None if executor is None else executor.session)]}

    def get(
        self, executor: ExecutorHandle, name: str, arguments: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return a prompt as messages; `MCPError` if it is unknown or an argument is missing."""
        prompt = self.named(executor.session, name)
        missing = [argument for argument in _placeholders(prompt) if argument not in arguments]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Prompt {name!r} needs: {', '.join(missing)}.")
        try:
            bound = prompt.bind(dict(arguments))
            text = bound.render(executor.session, executor.resources).text
        except PromptValidationError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def named(self, session: SessionProtocol | None, name: str) -> Prompt:
        """Return the prompt of a name; raise `MCPError` if it is unknown."""
        prompt = self._host.prompt
        if name == _whole(prompt):
            return prompt
        for section in _enabled(prompt, session):
            if section.key == name:
                return _only(prompt, section)
        raise MCPError(INVALID_PARAMS, f"The prompt {name!r} is unknown. List the prompts.")

    def _shapes(self, session: SessionProtocol | None) -> Iterator[dict[str, Any]]:
        prompt = self._host.prompt
        sections = [*_enabled(prompt, session)]
        if sections:
            yield _shape(_whole(prompt), "All sections", "Everything about all tools.", prompt)
        for section in sections:
            told = f"How to use the tools of {section.title}." if section.tools else section.title
            yield _shape(section.key, section.title, told, _only(prompt, section))


def _shape(name: str, title: str, description: str, prompt: Prompt) -> dict[str, Any]:
    shape: dict[str, Any] = {"name": name, "title": title, "description": description}
    arguments = [{"name": placeholder, "required": True} for placeholder in _placeholders(prompt)]
    return {**shape, "arguments": arguments} if arguments else shape


def _whole(prompt: Prompt) -> str:
    # No section's key has a colon.
    return f"{prompt.ns}:{prompt.key}"


def _only(prompt: Prompt, section: Section) -> Prompt:
    return replace(prompt, template=replace(prompt.template, sections=(section,)), further=())


def _enabled(prompt: Prompt, session: SessionProtocol | None) -> Iterator[Section]:
    for place in prompt.places(session):
        if place.depth == 1:
            yield place.section


def _placeholders(prompt: Prompt) -> list[str]:
    found: dict[str, None] = {}
    for section in prompt.everywhere():
        for name in getattr(section, "placeholders", ()):
            if name not in prompt.params:
                found[name] = None
    return [*found]


log = logging.getLogger("toolstile.mcp")

DIALECT = "mcp"


class ToolList:
    """Describes the tools that can be called, in the order of the prompt."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._dialect: Dialect = host.dialect(DIALECT)
        self._shapes: WeakKeyDictionary[Tool[Any, Any], dict[str, Any] | None] = WeakKeyDictionary()

    def page(self, executor: ExecutorHandle | None, cursor: str | None) -> dict[str, Any]:
        """Return the whole list, because many clients read the first page only.

        `executor` is None for a new session. A cursor raises `MCPError`.
        """
        refuse_cursor(cursor)
        prompt = (executor or self._host).prompt
        tools = prompt.tools(None if executor is None else executor.session)
        return {"tools": [shape for shape in map(self._shape, tools) if shape is not None]}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's params, None if the tool is unknown."""
        tool = self._host.catalog.get(name)
        shape = None if tool is None else self._shape(tool)
        return None if shape is None else cast("Mapping[str, Any]", shape["inputSchema"])

    def _shape(self, tool: Tool[Any, Any]) -> dict[str, Any] | None:
        """Return a tool as clients see it, None if its params have no JSON Schema."""
        if tool not in self._shapes:
            try:
                (self._shapes[tool],) = self._dialect.schemas([tool])
            except DefinitionError as error:
                self._shapes[tool] = None
                fault = str(error).removeprefix(f"Tool {tool.name!r}: ")
                log.warning("%s is left out of the list of tools: %s", tool.name, fault)
        return self._shapes[tool]


# --- Completions


MOST: Final = 100
"""The maximum number of values in the protocol."""


class Completions:
    """Suggests paths for the template of the workspace, and nothing for arguments of prompts."""

    def __init__(self, prompts: PromptList, workspace: WorkspaceResources | None) -> None:
        self._prompts = prompts
        self._workspace = workspace

    async def of(self, executor: ExecutorHandle, params: CompleteRequestParams) -> dict[str, Any]:
        """Return the values with the typed beginning; `MCPError` for an unknown reference."""
        if isinstance(params.ref, PromptReference):
            self._prompts.named(executor.session, params.ref.name)
            values: list[str] = []
        elif self._workspace is None or self._workspace.path_of(params.ref.uri) is None:
            told = f"The template {params.ref.uri!r} is unknown. List the templates."
            raise MCPError(INVALID_PARAMS, told)
        elif params.argument.name != PARAMETER:
            values = []
        else:
            values = await self._workspace.paths(executor, params.argument.value)
        return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}
