"""In front of servers that know nothing of Toolstile, everything holds by configuration alone."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from toolstile_hookspecs import Cancellation, ImageContent, ResourceLink, Status, ToolCall

from .pypi import installed

pytestmark = pytest.mark.long

FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"


def hash_of(directory: Path) -> str:
    """Return a hash of everything that is in a directory."""
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found.update(str(path.relative_to(directory)).encode())
        found.update(path.read_bytes() if path.is_file() else b"directory")
    return found.hexdigest()


def processes_of(text: str) -> list[int]:
    """Return the ids of this process's children that were started with some text."""
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, parent, args in rows if int(parent) == os.getpid() and text in args]


@pytest.fixture
def node(npm):
    """Return the settings of a server that npm has."""

    def node(program, package, *args):
        path = npm.environment()["PATH"]
        return {"command": npm.program(program, package), "args": [*args], "env": {"PATH": path}}

    return node


class TestFilesystem:
    @pytest.fixture
    def root(self, tmp_path):
        root = tmp_path / "files"
        root.mkdir()
        (root / "kept.txt").write_text("first\n")
        return root

    @pytest.fixture
    def server(self, node, root):
        server = node("mcp-server-filesystem", FILESYSTEM, str(root))
        return {
            **server,
            "tools": {
                "write_file": {"category": "write"},
                "edit_file": {"category": "write"},
                "move_file": {"requires_confirmation": True},
            },
        }

    def reading_first(self, root):
        return {
            "kind": "read_before_write",
            "root": str(root),
            "read_tools": ["fs_read_text_file", "fs_read_multiple_files"],
            "write_tools": ["fs_write_file", "fs_edit_file"],
            "paths": {"fs_read_multiple_files": ["paths"]},
        }

    def test_no_file_is_changed_that_was_not_read_as_it_is(self, yard, server, root):
        yard.open({"fs": server}, policies=[self.reading_first(root)])
        kept, before = str(root / "kept.txt"), hash_of(root)
        denied = yard.call("fs_write_file", path=kept, content="mine")
        assert denied.status is Status.DENIED
        assert "the file kept.txt exists and was not read" in denied.text
        assert "Call fs_read_multiple_files or fs_read_text_file on it first" in denied.text
        edit = [{"oldText": "first", "newText": "mine"}]
        assert yard.call("fs_edit_file", path=kept, edits=edit).status is Status.DENIED
        assert hash_of(root) == before

        assert yard.call("fs_read_text_file", path=kept).text == "first\n"
        assert yard.call("fs_write_file", path=kept, content="second\n").success
        assert (root / "kept.txt").read_text() == "second\n"
        # One's own writing counts as reading; that of somebody else does not.
        assert yard.call("fs_write_file", path=kept, content="third\n").success
        (root / "kept.txt").write_text("somebody else's\n")
        before = hash_of(root)
        changed = yard.call("fs_write_file", path=kept, content="fourth\n")
        assert "has changed since it was read" in changed.text
        assert hash_of(root) == before

        assert yard.call("fs_read_multiple_files", paths=[kept]).success
        assert yard.call("fs_write_file", path=kept, content="fourth\n").success
        assert yard.call("fs_write_file", path=str(root / "new.txt"), content="new").success

    @pytest.mark.parametrize("answer", ["all", "none"])
    def test_what_needs_approval_happens_only_with_it(self, yard, server, root, answer):
        yard.open({"fs": server}, approver="approval", plugins={"approval": {"mode": answer}})
        before = hash_of(root)
        moved = {"source": str(root / "kept.txt"), "destination": str(root / "moved.txt")}
        outcome = yard.call("fs_move_file", **moved)
        assert outcome.success == (answer == "all")
        assert (hash_of(root) != before) == (answer == "all")
        assert yard.call("fs_list_directory", path=str(root)).success

    def test_faults_of_arguments_never_reach_it(self, yard, server, root):
        yard.open({"fs": server})
        wrong = yard.call("fs_write_file", path=7)
        assert wrong.status is Status.INVALID
        assert "content: required, but missing" in wrong.text
        assert "path: 7 is not of type 'string'" in wrong.text

    def test_its_own_refusals_are_told(self, yard, server, tmp_path):
        yard.open({"fs": server})
        refused = yard.call("fs_read_text_file", path=str(tmp_path / "elsewhere.txt"))
        assert refused.status is Status.FAILED
        assert "Access denied" in refused.text


