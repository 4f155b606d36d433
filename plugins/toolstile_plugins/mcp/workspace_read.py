"""A file that a client reads as a resource: a call of `read_file` that passes all stages.

Policies decide on it, and it is recorded, like a call of the model. Only the handler's result
differs: the bytes of the file, for the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from toolstile_hookspecs import Filesystem, ToolContext, ToolResult

TOOL: Final = "read_file"
NO_FILE: Final = "The file does not exist."


@dataclass(slots=True)
class WorkspaceRead:
    """A read in progress, made as the call with this id."""

    call_id: str
    largest: int  # the most bytes to read
    content: bytes | None = None  # the content of the file, once it was read
    is_missing: bool = False  # whether the file does not exist

    def handler(self, params: Any, *, context: ToolContext) -> ToolResult[None]:
        """Read the file that the params name, in place of the tool's own handler."""
        if isinstance(params, Mapping):
            path = str(cast("Mapping[str, Any]", params)["path"])
        else:
            path = str(params.path)
        # A protocol serves as the key, which mypy does not foresee for type[T].
        files = context.resources.get(Filesystem, None)  # type: ignore[type-abstract]
        found = None if files is None else content_of(files, path, self.largest)
        self.is_missing = found is None
        if not isinstance(found, bytes):
            return ToolResult.error(found or NO_FILE)
        self.content = found
        return ToolResult.ok(None, message=f"{path} was read as a resource ({len(found):,} bytes).")


current_read: Final = ContextVar[WorkspaceRead | None]("toolstile_mcp_read", default=None)
"""The read that is being dispatched."""


def handler_of_read(context: ToolContext) -> Callable[..., ToolResult[None]] | None:
    """Return the handler of the read behind a call, None for a call of the model."""
    read, call = current_read.get(), context.tool_call
    if read is None or call is None or call.id != read.call_id:
        return None
    return read.handler


def content_of(files: Filesystem, path: str, largest: int) -> bytes | str | None:
    """Return a file's content, the reason that it cannot be read, or None without a file."""
    try:
        found = files.stat(path)
        if found.kind != "file":
            return None
        if found.size > largest:
            return f"{path} has {found.size:,} bytes; at most {largest:,} can be read."
        return files.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
        return None
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or 'it is out of reach'}."
