"""Scans pass by what cannot be read; who asks for just that is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import pytest

from toolstile_plugins.vfs.backends.base import MemoryStore, conflict
from toolstile_plugins.vfs.nodes import InMemory, Kind, Node, file_node
from toolstile_plugins.vfs.workspace import VirtualFilesystem


class Forbidden(InMemory):
    """Content that nobody may read."""

    def open(self) -> BinaryIO:
        raise PermissionError("forbidden")


class Changing(InMemory):
    """Content that is changed just when it is read."""

    def open(self) -> BinaryIO:
        raise conflict(["changing.txt"])


class Guarded(MemoryStore):
    """Holds a directory that nobody may list."""

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        if path == "locked":
            raise PermissionError("forbidden")
        return super().contents(path)

    def nodes(self, path, names):
        for name, node in super().nodes(path, names):
            yield name, self._guarded(name) or node

    def look(self, path: str) -> Node | None:
        return self._guarded(path) or super().look(path)

    @staticmethod
    def _guarded(name: str) -> Node | None:
        kinds = {"forbidden.txt": Forbidden, "changing.txt": Changing}
        return file_node(kinds[name](b"needle")) if name in kinds else None


@pytest.fixture
def files() -> VirtualFilesystem:
    names = ("changing.txt", "forbidden.txt", "locked/a.txt", "open.txt")
    return VirtualFilesystem(Guarded(dict.fromkeys(names, b"needle")))


def test_a_search_passes_by(files: VirtualFilesystem) -> None:
    assert [match.path for match in files.search("needle")] == ["open.txt"]


def test_a_glob_passes_by(files: VirtualFilesystem) -> None:
    assert [each.path for each in files.glob("**/*.txt")] == [
        "changing.txt",
        "forbidden.txt",
        "open.txt",
    ]


def test_who_asks_for_it_is_told(files: VirtualFilesystem) -> None:
    with pytest.raises(PermissionError, match="forbidden"):
        list(files.search("needle", "forbidden.txt"))
    with pytest.raises(PermissionError, match="forbidden"):
        files.list("locked")
