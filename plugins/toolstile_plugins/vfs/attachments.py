"""Contents beside a workspace: read by their paths, and shown by nothing else."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from typing import Final

from toolstile_plugins.vfs.nodes import InMemory, Node, file_node

_DIRECTORY: Final = ".outputs"  # there is none, unless somebody makes one
_MOST_BYTES: Final = 32 * 1024 * 1024
_NAME_CHARACTERS: Final = 16
_PATH: Final = re.compile(rf"{re.escape(_DIRECTORY)}/[0-9a-f]{{{_NAME_CHARACTERS}}}(\.[^/]*)?")
_READONLY: Final = 0o444


def is_attached(path: str) -> bool:
    """Tell whether a path is one that an attachment has, or had while it was kept."""
    return _PATH.fullmatch(path) is not None


class Attachments:
    """The contents of one workspace, the newest of them that fit; they go with it.

    They lie in memory, where neither another user nor a crash finds anything of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}

    def add(self, data: bytes, suffix: str) -> str:
        """Add a content, and return its path; what nobody has read cannot be guessed."""
        content = InMemory(data)
        path = f"{_DIRECTORY}/{content.digest[:_NAME_CHARACTERS]}{suffix}"
        node = file_node(content, datetime.now(UTC), _READONLY)
        with self._lock:
            self._nodes.pop(path, None)
            room = _MOST_BYTES - content.size
            for known in reversed(list(self._nodes)):
                room -= self._size_of(known)
                if room < 0:
                    del self._nodes[known]
            self._nodes[path] = node
        return path

    def get(self, path: str) -> Node | None:
        """Return what is at a path."""
        return self._nodes.get(path)

    def refusal(self, path: str) -> str | None:
        """Return why a path cannot be changed, where it is one of these."""
        if path not in self._nodes:
            return None
        return f"{path} lies beside the workspace and can only be read. A copy can be changed."

    def _size_of(self, path: str) -> int:
        content = self._nodes[path].content
        return 0 if content is None else content.size
