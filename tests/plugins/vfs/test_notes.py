"""Files that listings and searches leave out cost only themselves, and are told of."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import Prompt, SupportsNotes, ToolCall
from toolstile_plugins.vfs import (
    Mount,
    VfsConfig,
    VfsToolsSection,
    VirtualFilesystem,
    open_workspace,
)
from toolstile_plugins.vfs.backends.mounts import Source
from toolstile_plugins.vfs.workspace import WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Ask = Callable[..., str]


def notes_of(branch: WorkspaceBranch) -> list[str]:
    assert isinstance(branch.resource, SupportsNotes)
    return list(branch.resource.notes())


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Calls one tool of a workspace; returns what a model reads."""
    with ExitStack() as stack:
        host = stack.enter_context(Host(discover=False))

        def call(files: VirtualFilesystem, name: str, /, **arguments: Any) -> str:
            section = VfsToolsSection(filesystem=files, policies=())
            prompt = Prompt.of("tests", "notes", (section,))
            with host.executor(prompt=prompt) as tools:
                outcome = tools.dispatch(ToolCall(name, arguments))
            assert outcome.success, outcome.text
            return outcome.text

        yield call


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., VirtualFilesystem]]:
    """Mounts an archive with these names at `docs`, beside a file of the workspace's own."""
    with ExitStack() as stack:

        def open_(*names: str) -> VirtualFilesystem:
            with zipfile.ZipFile(tmp_path / "source.zip", "w") as archive:
                for name in names:
                    archive.writestr(name, "needle\n")
            mount = Mount(source=str(tmp_path / "source.zip"), target="docs")
            files = stack.enter_context(closing(open_workspace(VfsConfig(mounts=(mount,)))))
            files.write("own.txt", "needle\n")
            return files

        yield open_


class TestNamesThatNoPathCanHold:
    def test_are_counted_with_the_reasons(
        self, disk: VirtualFilesystem, root: Path, ask: Ask
    ) -> None:
        for name in (b"bell\x07", b"back\\slash", b"\xff.txt", b".toolstile"):
            (root / "d").mkdir(exist_ok=True)
            (root / "d" / os.fsdecode(name)).touch()
        (root / "d" / "plain.txt").touch()

        assert ask(disk, "list_directory", path="d") == (
            "d holds 1 entry:\nNote: 4 entries of d are left out, as no path here can lead there: "
            "'.toolstile' (the workspace keeps this name for itself), 'back\\\\slash' (it has a "
            "backslash), 'bell\\x07' (it has a control character), '\\udcff.txt' (it has bytes "
            "that are not UTF-8).\nplain.txt  0 bytes"
        )

    def test_of_many_a_few_are_shown(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        for number in range(30):
            (root / f"{number:02}\x07").touch()
        branch = branch_of(disk)
        branch.resource.list()

        (note,) = notes_of(branch)
        assert note.startswith("30 entries of the root are left out")
        assert note.endswith("'04\\x07' (it has a control character) and 25 more.")

    def test_the_workspaces_own_directory_is_not_told_of(
        self, disk: VirtualFilesystem, branch_of: Branch
    ) -> None:
        disk.write("a.txt", "one")
        branch = branch_of(disk)
        branch.resource.list()

        assert notes_of(branch) == []


class TestArchives:
    def test_a_name_that_is_a_file_and_a_directory_costs_what_lies_beneath(
        self, mounted: Callable[..., VirtualFilesystem], ask: Ask
    ) -> None:
        files = mounted("a", "a/b.txt", "c.txt")

        assert "in 3 files" in ask(files, "grep_files", pattern="needle")
        assert ask(files, "list_directory", path="docs") == (
            "docs holds 2 entries:\nNote: 1 entry of docs is left out, as no path here can lead "
            "there: 'a/b.txt' (a is a file).\na  7 bytes  (read-only)\nc.txt  7 bytes  (read-only)"
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "directory", "told"),
        [
            ("/absolute.txt", "docs", "'/absolute.txt' (it has an empty part, . or ..)"),
            ("../up.txt", "docs", "'../up.txt' (it has an empty part, . or ..)"),
            ("d/../../up.txt", "docs/d", "'../../up.txt' (it has an empty part, . or ..)"),
            ("d//twice.txt", "docs/d", "'/twice.txt' (it has an empty part, . or ..)"),
            ("d/bell\x07", "docs/d", "'bell\\x07' (it has a control character)"),
            ("x" * 256, "docs", "(it is too long)"),
        ],
    )
    def test_an_odd_name_costs_itself(
        self,
        mounted: Callable[..., VirtualFilesystem],
        ask: Ask,
        name: str,
        directory: str,
        told: str,
    ) -> None:
        files = mounted(name, "c.txt")

        assert told in ask(files, "list_directory", path=directory)
        found = ask(files, "grep_files", pattern="needle")
        assert found.endswith("\nown.txt:1: needle\ndocs/c.txt:1: needle")
        assert ask(files, "glob_files", pattern="**/*.txt").endswith("\nown.txt\ndocs/c.txt")

    @pytest.mark.parametrize("mtime", [2**62, -(2**62)])
    def test_a_time_that_is_none_costs_itself(self, tmp_path: Path, ask: Ask, mtime: int) -> None:
        with tarfile.open(tmp_path / "source.tar", "w", format=tarfile.GNU_FORMAT) as archive:
            for name in ("odd.txt", "plain.txt"):
                info = tarfile.TarInfo(name)
                info.size, info.mtime = 7, mtime if name == "odd.txt" else 0
                archive.addfile(info, io.BytesIO(b"needle\n"))
        mount = Mount(source=str(tmp_path / "source.tar"), target="docs")
        with closing(open_workspace(VfsConfig(mounts=(mount,)))) as files:
            assert files.stat("docs/odd.txt").modified is None
            assert files.stat("docs/plain.txt").modified is not None
            assert "2 lines" in ask(files, "grep_files", pattern="needle")

    def test_a_part_of_an_archive_tells_of_its_own(
        self, mounted: Callable[..., VirtualFilesystem], tmp_path: Path, ask: Ask
    ) -> None:
        mounted("part/bell\x07", "part/c.txt", "other\x07")
        mount = Mount(source=f"zip://part::{tmp_path}/source.zip", target="docs")
        with closing(open_workspace(VfsConfig(mounts=(mount,)))) as files:
            text = ask(files, "list_directory", path="docs")

        assert "1 entry of docs is left out" in text
        assert "'bell\\x07'" in text


