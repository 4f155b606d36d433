"""`bash = "sandbox"`: the hook rewrites commands, so that they run on a branch in our sandbox."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.plugins.hook.hooked import Workspace

pytestmark = pytest.mark.slow
SANDBOX = 'bash = "sandbox"\n'
GOVERNING = ".claude/settings.json"


@pytest.fixture
def boxed(hooked: Workspace) -> Workspace:
    hooked.configure(hooked.rules().replace("protected", f"{SANDBOX}protected"))
    return hooked


def run(workspace: Workspace, command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an agent does: the line that the hook has made of it."""
    event = workspace.event("PreToolUse", "Bash", arguments={"command": command}, **more)
    answer = workspace.decision(event)
    assert answer["permissionDecision"] == "allow", answer
    done = subprocess.run(
        ["bash", "-c", answer["updatedInput"]["command"]],
        cwd=workspace.folder,
        env=workspace.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    end = {"tool_response": done.stdout} if done.returncode == 0 else {"error": "Exit code"}
    name = "PostToolUseFailure" if done.returncode else "PostToolUse"
    workspace.send({**event, "hook_event_name": name, **end})
    return done


def test_a_success_lands_and_can_be_undone(boxed: Workspace) -> None:
    (boxed.folder / "sub").mkdir()
    (boxed.folder / "a.txt").write_text("one\n")
    command = f"echo two > {boxed.folder}/a.txt; echo said; echo told >&2; pwd > b.txt"
    done = run(boxed, command, cwd=str(boxed.folder / "sub"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "told\n")
    assert (boxed.folder / "a.txt").read_text() == "two\n"
    assert (boxed.folder / "sub/b.txt").exists()
    assert boxed.recorded() == [("bash", "succeeded")]
    boxed.kill()  # which writes the record
    undone = boxed.person("undo", "--last", "--yes")
    assert undone.returncode == 0, undone
    assert (boxed.folder / "a.txt").read_text() == "one\n"
    assert not (boxed.folder / "sub/b.txt").exists()


def test_a_failure_lands_nothing_and_leaves_the_edits_of_others(boxed: Workspace) -> None:
    (boxed.folder / "a.txt").write_text("one\n")
    outside = Path(boxed.home, "made")
    done = run(boxed, f"echo two > a.txt; touch b.txt {outside}; echo said; exit 7")
    assert (done.returncode, done.stdout) == (7, "said\n")
    assert "none of its changes were kept" in done.stderr
    assert (boxed.folder / "a.txt").read_text() == "one\n"
    assert not (boxed.folder / "b.txt").exists()
    assert not outside.exists()
    assert boxed.recorded() == [("bash", "error")]


@pytest.mark.parametrize(
    "command",
    [
        "F=.claude/set; python3 - ${F}tings.json <<'E'\nimport sys; open(sys.argv[1], 'w')\nE",
        "P=.cla; mv ${P}ude other",
        "P=.cla; unlink ${P}ude/settings.json",
        "cd sub; E=env; echo x > .$E",
        "mv sub other",
        "T=tools; echo > ${T}tile.toml",
    ],
)
def test_no_governing_file_changes(boxed: Workspace, command: str) -> None:
    boxed.command("hook", "install", "claude-code")
    (boxed.folder / "sub").mkdir()
    (boxed.folder / "sub/.env").write_text("S=1\n")
    files = [boxed.folder / name for name in (GOVERNING, "toolstile.toml", "sub/.env")]
    before = [file.read_bytes() for file in files]
    done = run(boxed, f"touch ran; {command}")
    assert done.returncode == 1, done
    assert "which is protected" in done.stderr
    assert [file.read_bytes() for file in files] == before
    assert not (boxed.folder / "ran").exists()


def test_without_a_sandbox_commands_are_refused(boxed: Workspace) -> None:
    text = (boxed.folder / "toolstile.toml").read_text()
    boxed.configure(f'{text}\n[plugins.sandbox]\nbackend = "none"\n')
    answer = boxed.bash("echo hello")
    assert answer["permissionDecision"] == "deny"
    assert 'backend = "bubblewrap"' in answer["permissionDecisionReason"]
    assert boxed.decision(boxed.event("PreToolUse", "Read", arguments={"file_path": "a"})) == {}
