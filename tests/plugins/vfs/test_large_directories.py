"""Of a large directory no more is looked at than is shown, and it is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host
from toolstile_hookspecs import Binding, Filesystem, ToolCall
from toolstile_plugins.vfs import VfsToolsSection
from toolstile_plugins.vfs.backends.disk.store import DiskStore
from toolstile_plugins.vfs.nodes import Kind, Node
from toolstile_plugins.vfs.workspace import VirtualFilesystem

FILES = 3_000


class Counted(DiskStore):
    """Counts the names that are looked at, and the times that a directory is read."""

    looked = 0
    read = 0

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        self.read += 1
        return super().contents(path)

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        wanted = list(names)
        self.looked += len(wanted)
        yield from super().nodes(path, wanted)


@pytest.fixture
def store(root: Path) -> Iterator[Counted]:
    folder = root / "one"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"f{number:04}.txt").write_text(f"line {number}\n")
    with closing(VirtualFilesystem(Counted(root))) as files:
        store = files.store
        assert isinstance(store, Counted)
        yield store


@pytest.fixture
def tools(store: Counted) -> Iterator[Executor]:
    bound = (Binding.instance(Filesystem, VirtualFilesystem(store)),)  # type: ignore[type-abstract]
    with (
        Host(discover=False) as host,
        host.executor(tools=VfsToolsSection().tools, resources=bound) as tools,
    ):
        yield tools


def value(tools: Executor, name: str, **arguments: Any) -> Any:
    outcome = tools.dispatch(ToolCall(name, {"path": "one", **arguments}))
    assert outcome.success, outcome.text
    return outcome.result.value


@pytest.mark.slow
def test_a_page_of_a_listing_is_all_that_is_looked_at(tools: Executor, store: Counted) -> None:
    listing = value(tools, "list_directory", offset=1_001, limit=100)

    assert [entry.path for entry in listing.entries][::99] == ["one/f1000.txt", "one/f1099.txt"]
    assert (listing.first, listing.total) == (1_001, FILES)
    assert store.looked <= 500
    assert store.read == 1


@pytest.mark.slow
def test_all_pages_together_are_the_whole(tools: Executor) -> None:
    shown: list[str] = []
    while len(shown) < FILES:
        listing = value(tools, "list_directory", offset=len(shown) + 1)
        shown += [entry.path for entry in listing.entries]

    assert shown == [f"one/f{number:04}.txt" for number in range(FILES)]


def test_a_search_ends_where_its_page_is_full(tools: Executor, store: Counted) -> None:
    matches = value(tools, "grep_files", pattern="line", limit=10)

    assert [match.path for match in matches.matches] == [f"one/f000{n}.txt" for n in range(10)]
    assert store.looked <= 500


@pytest.mark.slow
def test_a_search_that_finds_little_looks_at_all(tools: Executor) -> None:
    matches = value(tools, "grep_files", pattern="line 2999$")

    assert [match.path for match in matches.matches] == ["one/f2999.txt"]


@pytest.mark.slow
def test_what_a_call_made_and_removed_is_listed_in_its_place(store: Counted) -> None:
    files = VirtualFilesystem(store).own_branch().resource
    files.write("one/f0500a.txt", "new")
    files.delete("one/f0501.txt")

    names = [stat.path for stat in files.list("one")]

    assert names[500:503] == ["one/f0500.txt", "one/f0500a.txt", "one/f0502.txt"]
    assert len(names) == FILES


def test_a_file_is_read_whole_that_is_longer_than_the_first_block(root: Path) -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(30_000)]
    (root / "long.txt").write_text("\n".join(lines))
    with closing(VirtualFilesystem.on_disk(root)) as files:
        found = [match.line for match in files.search(r"^line \d*99 ", "long.txt")]

    assert found == list(range(100, 30_001, 100))
