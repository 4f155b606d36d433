"""A file that a client reads as a resource: a call of `read_file` that passes all stages.

Policies decide on it, and it is recorded, like a call of the model. Only the handler's result
differs: the bytes of the file, for the client.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        # It runs again after a conflict.
        self.content, self.is_missing = None, False
        # A protocol serves as the key, which mypy does not foresee for type[T].
        files = context.resources.get(Filesystem, None)  # type: ignore[type-abstract]
        try:
            found = None if files is None else files.stat(path)
            if files is not None and found is not None and found.kind == "file":
                if found.size > self.largest:
                    return ToolResult.error(
                        f"{path} has {found.size:,} bytes; at most {self.largest:,} can be read."
                    )
                self.content = files.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            pass  # a path out of reach names no file
        except OSError as error:
            why = error.strerror or "it is out of reach"
            return ToolResult.error(f"{path} cannot be read: {why}.")
        if self.content is None:
            self.is_missing = True
            return ToolResult.error(NO_FILE)
        size = len(self.content)
        return ToolResult.ok(None, message=f"{path} was read as a resource ({size:,} bytes).")


current_read: Final = ContextVar[WorkspaceRead | None]("toolstile_mcp_read", default=None)
"""The read that is being dispatched."""
