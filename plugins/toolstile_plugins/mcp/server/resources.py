"""The files of the workspace as MCP resources."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import ExecutorHandle, FileStat, Filesystem
from toolstile_plugins.mcp.server.request import page_of
from toolstile_plugins.mcp.settings import ServeSettings

NOT_FOUND: Final = -32002
"""The older era's error code for a missing resource."""
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
PARAMETER: Final = "path"
"""The template's placeholder for a file."""


class WorkspaceResources:
    """Lists and reads the files of a session's workspace."""

    def __init__(self, settings: ServeSettings) -> None:
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

    async def read(self, executor: ExecutorHandle, uri: str, version: str) -> dict[str, Any]:
        """Return the content of a resource.

        Raises:
            MCPError: When there is none of that URI, or it cannot be read.
        """
        path = self.path_of(uri)
        found = None if path is None else await asyncio.to_thread(self._content, executor, path)
        if found is None or path is None:
            code = INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        if isinstance(found, str):
            raise MCPError(INVALID_PARAMS, found, {"uri": uri})
        return {"contents": [_held(uri, path, found)]}

    async def paths(self, executor: ExecutorHandle, beginning: str) -> list[str]:
        """Return the paths with a given beginning, in order."""
        files = await asyncio.to_thread(_files, executor)
        return [file.path for file in files if file.path.startswith(beginning)]

    def path_of(self, uri: str) -> str | None:
        """Return the path that a URI stands for, None for a URI from elsewhere."""
        return unquote(uri.removeprefix(self._base)) if uri.startswith(self._base) else None

    def uri_of(self, path: str) -> str:
        """Return the URI of a file."""
        return self._base + quote(path)

    def _shape(self, file: FileStat) -> dict[str, Any]:
        name = file.path.rpartition("/")[2]
        shape: dict[str, Any] = {
            "uri": self.uri_of(file.path),
            "name": file.path,
            "title": name,
            "description": f"{file.path} in the workspace",
            "size": file.size,
        }
        mime_type = mimetypes.guess_type(name)[0]
        return shape if mime_type is None else {**shape, "mimeType": mime_type}

    def _content(self, executor: ExecutorHandle, path: str) -> bytes | str | None:
        """Return a file's content, the reason that it cannot be read, or None without a file."""
        files = _workspace(executor)
        if files is None:
            return None
        try:
            found = files.stat(path)
            if found.kind != "file":
                return None
            if found.size > self._largest:
                return f"{path} has {found.size:,} bytes; at most {self._largest:,} can be read."
            return files.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            return None
        except OSError as error:
            return f"{path} cannot be read: {error.strerror or 'it is out of reach'}."


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