class TestEverything:
    @pytest.fixture
    def server(self, node):
        return node("mcp-server-everything", EVERYTHING, "stdio")

    def test_what_it_returns_passes_through(self, yard, server):
        yard.open({"all": server})
        image = [
            each
            for each in yard.call("all_get-tiny-image").result.value.parts
            if isinstance(each, ImageContent)
        ]
        assert base64.b64decode(image[0].data).startswith(b"\x89PNG")
        links = yard.call("all_get-resource-links", count=3).result.value.parts
        assert len([each for each in links if isinstance(each, ResourceLink)]) == 3
        weather = yard.call("all_get-structured-content", location="Chicago")
        assert weather.result.value.structured["humidity"] > 0
        assert yard.call("all_get-sum", a=2, b=3).text == "The sum of 2 and 3 is 5."

    def test_progress_and_cancellation_reach_through_it(self, yard, server):
        heard, stop = [], Cancellation()

        def on_progress(call, done, total, message):
            heard.append((done, total))
            stop.cancel()

        yard.open({"all": server}, on_progress=on_progress)
        long = {"duration": 60, "steps": 60}
        call = ToolCall("all_trigger-long-running-operation", long, cancellation=stop)
        assert yard.dispatch(call).status is Status.CANCELLED
        assert heard[0] == (1.0, 60.0)
        assert yard.call("all_echo", message="x").text == "Echo: x"

    def test_killed_in_the_middle_of_a_call_it_is_started_again(self, yard, server):
        heard = []
        yard.open({"all": server}, on_progress=lambda *told: heard.append(told))
        long = {"duration": 60, "steps": 60}
        outcome = yard.later(ToolCall("all_trigger-long-running-operation", long))
        yard.until(lambda: heard, "it works on the call")
        for process in processes_of("server-everything"):
            os.kill(process, signal.SIGKILL)
        killed = outcome()
        assert killed.status is Status.FAILED
        assert "gave no answer to trigger-long-running-operation that can be used" in killed.text
        assert yard.call("all_echo", message="x").text == "Echo: x"


class TestGit:
    @pytest.fixture
    def repository(self, tmp_path):
        folder = tmp_path / "repository"
        folder.mkdir()
        git(folder, "init", "--quiet")
        git(folder, "config", "user.name", "Ada")
        git(folder, "config", "user.email", "ada@example.org")
        (folder / "a.txt").write_text("a\n")
        return folder

    def test_a_repeated_commit_happens_once(self, yard, repository):
        known = {"git_commit": {"idempotency": {"scope": "global"}}}
        yard.open({"git": {"command": installed("mcp-server-git"), "prefix": "", "tools": known}})
        where = str(repository)
        assert yard.call("git_add", repo_path=where, files=["a.txt"]).success
        first = yard.call("git_commit", repo_path=where, message="Add a")
        assert first.success, first.text
        (repository / "a.txt").write_text("b\n")
        assert yard.call("git_add", repo_path=where, files=["a.txt"]).success
        again = yard.call("git_commit", repo_path=where, message="Add a")
        assert again.text == first.text
        assert again.event.replayed
        assert git(repository, "rev-list", "--count", "HEAD").strip() == "1"
        assert yard.call("git_commit", repo_path=where, message="Change a").success
        assert git(repository, "rev-list", "--count", "HEAD").strip() == "2"


def test_time_tells_it_and_refuses_what_is_no_place(yard):
    yard.open({"time": {"command": installed("mcp-server-time")}})
    told = yard.call("time_get_current_time", timezone="Europe/Berlin")
    assert "Europe/Berlin" in told.text
    refused = yard.call("time_get_current_time", timezone="Nowhere/Land")
    assert refused.status is Status.FAILED
    assert "Nowhere/Land" in refused.text


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout
