"""Files from elsewhere in the tree: what is shown, what is refused, and what is said then."""

from __future__ import annotations

import builtins
import importlib
import io
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import fsspec
import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ConfigurationError,
    FileStat,
    Prompt,
    ResourceError,
    Status,
    ToolCall,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_hookspecs.testing import FilesystemContract
from toolstile_plugins.vfs import (
    Mount,
    VfsConfig,
    VfsToolsSection,
    VirtualFilesystem,
    open_workspace,
)
from toolstile_plugins.vfs.backends.mounts import MountedStore, Source
from toolstile_plugins.vfs.workspace import WorkspaceBranch

CONTENT = {
    "index.md": "# Docs\n",
    "guide/first.md": "Begin here.\n",
    "guide/second.md": "Go on.\n",
    "guide/draft.tmp": "never mind",
    "code/app.py": "print('hi')\n",
}


def paths_of(files: VirtualFilesystem, pattern: str = "**", path: str = "") -> list[str]:
    return sorted(each.path for each in files.glob(pattern, path) if each.kind == "file")


@pytest.fixture
def directory(tmp_path: Path) -> str:
    for name, text in CONTENT.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path / "source")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "source.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in CONTENT.items():
            archive.writestr(name, text)
    return str(path)


@pytest.fixture
def tarball(tmp_path: Path) -> str:
    path = tmp_path / "source.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in CONTENT.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return str(path)


@pytest.fixture
def memory() -> Iterator[str]:
    files: Any = fsspec.filesystem("memory")
    for name, text in CONTENT.items():
        files.pipe_file(f"/toolstile-tests/{name}", text.encode())
    yield "memory://toolstile-tests"
    files.rm("/toolstile-tests", recursive=True)


