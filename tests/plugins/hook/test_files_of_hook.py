"""The files of an agent's calls, through the installed hook: put back, noted and undone."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.plugins.hook.hooked import Workspace


def run(hooked: Workspace, command: str, id_: str, **more: Any) -> dict[str, Any]:
    """Run a command as the agent does, between two events; return the answer to the second."""
    arguments = {"command": command}
    begun = hooked.event("PreToolUse", "Bash", arguments=arguments, id=id_, **more)
    assert hooked.decision(begun) == {}
    done = subprocess.run(["sh", "-c", command], cwd=hooked.folder, check=False)
    name = "PostToolUseFailure" if done.returncode else "PostToolUse"
    end: dict[str, Any] = {"error": "Exit code 1"} if done.returncode else {"tool_response": "ok"}
    return hooked.decision(hooked.event(name, "Bash", arguments=arguments, id=id_, **end, **more))


def test_a_failed_command_is_put_back_and_the_model_reads_it(hooked: Workspace) -> None:
    (hooked.folder / "a.txt").write_text("one\n")

    answer = run(hooked, "echo two > a.txt; mkdir new; false", "toolu_1")

    assert (hooked.folder / "a.txt").read_text() == "one\n"
    assert not (hooked.folder / "new").exists()
    assert "a.txt, new went back" in answer["additionalContext"]


def test_a_successful_one_is_undone_at_a_terminal(hooked: Workspace) -> None:
    (hooked.folder / "a.txt").write_text("one\n")
    assert run(hooked, "echo two > a.txt", "toolu_1") == {}

    done = hooked.person("undo", "--last", "--yes")

    assert done.returncode == 0, done
    assert (hooked.folder / "a.txt").read_text() == "one\n"


def test_a_write_that_failed(hooked: Workspace) -> None:
    file = hooked.folder / "a.txt"
    file.write_text("one\n")
    arguments = {"file_path": str(file), "content": "two\n"}
    assert hooked.decision(hooked.event("PreToolUse", "Write", arguments=arguments, id="t")) == {}
    file.write_text("tw")

    event = hooked.event("PostToolUseFailure", "Write", arguments=arguments, id="t", error="full")
    answer = hooked.decision(event)

    assert file.read_text() == "one\n"
    assert "a.txt went back" in answer["additionalContext"]


def test_a_call_without_an_end_is_kept_for_an_undo(hooked: Workspace) -> None:
    (hooked.folder / "a.txt").write_text("one\n")
    command = {"command": "x"}
    hooked.decision(hooked.event("PreToolUse", "Bash", arguments=command, id="toolu_1"))
    (hooked.folder / "a.txt").write_text("perhaps a person\n")

    hooked.send(hooked.event("Stop"))

    assert (hooked.folder / "a.txt").read_text() == "perhaps a person\n"
    listed = hooked.person("undo", "--list", "--json")
    (call,) = map(json.loads, listed.stdout.splitlines())
    assert call["changed"] == ["a.txt"]
