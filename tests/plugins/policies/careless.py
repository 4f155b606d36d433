"""Tools that take a path in every way in which some tool does; as a program, an MCP server of them.

They honour arguments that no schema declares, too. Only what rules them keeps a file from them.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

NAMES = ("path", "paths", "file", "files", "filename", "target", "destination", "where", "page")


class CarelessFiles:
    """The files of a directory.

    Args:
        root: The directory, which `~` and `$HOME` stand for, too.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def read_text_file(self, **arguments: Any) -> str:
        """Return the text of every file that is named."""
        return "".join(self.find(path).read_text() for path in named(arguments))

    read_multiple_files = read_text_file

    def write_file(self, content: str = "x", **arguments: Any) -> str:
        """Write every file that is named."""
        for path in named(arguments):
            self.find(path).write_text(content)
        return "written"

    def edit_file(self, edits: Any = None, **arguments: Any) -> str:
        """Change every file that is named."""
        return self.write_file("edited", **arguments)

    write_files = save = put = keep = edit_file

    def log(self, path: str = "a.txt", **arguments: Any) -> str:
        """Change every file that is named, or the usual one."""
        return self.write_file("logged", path=path, **arguments)

    def move_file(self, source: str = "", destination: str = "", **arguments: Any) -> str:
        """Move a file onto another, or into a directory."""
        at, to = self.find(source), self.find(destination)
        at.replace(to / at.name if to.is_dir() else to)
        return self.write_file("moved", **arguments)

    def find(self, path: str) -> Path:
        """Return the file that a path may mean, one that is there if any is."""
        plain = unquote(path).strip().strip("\"'`").replace("\\", "/")
        if plain.lower().startswith("file:"):
            plain = plain[5:].removeprefix("//")
        for home in ("~", "$HOME", "${HOME}", "%HOME%"):
            if plain.startswith(f"{home}/"):
                plain = str(self.root) + plain.removeprefix(home)
        there = os.path.normpath(self.root / plain)
        here = Path("/")
        for name in Path(there).parts[1:]:
            here = self._within(here, name)
        return here

    def _within(self, folder: Path, name: str) -> Path:
        if (folder / name).exists() or not folder.is_dir():
            return folder / name
        alike = [each for each in sorted(folder.iterdir()) if folded(each.name) == folded(name)]
        return next(iter(alike or folder.glob(name)), folder / name)


def folded(name: str) -> str:
    """Return a name as a careless tool compares it."""
    plain = unicodedata.normalize("NFKC", name).casefold().replace("\u200b", "")
    return unicodedata.normalize("NFKC", plain).rstrip(" .")


def named(arguments: Any, by: str = "") -> Iterator[str]:
    """Yield all that looks like a path, whatever it is called."""
    if isinstance(arguments, str):
        if any(by.lower().replace("-", "_").endswith(name) for name in NAMES):
            yield arguments
    elif isinstance(arguments, list):
        for item in arguments:
            yield from named(item, by)
    elif isinstance(arguments, dict):
        for name, value in arguments.items():
            if by == "files" and isinstance(value, str) and name not in {"path", "content"}:
                yield name
            yield from named(value, name)


PATH = {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "read_text_file": {"properties": {"path": PATH}, "required": ["path"]},
    "read_multiple_files": {"properties": {"paths": {"type": "array", "items": PATH}}},
    "write_file": {"properties": {"path": PATH, "content": {"type": "string"}}},
    "edit_file": {"properties": {"path": PATH, "edits": {"type": "array"}}},
    "move_file": {"properties": {"source": PATH, "destination": PATH}},
    "write_files": {
        "properties": {"files": {"type": "array", "items": {"$ref": "#/$defs/file"}}},
        "$defs": {"file": {"properties": {"path": PATH, "content": {"type": "string"}}}},
    },
    "save": {"properties": {"files": {"type": "object", "additionalProperties": PATH}}},
    "log": {"properties": {"path": {"type": "string", "default": "a.txt"}}},
    "put": {"properties": {"where": {"anyOf": [{"type": "string", "format": "file-path"}, {}]}}},
    "keep": {"properties": {"page": PATH}},
}


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a tool, which allows any other argument, too."""
    return {"type": "object", **SCHEMAS[name]}


def serve(root: Path) -> None:
    """Serve the tools over standard input and output."""
    files = CarelessFiles(root)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "There is no such method."}}
        match message["method"]:
            case "initialize":
                about = {"name": "careless", "version": "1"}
                version = message["params"]["protocolVersion"]
                capabilities: dict[str, Any] = {"tools": {}}
                told = {"protocolVersion": version, "capabilities": capabilities}
                answer = {"result": {**told, "serverInfo": about}}
            case "tools/list":
                tools = [
                    {"name": name, "inputSchema": schema_of(name), "annotations": hints_of(name)}
                    for name in SCHEMAS
                ]
                answer = {"result": {"tools": tools}}
            case "tools/call":
                answer = {"result": called(files, message["params"])}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


def hints_of(name: str) -> dict[str, bool]:
    """Return the annotations of a tool."""
    return {"readOnlyHint": True} if name.startswith("read") else {"destructiveHint": True}


def called(files: CarelessFiles, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call."""
    try:
        text = getattr(files, params["name"])(**params.get("arguments", {}))
    except (OSError, ValueError, TypeError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}]}


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
