"""git in a sandbox: linked worktrees, submodules, and workspaces of another user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings, ToolCall
from toolstile_plugins.vfs import VfsConfig, toolstile_diagnose
from toolstile_plugins.vfs.protected_paths import outside_repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

USER = ("-c", "user.name=a", "-c", "user.email=a@desk.example", "-c", "protocol.file.allow=always")
CANNOT_COMMIT = "Continue without git, and leave the commit to a person."


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *USER, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", ".")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def run(root: Path, script: str, **sandbox: Any) -> str:
    settings = Settings(plugins={"vfs": {"root": str(root)}, "sandbox": sandbox})
    with Host(settings=settings) as host, host.executor() as tools:
        return tools.dispatch(ToolCall("shell_execute", {"command": ["sh", "-c", script]})).text


def worktree(tmp_path: Path) -> Path:
    git(repository(tmp_path / "main"), "worktree", "add", "-q", "../work")
    return tmp_path / "work"


def submodule(tmp_path: Path) -> Path:
    outer, inner = repository(tmp_path / "main"), repository(tmp_path / "inner")
    git(outer, "submodule", "add", "-q", str(inner), "inner")
    return outer / "inner"


def diagnosed(root: Path) -> str:
    findings = toolstile_diagnose(VfsConfig(root=root))
    return next(each.remedy or "" for each in findings if "git in" in each.subject)


@pytest.mark.slow
@pytest.mark.operator_text("git itself names the folder of the repository")
@pytest.mark.parametrize("made", [worktree, submodule])
def test_git_fails_with_an_explanation_if_its_repository_is_outside_of_the_workspace(
    tmp_path, made
):
    root = made(tmp_path)
    assert CANNOT_COMMIT in run(root, "git status")
    assert CANNOT_COMMIT not in run(root, "false")
    assert "use a clone as the workspace" in diagnosed(root)


@pytest.mark.slow
@pytest.mark.operator_text("git names the repository that the settings make readable")
def test_a_repository_outside_of_the_workspace_can_be_made_readable(tmp_path):
    root = worktree(tmp_path)
    readable = [str(tmp_path / "main/.git")]
    assert f'readable = ["{readable[0]}"]' in diagnosed(root)
    assert "?? new" in run(root, "touch new; git status --short", readable=readable)
    commit = "echo two > a.txt; git -c user.name=a -c user.email=a@b commit -qam 2"
    assert CANNOT_COMMIT in run(root, commit, readable=readable)


@pytest.mark.slow
def test_a_submodule_within_the_workspace_is_committed_to(tmp_path):
    outer = submodule(tmp_path).parent
    assert outside_repository(outer / "inner") is not None
    text = run(
        outer,
        "cd inner; echo two > a.txt;"
        "git -c user.name=a -c user.email=a@b commit -qam two && git log --oneline",
    )
    assert " two" in text.partition("--- stdout")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_git_reads_a_workspace_of_another_user(tmp_path):
    root = repository(tmp_path / "theirs")
    for path in (root, *root.rglob("*")):
        os.chown(path, 12345, 12345)
    text = run(root, "git log --oneline && git status --short")
    assert " one" in text
    assert "exit code 0" in text


@pytest.mark.parametrize("text", ["", "gitdir: .git-of-mine", "gitdir: \0", "something else"])
def test_a_file_that_names_no_repository_outside_is_left_alone(tmp_path, text):
    (tmp_path / ".git").write_text(text)
    assert outside_repository(tmp_path) is None
