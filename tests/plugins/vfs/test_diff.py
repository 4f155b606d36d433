"""Diffs of modes, links and directories say what git says, as far as git has a form for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from toolstile_hookspecs import Filesystem
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]


def begin(files: Filesystem) -> None:
    """Make what the changes start from."""
    files.write("run.sh", "#!/bin/sh\n")
    files.write("plain.sh", "#!/bin/sh\n")
    files.write("moved.sh", "#!/bin/sh\necho moved\n")
    files.link("current", "releases/1")
    files.link("gone", "releases/1")
    files.link("file", "releases/1")
    files.write("link", "text\n")
    files.write("folder/a.txt", "one\n")
    files.write("old/b.txt", "two\n")
    for path in ("run.sh", "plain.sh", "moved.sh", "link", "folder/a.txt", "old/b.txt"):
        files.chmod(path, 0o644)
    files.chmod("folder", 0o755)


def change(files: Filesystem) -> None:
    files.chmod("run.sh", 0o755)
    files.chmod("plain.sh", 0o755)
    files.write("plain.sh", "#!/bin/bash\n")
    files.move("moved.sh", "bin/moved.sh")
    files.chmod("bin/moved.sh", 0o700)
    files.delete("current")
    files.link("current", "releases/2")
    files.delete("gone")
    files.delete("file")
    files.write("file", "now a file\n")
    files.delete("link")
    files.link("link", "new\ntarget\x1b[31m")
    files.chmod("folder", 0o700)
    files.mkdir("empty")
    files.mkdir("private")
    files.chmod("private", 0o700)
    files.write("new.sh", "#!/bin/sh\n")
    files.chmod("new.sh", 0o755)
    files.delete("old", recursive=True)
    files.mkdir("old")


def test_modes_links_and_directories(workspace: VirtualFilesystem, branch_of: Branch) -> None:
    begin(workspace)
    branch = branch_of(workspace)
    change(branch.resource)
    assert branch.diff().split("\n") == [
        "created bin/",
        "moved moved.sh to bin/moved.sh",
        "diff --git a/bin/moved.sh b/bin/moved.sh",
        "old mode 100644",
        "new mode 100700",
        "diff --git a/current b/current",
        "index efd7d1f..dd72348 120000",
        "--- a/current",
        "+++ b/current",
        "@@ -1 +1 @@",
        "-releases/1",
        "\\ No newline at end of file",
        "+releases/2",
        "\\ No newline at end of file",
        "created empty/",
        "deleted file (a link to releases/1)",
        "--- /dev/null",
        "+++ b/file",
        "@@ -0,0 +1 @@",
        "+now a file",
        "diff --git a/folder b/folder",
        "old mode 040755",
        "new mode 040700",
        "deleted gone (a link to releases/1)",
        "deleted link (5 bytes)",
        "diff --git a/link b/link",
        "new file mode 120000",
        "--- /dev/null",
        "+++ b/link",
        "@@ -0,0 +1 @@",
        "+new\\ntarget\\x1b[31m",
        "\\ No newline at end of file",
        "diff --git a/new.sh b/new.sh",
        "new file mode 100755",
        "--- /dev/null",
        "+++ b/new.sh",
        "@@ -0,0 +1 @@",
        "+#!/bin/sh",
        "deleted old/b.txt (4 bytes)",
        "diff --git a/plain.sh b/plain.sh",
        "old mode 100644",
        "new mode 100755",
        "--- a/plain.sh",
        "+++ b/plain.sh",
        "@@ -1 +1 @@",
        "-#!/bin/sh",
        "+#!/bin/bash",
        "created private/ (mode 700)",
        "diff --git a/run.sh b/run.sh",
        "old mode 100644",
        "new mode 100755",
        "",
    ]


@pytest.mark.slow
def test_git_makes_of_it_what_the_commit_makes(
    disk: VirtualFilesystem, root: Path, tmp_path: Path, branch_of: Branch, commit: Commit
) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    disk.write("run.sh", "#!/bin/sh\n")
    disk.write("plain.sh", "#!/bin/sh\n")
    disk.link("current", "releases/1")
    twin = tmp_path / "twin"
    shutil.copytree(root, twin, symlinks=True, ignore=shutil.ignore_patterns(".toolstile"))
    branch = branch_of(disk)
    files = branch.resource
    files.chmod("run.sh", 0o755)
    files.chmod("plain.sh", 0o755)
    files.write("plain.sh", "#!/bin/bash\n")
    files.delete("current")
    files.link("current", "releases/2")
    files.link("sub/link", "../run.sh")
    files.write("new.sh", "#!/bin/sh\n")
    files.chmod("new.sh", 0o755)
    text = "".join(line for line in branch.diff().splitlines(True) if line != "created sub/\n")
    commit(branch)
    subprocess.run([git, "init", "-q", twin], check=True)
    subprocess.run([git, "apply", "-"], input=text.encode(), cwd=twin, check=True)
    assert seen(twin) == seen(root)


def seen(root: Path) -> dict[str, tuple[int, str]]:
    """Return what is at each path that git knows: a mode, and a text or target."""
    found: dict[str, tuple[int, str]] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if name.startswith((".git", ".toolstile")) or (path.is_dir() and not path.is_symlink()):
            continue
        text = str(path.readlink()) if path.is_symlink() else path.read_text()
        found[name] = (os.lstat(path).st_mode & 0o170111, text)
    return found


def test_of_many_changes_the_later_files_are_named_with_their_hashes(
    branch_of: Branch, workspace: VirtualFilesystem
) -> None:
    workspace.write("z.txt", "old\n")

    def diff_with(last: str) -> str:
        call = branch_of(workspace)
        for number in range(1_000):
            call.resource.write(f"{number:04}.txt", f"{'x' * 99}\n" * 100)
        call.resource.write("z.txt", last)
        return call.diff()

    told = diff_with("new\n")
    assert len(told) < 512 * 1024
    assert told.startswith("--- /dev/null\n+++ b/0000.txt\n")
    assert "created 0999.txt (10000 bytes, SHA-256 " in told
    assert told.splitlines()[-1].startswith("changed z.txt (4 to 4 bytes, SHA-256 ")
    assert diff_with("two\n") != told == diff_with("new\n")


GIT = ("config", "index", "refs/heads/main", "objects/ab/cd")
IGNORED = ("out.log", "docs/deep/a.log", "build/lib/a.py", "docs/only/a.txt", "docs/only/sub/b.txt")
CACHES = ("src/__pycache__/a.pyc", ".pytest_cache/v/last", "web/node_modules/x/index.js")
SHOWN = ("src/a.py", "keep.log", "lib/build.py", "only/c.txt", "docs/build")


def test_sources_come_first_and_one_line_stands_for_git_caches_and_ignored_files(
    workspace: VirtualFilesystem, branch_of: Branch
) -> None:
    workspace.write(".gitignore", "# logs\n*.log\n!keep.log\nbuild/\n/\n")
    workspace.write("docs/.gitignore", "/only\n")
    branch = branch_of(workspace)
    # An ignored path counts by the file from before: a command cannot hide its changes so.
    branch.resource.write(".gitignore", "*\n")
    for path in (*(f".git/{name}" for name in GIT), *IGNORED, *CACHES, *SHOWN):
        branch.resource.write(path, f"text of {path}\n")
    branch.show_first((".git/config",))
    text = branch.diff()
    shown = [line[6:] for line in text.splitlines() if line.startswith("+++ b/")]
    assert shown == [".git/config", ".gitignore", *sorted(SHOWN)]
    *_, last = text.splitlines()
    assert last.partition(" (SHA-256")[0] == (
        "not shown: 3 files in .git/, 3 files in caches, 5 files that git ignores"
    )
    # The approval of a text stands for the changes that it does not show.
    branch.resource.write(".git/index", "another\n")
    assert branch.diff() != text


def test_a_file_that_moves_out_of_the_sources_is_shown(
    workspace: VirtualFilesystem, branch_of: Branch
) -> None:
    workspace.write("src/a.py", "text\n")
    branch = branch_of(workspace)
    branch.resource.move("src/a.py", ".cache/a.py")
    branch.resource.write(".cache/b.py", "text\n")
    assert "moved src/a.py to .cache/a.py\n" in branch.diff()
    assert "not shown: 1 file in caches (SHA-256 " in branch.diff()


def test_one_change_of_a_cache_is_shown(workspace: VirtualFilesystem, branch_of: Branch) -> None:
    workspace.mkdir(".cache")
    branch = branch_of(workspace)
    branch.resource.write(".cache/a.txt", "text\n")
    assert "+text\n" in branch.diff()
