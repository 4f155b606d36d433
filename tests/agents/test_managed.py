"""The hook in the settings of the machine, in an /etc that this test alone sees."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.agents.test_hooks import Agent as Claude, bash, script
from tests.agents.test_other_hooks import SHELLS, CodexAgent, GeminiAgent, Other
from tests.node import Npm
from tests.plugins.hook.hooked import Workspace

from toolstile_plugins.hook.agents import AGENTS
from toolstile_plugins.hook.install import text_of

pytestmark = [pytest.mark.slow, pytest.mark.agents]
Run = Callable[[list[str]], list[str]]
"""Runs an agent that calls its shell with each command, and returns the results."""


@pytest.fixture
def machine(hooked: Workspace, tmp_path: Path) -> Workspace:
    """A workspace whose commands see the folders of all managed settings, empty."""
    words = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/etc"]
    for entry in Path("/etc").iterdir():
        words += ["--ro-bind-try", str(entry), str(entry)]
    for folder in {
        agent.settings_file("managed", hooked.folder).parent for agent in AGENTS.values()
    }:
        own = tmp_path / folder.relative_to("/")
        own.mkdir(parents=True)
        words += ["--bind", str(own), str(folder)]
    if not shutil.which("bwrap") or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("no namespace of this user: bwrap is absent, or the system refuses it")
    hooked.inside = words
    return hooked


def claude(npm: Npm, machine: Workspace) -> Run:
    settings = machine.folder / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    agent = Claude(npm, machine)

    def run(commands: list[str]) -> list[str]:
        calls = [[bash(str(number), command)] for number, command in enumerate(commands)]
        return [text for text, _ in agent.run(calls).read().values()]

    return run


def other(kind: type[Other]) -> Callable[[Npm, Workspace], Run]:
    def begin(npm: Npm, machine: Workspace) -> Run:
        agent = kind(npm, machine, is_managed=True)
        agent.prepare()
        return lambda commands: agent.run([agent.shell(each) for each in commands]).results

    return begin


CASES: Mapping[str, tuple[Callable[[Npm, Workspace], Run], Mapping[str, str]]] = {
    "claude-code": (claude, {}),
    "codex": (other(CodexAgent), {"requirements.toml": "[features]\nhooks = true\n"}),
    "gemini": (other(GeminiAgent), {"settings.json": '{"hooksConfig": {"enabled": true}}'}),
}
"""The beginning of each agent, and the machine's other settings that it needs."""


@pytest.mark.parametrize("name", CASES)
def test_a_user_cannot_switch_off_the_hook_of_the_machine(
    machine: Workspace, npm: Npm, tmp_path: Path, name: str
) -> None:
    begin, own = CASES[name]
    machine.configure(machine.rules(SHELLS, deletes="delete"))
    settings = AGENTS[name].settings_file("managed", machine.folder)
    seen = tmp_path / settings.relative_to("/")
    for file, text in own.items():
        seen.with_name(file).write_text(text)
    before = text_of(seen)
    hidden = script(tmp_path, "hidden.sh", f"echo '{{}}' > {settings}")
    go = script(tmp_path, "go.sh", f"{machine.toolstile} go")
    # Another user than that of the agent, whose own notes say nothing of a hook.
    administrator = {"XDG_STATE_HOME": str(tmp_path / "administrator")}
    machine.more = administrator
    done = machine.command("hook", "install", name, "--managed")
    assert done.returncode == 0, done
    machine.more, installed = {}, text_of(seen)
    run = begin(npm, machine)
    results = run(["echo hello", f"echo > {settings}", hidden, go, "git status && delete x"])
    assert "hello" in results[0]
    assert "which is protected" in results[1]
    assert text_of(seen) == installed
    assert "A person decides this" in results[3]
    assert "Deletions are for the user." in results[4]
    assert "has no terminal" in machine.command("go").stderr
    assert "the hook fires" in machine.command("hook", "doctor").stdout
    machine.more = administrator
    done = machine.person("hook", "uninstall", name, "--managed")
    assert done.returncode == 0, done
    assert text_of(seen) == before
