"""The room of files, by their paths."""

from __future__ import annotations

from toolstile_hookspecs import ToolContext, tool

from .records import Share
from .state import found, rooms_of

TAGS = ("files",)


@tool(category="read", tags=TAGS)
def list_files(folder: str = "", *, context: ToolContext) -> list[str]:
    """List the paths of the files in a folder, or of all files."""
    return [path for path in sorted(rooms_of(context).files) if path.startswith(folder)]


@tool(category="read", tags=TAGS)
def search_files(query: str, *, context: ToolContext) -> list[str]:
    """List the paths of the files with a word in their path or text."""
    files = rooms_of(context).files.items()
    return [path for path, text in files if query.lower() in f"{path} {text}".lower()]


@tool(category="read", tags=TAGS)
def read_file(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    rooms = rooms_of(context)
    rooms.looked_at.append(path)
    return found(rooms.files, path)


@tool(category="write", tags=TAGS)
def write_file(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file; one that is there is replaced."""
    rooms_of(context).files[path] = text
    return f"Wrote {path}."


@tool(category="delete", tags=TAGS)
def delete_file(path: str, *, context: ToolContext) -> str:
    """Delete a file for good."""
    files = rooms_of(context).files
    found(files, path)
    del files[path]
    return f"Deleted {path}."


@tool(category="side_effect", tags=TAGS)
def share_file(path: str, address: str, access: str = "read", *, context: ToolContext) -> str:
    """Let somebody read a file, or change it with the access `write`."""
    rooms = rooms_of(context)
    found(rooms.files, path)
    rooms.file_shares.append(Share(path, address, access))
    return f"{address} may {access} {path}."


TOOLS = (list_files, search_files, read_file, write_file, delete_file, share_file)