@pytest.fixture(params=["directory", "archive", "tarball", "memory"])
def source(request: pytest.FixtureRequest) -> str:
    """The same files in each kind of source."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def mounted() -> Iterator[Callable[..., VirtualFilesystem]]:
    """Opens a workspace with one mount, at `docs` unless told otherwise."""
    with ExitStack() as stack:

        def open_(source: str, root: Path | None = None, **options: Any) -> VirtualFilesystem:
            mount = Mount(source=source, target=options.pop("target", "docs"), **options)
            config = VfsConfig(root=root, mounts=(mount,))
            return stack.enter_context(closing(open_workspace(config)))

        yield open_


@pytest.fixture
def ask() -> Iterator[Callable[..., Any]]:
    """Calls one tool of a workspace."""
    with ExitStack() as stack:

        def call(files: VirtualFilesystem, name: str, /, **arguments: Any) -> Any:
            config = VfsConfig(confirm_deletes=False)
            section = VfsToolsSection(config=config, filesystem=files, policies=())
            host = stack.enter_context(Host(discover=False))
            prompt = Prompt.of("tests", "mounts", (section,))
            tools = stack.enter_context(host.executor(prompt=prompt))
            return tools.dispatch(ToolCall(name, arguments))

        yield call


# --- what is shown ---


def test_a_source_is_part_of_the_tree(
    mounted: Callable[..., VirtualFilesystem], source: str
) -> None:
    files = mounted(source)

    assert paths_of(files) == sorted(f"docs/{name}" for name in CONTENT)
    assert [each.path for each in files.list()] == ["docs"]
    assert files.read("docs/guide/first.md") == "Begin here.\n"
    assert files.stat("docs/guide/first.md").size == len("Begin here.\n")
    assert files.stat("docs/guide").kind == "directory"
    assert not files.exists("docs/guide/third.md")
    assert [(each.path, each.line) for each in files.search("Go")] == [("docs/guide/second.md", 1)]
    with files.open("docs/index.md") as stream:
        assert stream.read() == b"# Docs\n"


def test_include_and_exclude_choose_what_is_shown(
    mounted: Callable[..., VirtualFilesystem], source: str
) -> None:
    files = mounted(source, include=["**/*.md", "code/**"], exclude=["index.md", "code"])

    assert paths_of(files) == ["docs/guide/first.md", "docs/guide/second.md"]
    assert not files.exists("docs/code/app.py")


def test_a_single_file_can_be_mounted(
    mounted: Callable[..., VirtualFilesystem], directory: str
) -> None:
    files = mounted(f"{directory}/index.md", target="manual/start.md")

    assert paths_of(files) == ["manual/start.md"]
    assert files.read("manual/start.md") == "# Docs\n"


def test_a_part_of_an_archive_can_be_mounted(
    mounted: Callable[..., VirtualFilesystem], archive: str
) -> None:
    assert paths_of(mounted(f"zip://guide::{archive}", include=["*.md"])) == [
        "docs/first.md",
        "docs/second.md",
    ]


def test_what_the_workspace_has_at_the_target_is_hidden(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path
) -> None:
    (tmp_path / "ws/docs").mkdir(parents=True)
    (tmp_path / "ws/docs/own.txt").write_text("hidden")
    (tmp_path / "ws/other.txt").write_text("shown")
    files = mounted(directory, tmp_path / "ws")

    assert not files.exists("docs/own.txt")
    assert files.read("other.txt") == "shown"
    assert (tmp_path / "ws/docs/own.txt").read_text() == "hidden"


def test_a_mount_is_shown_as_read_only(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], source: str
) -> None:
    files = mounted(source)

    assert files.is_readonly("docs/index.md")
    assert not files.is_readonly("new.txt")
    assert "index.md  7 bytes  (read-only)" in ask(files, "list_directory", path="docs").text


def test_workspaces_do_not_close_the_sources_of_one_another(
    mounted: Callable[..., VirtualFilesystem], source: str
) -> None:
    first, second = mounted(source), mounted(source)
    first.close()

    assert second.read("docs/guide/first.md") == "Begin here.\n"


# --- what is refused ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "docs/index.md", "content": "x", "overwrite": True}),
        ("write_file", {"path": "docs/new.md", "content": "x"}),
        ("edit_file", {"path": "docs/index.md", "old_text": "D", "new_text": "d"}),
        ("delete_file", {"path": "docs/index.md"}),
        ("delete_file", {"path": "docs", "recursive": True}),
        ("copy_file", {"source": "docs/index.md", "target": "docs/copy.md"}),
        ("move_file", {"source": "docs/index.md", "target": "mine.md"}),
    ],
)
def test_nothing_in_a_mount_can_be_changed(
    mounted: Callable[..., VirtualFilesystem],
    ask: Callable[..., Any],
    source: str,
    name: str,
    arguments: dict[str, Any],
) -> None:
    outcome = ask(mounted(source), name, **arguments)

    assert outcome.status is Status.FAILED
    assert "lies in the mount 'docs', which is read-only." in outcome.text
    assert "It stays unchanged; a copy of it, at a path outside of the mount, can" in outcome.text


def test_a_mount_is_named_among_all_that_stands_against_a_call(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], directory: str
) -> None:
    text = ask(mounted(directory), "write_file", path="docs/index.md", content="x").text

    assert "docs/index.md already exists" in text
    assert "docs/index.md is read-only." in text


@pytest.mark.slow
def test_a_mounted_file_can_be_copied_and_the_copy_changed(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], source: str
) -> None:
    files = mounted(source)

    assert ask(files, "copy_file", source="docs/guide", target="mine").success
    edit = {"path": "mine/first.md", "old_text": "here", "new_text": "there"}
    assert ask(files, "edit_file", **edit).success
    assert files.read("mine/first.md") == "Begin there.\n"
    assert files.read("docs/guide/first.md") == "Begin here.\n"


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_copy_of_a_mounted_file_stays_when_its_source_changes_or_goes(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path, where: str
) -> None:
    root = tmp_path / "ws" if where == "disk" else None
    (tmp_path / "ws").mkdir()
    files = mounted(directory, root)
    files.copy("docs/guide", "mine")

    (Path(directory) / "guide" / "first.md").write_text("Something else.\n")
    assert files.read("mine/first.md") == "Begin here.\n"
    (Path(directory) / "guide" / "first.md").unlink()
    assert files.read("mine/first.md") == "Begin here.\n"


def test_a_mounted_file_that_cannot_be_read_is_not_copied(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], archive: str
) -> None:
    path = Path(archive)
    path.write_bytes(path.read_bytes().replace(b"Begin", b"BEGIN"))
    files = mounted(archive)

    text = ask(files, "copy_file", source="docs/guide", target="mine").text
    assert text.startswith("Cannot copy docs/guide to mine: The mount 'docs'")
    assert "Bad CRC" in text
    assert not files.exists("mine")


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_what_lies_beside_a_mount_can_be_changed(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path, where: str
) -> None:
    root = tmp_path / "ws" if where == "disk" else None
    (tmp_path / "ws").mkdir()
    files = mounted(directory, root, target="lib/vendor/docs")

    files.write("lib/vendor/mine.txt", "x")
    files.write("lib/mine.txt", "y")
    files.mkdir("lib/empty")

    assert paths_of(files, "*", "lib") == ["lib/mine.txt"]
    assert paths_of(files, "*", "lib/vendor") == ["lib/vendor/mine.txt"]
    if root is not None:
        assert (root / "lib/vendor/mine.txt").read_text() == "x"
        assert not (root / "lib/vendor/docs").exists()


def test_nothing_is_put_beside_a_mount_where_the_workspace_has_a_file(
    workspace: VirtualFilesystem, directory: str
) -> None:
    workspace.write("lib", "a file")
    source = Source(Mount(source=directory, target="lib/docs"))
    files = VirtualFilesystem(MountedStore(workspace.store, [source]))

    for change in (
        lambda: files.write("lib/mine.txt", "x"),
        lambda: files.mkdir("lib/sub/mine"),
        lambda: files.copy("lib/docs/index.md", "lib/mine.md"),
    ):
        with pytest.raises(PermissionError, match="lib is a directory only for the mount"):
            change()
    assert workspace.read("lib") == "a file"
    files.write("other.txt", "y")
    assert workspace.read("other.txt") == "y"


def test_a_call_can_list_a_directory_that_is_only_there_for_a_mount(
    mounted: Callable[..., VirtualFilesystem],
    branch_of: Callable[..., WorkspaceBranch],
    directory: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "lib").write_text("a file")
    branch = branch_of(mounted(directory, tmp_path / "ws", target="lib/docs"))

    assert [each.path for each in branch.resource.list("lib")] == ["lib/docs"]
    assert branch.prepare() is None
    branch.commit()


@pytest.mark.parametrize("path", ["lib", "lib/vendor"])
def test_a_directory_with_a_mount_in_it_is_neither_deleted_nor_moved(
    mounted: Callable[..., VirtualFilesystem], directory: str, path: str
) -> None:
    files = mounted(directory, target="lib/vendor/docs")

    with pytest.raises(PermissionError, match="holds the mount 'lib/vendor/docs'"):
        files.delete(path, recursive=True)
    with pytest.raises(PermissionError, match="holds the mount"):
        files.move(path, "elsewhere")


def test_a_file_over_the_limit_is_shown_but_not_given(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], source: str
) -> None:
    files = mounted(source, max_file_size=8)

    assert files.read("docs/index.md") == "# Docs\n"
    assert files.stat("docs/guide/first.md").kind == "other"
    with pytest.raises(PermissionError, match="12 bytes, more than the 8 bytes that the mount"):
        files.read("docs/guide/first.md")
    assert [each.path for each in files.search("Begin|Go|Docs")] == [
        "docs/index.md",
        "docs/guide/second.md",
    ]


def test_links_in_a_directory_are_not_followed(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("key")
    Path(directory, "away").symlink_to(tmp_path / "secret")
    Path(directory, "key.txt").symlink_to(tmp_path / "secret/key.txt")
    files = mounted(directory)

    assert not files.exists("docs/away/key.txt")
    with pytest.raises(PermissionError, match="a link, which mounts do not follow"):
        files.read("docs/key.txt")
    assert list(files.search("key")) == []


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_what_is_neither_file_nor_directory_in_an_archive_is_not_opened(
    mounted: Callable[..., VirtualFilesystem], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"odd.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("drafts/key.txt", "key")
            link = zipfile.ZipInfo("link")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, "drafts/key.txt")
    else:
        with tarfile.open(path, "w") as archive:
            for name, type_ in (("link", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE)):
                info = tarfile.TarInfo(name)
                info.type, info.linkname = type_, "drafts/key.txt"
                archive.addfile(info)
            info = tarfile.TarInfo("drafts/key.txt")
            info.size = 3
            archive.addfile(info, io.BytesIO(b"key"))
    files = mounted(str(path), exclude=["drafts"])

    with pytest.raises(PermissionError, match="a link, which mounts do not follow"):
        files.read("docs/link")
    assert {each.kind for each in files.list("docs")} == {"other"}
    assert list(files.search("key")) == []
    if kind == "tar":
        with pytest.raises(PermissionError, match="pipe is neither file nor directory"):
            files.read("docs/pipe")


@pytest.mark.parametrize("swapped", ["guide", "guide/first.md"])
def test_a_link_swapped_in_later_is_not_followed(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path, swapped: str
) -> None:
    files = mounted(directory)
    assert files.exists("docs/guide/first.md")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/first.md").write_text("secret")
    place = Path(directory, swapped)
    place.rename(tmp_path / "gone")
    place.symlink_to(tmp_path / "secret" / ("first.md" if "/" in swapped else ""))

    with pytest.raises(OSError, match="mounts do not follow links"):
        files.read("docs/guide/first.md")


def test_a_mount_reached_through_a_link_is_fine(
    mounted: Callable[..., VirtualFilesystem], directory: str, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(directory)

    assert mounted(str(tmp_path / "alias")).read("docs/guide/first.md") == "Begin here.\n"


def test_what_is_neither_file_nor_directory_is_not_opened(
    mounted: Callable[..., VirtualFilesystem], directory: str
) -> None:
    os.mkfifo(Path(directory, "pipe"))
    files = mounted(directory)

    with pytest.raises(PermissionError, match="cannot be opened"):
        files.read("docs/pipe")


def test_names_in_an_archive_that_lead_outside_are_left_out(
    mounted: Callable[..., VirtualFilesystem], tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        for name in ("../up.txt", "a/../../up.txt", "fine.txt", "bad\\name.txt"):
            archive.writestr(name, "x")
    files = mounted(str(tmp_path / "evil.zip"))

    assert "docs/fine.txt" in paths_of(files)
    assert not any(".." in path for path in paths_of(files))


# --- what is said when a source fails ---


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("/no/such/place", "there is nothing at its source"),
        ("/no/such/place.zip", "there is nothing at its source"),
        ("nonsense://x", "Protocol not known: nonsense"),
    ],
)
def test_a_source_that_cannot_be_opened_is_named_with_cause_and_remedy(
    ask: Callable[..., Any], source: str, cause: str
) -> None:
    config = VfsConfig(mounts=(Mount(source=source, target="docs"),))

    with pytest.raises(ResourceError) as raised:
        open_workspace(config)
    assert str(raised.value) == (
        f"The mount 'docs' (from {source}) cannot be opened: {cause}. Fix its source in "
        "plugins.vfs.mounts, or remove it."
    )


def test_mounts_are_closed_where_a_later_one_cannot_be_opened(
    archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(Source, "close", lambda source: closed.append(source.label))
    mounts = (Mount(source=archive, target="docs"), Mount(source="/no/such/place", target="more"))

    with pytest.raises(ResourceError, match="'more'"):
        open_workspace(VfsConfig(mounts=mounts))
    assert closed == ["The mount 'docs'"]


def _is_open(path: str) -> bool:
    descriptors = Path("/proc/self/fd")
    return any(path == os.path.realpath(each) for each in descriptors.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Nothing tells what is open.")
class TestArchivesAreNotKeptOpen:
    @pytest.fixture(params=["zip", "tar"])
    def source(self, request: pytest.FixtureRequest, archive: str, tarball: str) -> str:
        return archive if request.param == "zip" else tarball

    def test_once_they_are_closed(self, source: str) -> None:
        opened = Source(Mount(source=source, target="docs"))
        assert opened.read("index.md") == b"# Docs\n"
        assert _is_open(source)

        opened.close()
        assert not _is_open(source)

    def test_where_the_part_that_is_mounted_is_not_in_them(self, source: str) -> None:
        kind = "zip" if source.endswith(".zip") else "tar"
        with pytest.raises(ResourceError, match="there is nothing at its source") as raised:
            Source(Mount(source=f"{kind}://nothing::{source}", target="docs"))

        assert raised.value.__cause__ is not None, "whose traceback holds on to the archive"
        assert not _is_open(source)


def test_a_broken_archive_is_named(
    mounted: Callable[..., VirtualFilesystem], tmp_path: Path
) -> None:
    (tmp_path / "broken.zip").write_bytes(b"no archive")

    with pytest.raises(ResourceError, match=r"The mount 'docs' .*not a zip file"):
        mounted(str(tmp_path / "broken.zip"))


def test_a_source_that_fails_later_is_named(
    mounted: Callable[..., VirtualFilesystem], ask: Callable[..., Any], directory: str
) -> None:
    files = mounted(directory)
    assert files.exists("docs/index.md")
    Path(directory, "index.md").unlink()

    outcome = ask(files, "read_file", path="docs/index.md")
    assert "The mount 'docs'" in outcome.text
    assert "cannot be read at index.md: there is nothing at its source" in outcome.text
    assert "Retry later" in outcome.text
    advice = outcome.event.attributes["toolstile.for_operator"]
    assert advice == f"{directory} cannot be read at index.md: there is nothing at its source."


def test_logins_and_signatures_in_urls_are_not_told() -> None:
    source = "nonsense://ada:hunter2@host/x?signature=hunter3"

    with pytest.raises(ResourceError) as raised:
        open_workspace(VfsConfig(mounts=(Mount(source=source, target="docs"),)))
    assert "hunter" not in str(raised.value)
    assert "nonsense://***@host/x?***" in str(raised.value)


def test_the_options_of_a_source_are_not_told() -> None:
    class Refusing(fsspec.AbstractFileSystem):
        protocol = "refusing"

        def __init__(self, key: str, **options: Any) -> None:
            super().__init__(**options)
            msg = f"refused key={key}"
            raise PermissionError(msg)

    fsspec.register_implementation("refusing", Refusing, clobber=True)
    mount = Mount(source="refusing://x", target="docs", storage_options={"key": "hunter2"})

    with pytest.raises(ResourceError, match=r"refused key=\*\*\*"):
        open_workspace(VfsConfig(mounts=(mount,)))
    wrong = {"mounts": [{"source": "x", "target": "y", "storage_options": "hunter2"}]}
    with (
        pytest.raises(ConfigurationError, match="storage_options") as raised,
        Host(settings=Settings(plugins={"vfs": wrong})),
    ):
        pass
    assert "hunter2" not in str(raised.value)


def test_without_fsspec_a_mount_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str, *_: object) -> Any:
        if name.startswith("fsspec"):
            raise ImportError(name)
        return builtins.__import__(name)

    monkeypatch.setattr(importlib, "import_module", without)

    with pytest.raises(
        ResourceError, match=rf"needs fsspec\. {re.escape(extra_remedy('workspace'))}"
    ):
        open_workspace(VfsConfig(mounts=(Mount(source="x", target="docs"),)))
    assert open_workspace(VfsConfig()).list() == []


# --- the rest of the tree ---


class Beside:
    """A workspace as it looks to who does not see the mount at `zz`."""

    def __init__(self, files: VirtualFilesystem) -> None:
        self.files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def list(self, path: str = "") -> builtins.list[FileStat]:
        return [each for each in self.files.list(path) if each.path != "zz"]

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        return (each for each in self.files.glob(pattern, path) if each.path.split("/")[0] != "zz")


class TestBesideAMount(FilesystemContract):
    """A file system with a mount in it keeps the rules of every file system."""

    @pytest.fixture
    def files(self, mounted: Callable[..., VirtualFilesystem], directory: str) -> Any:
        return Beside(mounted(directory, target="zz/docs", include=["*.none"]))
