"""By what the content of files is known."""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import closing

import pytest

from toolstile_hookspecs import FileStat
from toolstile_plugins.policies.governed_files import LARGE, DirectoryFiles, WorkspaceFiles
from toolstile_plugins.vfs import VirtualFilesystem


@pytest.fixture(params=["workspace", "directory"])
def files(request, tmp_path):
    if request.param == "directory":
        yield DirectoryFiles(tmp_path)
        return
    with closing(VirtualFilesystem.on_disk(tmp_path)) as workspace:
        yield WorkspaceFiles(workspace)


def test_a_file_is_known_by_its_hash(files, tmp_path):
    (tmp_path / "a").write_bytes(b"one" * 1_000_000)
    assert files.digest("a") == hashlib.sha256(b"one" * 1_000_000).hexdigest()


def test_what_is_no_file_is_known_as_nothing(files, tmp_path):
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    for path in ("d", "pipe", "link", "missing", "d/missing", "."):
        assert files.digest(path) is None
        assert files.kind(path) == ("directory" if path in {"d", "."} else None)


@pytest.mark.parametrize("change", ["beginning", "size", "time"])
def test_a_large_file_is_known_without_reading_all_of_it(files, tmp_path, change):
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(LARGE + 1)
    os.utime(file, ns=(0, 10**9))
    before = files.digest("large")
    assert files.digest("large") == before

    if change == "time":
        os.utime(file, ns=(0, 2 * 10**9))
    else:
        with file.open("r+b") as stream:
            stream.write(b"x" if change == "beginning" else b"")
            stream.truncate(LARGE + (2 if change == "size" else 1))
        os.utime(file, ns=(0, 10**9))
    assert files.digest("large") != before


def test_a_large_file_of_which_nobody_knows_when_it_changed_is_read():
    workspace = Timeless()
    assert WorkspaceFiles(workspace).digest("large") == hashlib.sha256(b"all of it").hexdigest()


class Timeless:
    """A workspace that does not know when files were changed."""

    def stat(self, path):
        return FileStat(path, "file", size=LARGE + 1)

    def open(self, path, mode):
        return io.BytesIO(b"all of it")


def test_files_up_to_the_limit_are_read(files, tmp_path):
    file = tmp_path / "small"
    file.write_bytes(b"x" * 3_000_000)
    os.utime(file, ns=(0, 10**9))
    before = files.digest("small")
    file.write_bytes(b"x" * 2_999_999 + b"y")
    os.utime(file, ns=(0, 10**9))
    assert files.digest("small") != before
