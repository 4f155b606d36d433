"""No call of an agent changes the files that govern it, or answers in a person's place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_plugins.hook import protection as protections
from toolstile_plugins.hook.agents import ClaudeCode, Event, stand_in
from toolstile_plugins.hook.install import SCRIPT
from toolstile_plugins.hook.protection import Protection, _starts_agent

CHANGES = [
    "rm .claude/settings.json",
    "rm -f ./.claude/../.claude/settings.json",
    "rm -rf .claude",
    "rm -rf .cl*",
    "rm .claude/set*.json",
    "rm .c[l]aude/settings.json",
    "rm .claude/settings.{json,local.json}",
    "cd .claude && rm settings.json",
    "echo '{}' > .claude/settings.json",
    "echo '{}' >.claude/settings.local.json",
    "cat > toolstile.toml <<'EOF'\nEOF",
    "cat <<'EOF' > tool''stile.toml\nEOF",
    "cat x >> tool\\stile.toml",
    "true; sed -i s/deny/allow/ toolstile.toml",
    "ls && tee .mcp.json < x",
    "cp other.toml toolstile.toml",
    "mv toolstile.toml away",
    "ln -sf /dev/null toolstile.toml",
    "python3 -c \"open('.claude/settings.json', 'w').write('{}')\"",
    "git checkout HEAD~1 -- toolstile.toml",
    "git diff --output=toolstile.toml",
    "C=.claude; rm $C/settings.json",
    "$(rm toolstile.toml)",
    "echo `rm toolstile.toml`",
    "rm ~/.claude/settings.json",
    "rm $HOME/.claude/settings.json ",
    "dd if=/dev/zero of=toolstile.toml",
    "chmod 000 toolstile.toml",
    "echo x > sub/link",
    "rm -rf .toolstile",
    "git checkout -- ':/toolstile*'",
    "touch .cursor/mcp.json",
    "unlink $HOME/claude/settings.json",
    "touch .toolstile/stops/1-x.slot",
    "rm -rf .toolstile/stops",
    "tee sub/../.env",
    "rm ~/.codex/config.toml ~/.gemini/settings.json",
    "cat ~/.local/state/toolstile/hook/installed.json",
    "rm -rf ~/.local/state/toolstile",
    f"echo exit 0 > {SCRIPT}",
    f"ln -sf /bin/true {SCRIPT.with_name('client.py')}",
    "rm tool$'\\x73'tile.toml",
    "env -i sh -c 'rm tool\"stile\".toml'",
]
DECIDES = [
    "toolstile go",
    "tool$'s'tile go",
    "cd x && ./.venv/bin/toolstile --config x.toml go",
    "python -m toolstile approvals approve 0123456789ab",
    "env -u CLAUDECODE script -qc 'toolstile go' /dev/null",
    "toolstile hook uninstall claude-code",
    "toolstile hook serve",
    "toolstile undo --last --yes",
    "toolstile ledger resolve abc --done",
    "toolstile console",
    "toolstile approvals deny 0123456789ab --reason list",
    "toolstile ledger resolve abc --done --value show",
    "bash -c \"tool''stile go\"",
    "tmux send-keys -t 0 'toolstile go' Enter",
    "python -c 'from toolstile import Host; Host().go()'",
    "python - <<'EOF'\nfrom toolstile_plugins.inbox import Inbox\nEOF",
]
HARMLESS = [
    "ls -la .claude",
    "cat toolstile.toml",
    "cat .env | grep A",
    "git diff toolstile.toml",
    "git status && git log --oneline",
    "grep -rn hook . 2>/dev/null",
    "npm run build && npm test",
    "pytest -q tests/test_settings.json.py",
    "rm -rf build dist *.egg-info",
    "echo hello > notes.txt",
    "sed -i s/a/b/ src/settings.json",
    "toolstile approvals list",
    "toolstile undo --list",
    "toolstile approvals && toolstile undo",
    "toolstile check && toolstile tools",
    "toolstile status",
    "for f in *.py; do wc -l $f; done",
    "cd src && make",
    "cp other.toml pyproject.toml",
    "python .claude/skills/pdf/fill.py a.pdf",
    ".venv/bin/python -m pytest",
]


@pytest.fixture
def protection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Protection]:
    work, home = tmp_path / "work", tmp_path / "home"
    for folder in (work / ".claude", work / "sub", work / "pkg", home):
        folder.mkdir(parents=True)
    for name in ("toolstile.toml", ".env", ".claude/settings.json", ".mcp.json"):
        (work / name).write_text("x")
    (work / "bare").mkdir()
    (work / "bare/HEAD").write_text("ref: refs/heads/main")
    (work / "pkg/pyproject.toml").write_text("[tool.toolstile]")
    (work / "sub/link").symlink_to("../toolstile.toml")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(home / "gemini"))
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    state = home / ".local/state/toolstile/hook"
    state.mkdir(parents=True)
    (state / "installed.json").write_text(json.dumps({str(home / "installed/settings.json"): {}}))
    with Host() as host:
        yield Protection(host, work, ["**/.env"])


def fault(protection: Protection, tmp_path: Path, name: str, **arguments: str) -> str | None:
    tool = stand_in(name, "Claude Code", ClaudeCode.categories[name])
    cwd = str(tmp_path / "work")
    event = Event(kind="before", name="", session="", cwd=cwd, tool=name, arguments=arguments)
    return protection._fault(tool, event)


@pytest.mark.parametrize("line", [*CHANGES, *DECIDES])
def test_a_command_is_refused(protection: Protection, tmp_path: Path, line: str) -> None:
    assert fault(protection, tmp_path, "Bash", command=line) is not None


@pytest.mark.parametrize("line", HARMLESS)
def test_a_harmless_command_passes(protection: Protection, tmp_path: Path, line: str) -> None:
    assert fault(protection, tmp_path, "Bash", command=line) is None


@pytest.mark.parametrize(
    "path",
    [
        *("toolstile.toml", "sub/link", "sub/../.env", ".MCP.json", ".claude/settings.json"),
        *("~/.claude/settings.json", "/etc/claude-code/managed-settings.json", "deep/in/.env"),
        *(
            *(
                ".claude/hooks/mine.sh",
                ".toolstile/stops/stops.json",
                "sessions.db-stops/stops.json",
            ),
            *("pkg/pyproject.toml", ".vscode/mcp.json", "~/claude/settings.json"),
            *("~/gemini/.gemini/settings.json", "~/codex/hooks.json", "~/installed/settings.json"),
            ".git/config",
            "sub/.git/hooks/pre-commit",
            "sub/.git",
            "e/HEAD",
        ),
        *(".claude/skills/x/SKILL.md", "sub/.claude/agents/x.md", "~/claude/commands/x.md"),
        *("~/.gemini/commands/x.toml", str(SCRIPT), str(SCRIPT.parents[1] / "rules/rule.py")),
        # The interpreter that runs the hook, and the file behind its link.
        *(sys.executable, os.path.realpath(sys.executable)),
        *("bare/config", "bare/hooks/post-checkout", ".GIT/config"),
    ],
)
def test_a_path_is_refused_to_writers_alone(
    protection: Protection, tmp_path: Path, path: str
) -> None:
    for name in ("Write", "Edit", "MultiEdit"):
        assert fault(protection, tmp_path, name, file_path=path) is not None
    assert fault(protection, tmp_path, "NotebookEdit", notebook_path=path) is not None
    assert fault(protection, tmp_path, "Read", file_path=path) is None


def test_our_own_state_is_not_read_either(protection: Protection, tmp_path: Path) -> None:
    path = str(Path.home() / ".local/state/toolstile/hook/x/socket")
    assert fault(protection, tmp_path, "Read", file_path=path) is not None


def test_another_file_may_be_written(protection: Protection, tmp_path: Path) -> None:
    for path in ("src/settings.json", "README.md", "environment", ".gitignore", "HEAD.md"):
        assert fault(protection, tmp_path, "Write", file_path=path) is None


def test_an_argument_that_is_a_list_is_a_command(protection: Protection, tmp_path: Path) -> None:
    tool = stand_in("shell", "Codex", "side_effect")
    event = Event(
        kind="before",
        name="",
        session="",
        cwd=str(tmp_path / "work"),
        tool="shell",
        arguments={"command": ["rm", "-f", "toolstile.toml"]},
    )
    assert protection._fault(tool, event) is not None


AGENTS = {
    "claude -p x": True,
    "cd x && env -u CLAUDECODE CLAUDE_CONFIG_DIR=/tmp/x /usr/bin/claude --settings y": True,
    "timeout 60 codex exec x": True,
    "sh -c 'gemini --yolo'": True,
    "npx -y gemini": True,
    "git commit -m 'Ask claude'": False,
    "ls .claude && grep -r claude .": False,
}


@pytest.mark.parametrize(("line", "asks"), AGENTS.items())
def test_a_command_that_starts_an_agent_asks(
    protection: Protection, tmp_path: Path, line: str, asks: bool
) -> None:
    arguments = {"command": line}
    event = Event(kind="before", name="", session="", tool="Bash", arguments=arguments)
    assert _starts_agent(event) == asks


SHELLS = ["bash", "cd x && python3 -i", "env -i /bin/zsh", "script", "sudo sh -s"]


@pytest.mark.parametrize("line", SHELLS)
def test_an_agent_that_types_unseen_starts_no_shell(
    protection: Protection, tmp_path: Path, line: str
) -> None:
    tool = stand_in("Bash", "Codex", "side_effect")
    about: dict[str, Any] = {"kind": "before", "name": "", "session": "", "tool": "Bash"}
    about |= {"cwd": str(tmp_path / "work"), "arguments": {"command": line}}
    assert protection._fault(tool, Event(**about, types=True)) is not None
    assert protection._fault(tool, Event(**about)) is None
    harmless = {"command": "bash build.sh && python3 -m pytest && sh -c 'echo a'"}
    assert protection._fault(tool, Event(**{**about, "arguments": harmless}, types=True)) is None


def test_files_that_agents_run_beside_the_hook_are_put_back(
    protection: Protection, tmp_path: Path
) -> None:
    skills = tmp_path / "work/.claude/skills"
    (skills / "old").mkdir(parents=True)
    (skills / "old/SKILL.md").write_text("mine")
    (skills / "link").symlink_to(tmp_path)
    protection.keep(tmp_path)
    (skills / "old/SKILL.md").write_text("!`rm x`")
    (skills / "new.md").write_text("!`rm x`")
    (skills / "other").symlink_to(tmp_path)
    (skills / "link").unlink()
    back = protection.put_back(tmp_path, at_terminal=False)
    assert sorted(back) == [str(skills / name) for name in ("new.md", "old/SKILL.md", "other")]
    assert [*skills.rglob("*")] == [skills / "old", skills / "old/SKILL.md"]
    assert (skills / "old/SKILL.md").read_text() == "mine"
    (skills / "by-a-person.md").write_text("x")
    assert protection.put_back(tmp_path, at_terminal=False) == []


def test_the_program_of_the_hook_is_put_back_while_a_call_runs(
    protection: Protection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "hook.sh"
    script.write_text("exit 2")
    monkeypatch.setattr(protections, "_HOOK", (script,))
    protection.keep(tmp_path)
    script.write_text("exit 0")
    protection.hold()
    assert script.read_text() == "exit 2"
    protection.put_back(tmp_path, at_terminal=False)
    script.write_text("a new version")
    protection.hold()
    assert script.read_text() == "a new version"