class TestWhatCannotBeRead:
    def test_a_file_is_not_searched_and_named(
        self,
        mounted: Callable[..., VirtualFilesystem],
        ask: Ask,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        files = mounted("bad.txt", "good.txt")
        read = Source.read

        def failing(source: Source, path: str) -> bytes:
            if path == "bad.txt":
                raise OSError("The mount 'docs' cannot be read at bad.txt: it is damaged.")
            return read(source, path)

        monkeypatch.setattr(Source, "read", failing)

        assert ask(files, "grep_files", pattern="needle") == (
            "2 lines in the workspace match needle, in 2 files:\nNote: 1 file was not searched: "
            "docs/bad.txt (The mount 'docs' cannot be read at bad.txt: it is damaged).\n"
            "own.txt:1: needle\ndocs/good.txt:1: needle"
        )

    def test_a_damaged_archive_entry_is_not_searched_and_named(
        self, mounted: Callable[..., VirtualFilesystem], tmp_path: Path, ask: Ask
    ) -> None:
        files = mounted("bad.txt", "good.txt")
        archive = tmp_path / "source.zip"
        archive.write_bytes(archive.read_bytes().replace(b"needle\n", b"noodle\n", 1))

        text = ask(files, "grep_files", pattern="needle")
        assert "Bad CRC-32" in text
        assert text.endswith("\nown.txt:1: needle\ndocs/good.txt:1: needle")

    @pytest.mark.parametrize("tool", ["glob_files", "grep_files"])
    def test_a_directory_is_left_out_and_named(
        self,
        mounted: Callable[..., VirtualFilesystem],
        ask: Ask,
        monkeypatch: pytest.MonkeyPatch,
        tool: str,
    ) -> None:
        files = mounted("c.txt")

        def failing(source: Source, path: str) -> Any:
            raise OSError("The mount 'docs' cannot be read: the line is down.")

        monkeypatch.setattr(Source, "contents", failing)

        text = ask(files, tool, pattern="**" if tool == "glob_files" else "needle")
        assert "1 directory was left out: docs (The mount 'docs' cannot be read" in text
        assert "own.txt" in text
