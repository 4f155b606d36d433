"""The files of the workspace as MCP resources."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import ExecutorHandle, FileStat, Filesystem, Outcome, Status
from toolstile_plugins.mcp.server.calls import Caller
from toolstile_plugins.mcp.server.request import RequestContext, page_of
from toolstile_plugins.mcp.server.sessions import ServedSession
from toolstile_plugins.mcp.settings import ServeSettings
from toolstile_plugins.mcp.workspace_read import TOOL, WorkspaceRead, current_read

NOT_FOUND: Final = -32002
"""The older era's error code for a missing resource."""
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
UNREADABLE: Final = "The resource could not be read. Try again later."
NO_TOOL: Final = (
    "This server does not offer the tool read_file, by whose policies resources are read, so "
    "nobody can read them."
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
        """Return a page of the list."""
        files = await asyncio.to_thread(_files, executor)
        page, more = page_of(files, cursor, self._page_size, lambda file: file.path)
        return {"resources": [self._shape(file) for file in page], **more}

    def templates(self) -> dict[str, Any]:
        """Return the one template there is."""
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
        """Return the content of a resource, or the question for a person.

        It is a call of `read_file`, which policies decide on, and which is recorded.

        Args:
            session: The session that it is read in.
            context: The SDK's context.
            params: The params of the request.
            handle: What names the session, where the request has begun it.

        Raises:
            MCPError: When there is none of that URI, or it cannot be read.
        """
        uri = str(params.uri)
        path = self.path_of(uri)
        if path is None:
            raise _not_found(uri, context)
        call = self._caller.call(context, TOOL, {"path": path})
        read = WorkspaceRead(call.id, self._largest)
        with _reading(read):
            ended = await self._caller.outcome(session, context, call, params, handle)
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


@contextmanager
def _reading(read: WorkspaceRead) -> Generator[None]:
    token = current_read.set(read)
    try:
        yield
    finally:
        current_read.reset(token)


def _not_found(uri: str, context: RequestContext) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return MCPError(INVALID_PARAMS if is_modern else NOT_FOUND, "Resource not found", {"uri": uri})


def _workspace(executor: ExecutorHandle) -> Filesystem | None:
    # A protocol serves as the key, which mypy does not foresee for type[T].
    return executor.resources.get(Filesystem, None)  # type: ignore[type-abstract]


def _files(executor: ExecutorHandle) -> Sequence[FileStat]:
    files = _workspace(executor)
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
