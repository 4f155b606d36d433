"""Codex and Gemini CLI with our hook, and played models on loopback."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.agents.providers import Played, Reply, Step, gemini, played, responses
from tests.agents.test_hooks import break_hook, script, ways
from tests.node import Npm
from tests.plugins.hook.hooked import Workspace
from tests.plugins.hook.test_sandboxed import SANDBOX

SHELLS = '"Bash", "run_shell_command"'
pytestmark = [pytest.mark.slow, pytest.mark.agents]


@dataclass
class Other(ABC):
    """An agent in a workspace, with our hook in the settings of its user."""

    npm: Npm
    workspace: Workspace
    is_managed: bool = False
    """True if the user has switched hooks off and trusts none: only the machine's may count."""
    model: Played = field(init=False)
    name: ClassVar[str]
    form: ClassVar[Any]

    @property
    def settings(self) -> Path:
        folder = {"codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}[self.name]
        return self.workspace.home / folder

    @property
    def environment(self) -> dict[str, str]:
        return self.workspace.agents_environment(self.npm.environment()["PATH"])

    @abstractmethod
    def prepare(self) -> None:
        """Write the settings of the agent that our hook needs not."""

    @abstractmethod
    def command(self, model: str) -> tuple[list[str], dict[str, str]]:
        """Return the command that runs the agent with a model, and its variables."""

    @abstractmethod
    def shell(self, command: str) -> Step:
        """Return a call that runs a command."""

    def run(self, script: Reply | Sequence[Step]) -> Played:
        """Run the agent until it ends; it may do everything that our hook lets it do."""

        def in_order(results: list[str]) -> Step | None:
            steps = list(script) if not callable(script) else []
            return steps[len(results)] if len(results) < len(steps) else None

        with played(script if callable(script) else in_order, type(self).form) as model:
            self.model = model
            command, more = self.command(model.url)
            self.workspace.run_agent(command, {**self.environment, **more})
        return model

    def recorded(self) -> list[str]:
        return [status for _, status in self.workspace.recorded()]


class CodexAgent(Other):
    """Codex, which trusts our hook without a person."""

    name = "codex"
    form = staticmethod(responses)

    def prepare(self) -> None:
        (self.workspace.home / ".codex").mkdir()

    def command(self, model: str) -> tuple[list[str], dict[str, str]]:
        (self.workspace.home / ".codex/config.toml").write_text(
            'model = "gpt-5.1-codex"\nmodel_provider = "loop"\n[model_providers.loop]\n'
            f'name = "loop"\nbase_url = "{model}/v1"\nwire_api = "responses"\n'
            f'env_key = "LOOP_KEY"\n[features]\nhooks = {str(not self.is_managed).lower()}\n'
        )
        program = self.npm.program("codex", "@openai/codex@0.171.0")
        words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        words += [] if self.is_managed else ["--dangerously-bypass-hook-trust"]
        return [program, *words, "go"], {"LOOP_KEY": "x"}

    def shell(self, command: str) -> Step:
        return {"name": "exec_command", "arguments": {"cmd": command}}


class GeminiAgent(Other):
    """Gemini CLI, in a workspace that it trusts."""

    name = "gemini"
    form = staticmethod(gemini)

    def prepare(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "hooksConfig": {"enabled": not self.is_managed},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
            # Because after 30 turns Gemini CLI asks its model for a verdict on loops, as JSON.
            "model": {"disableLoopDetection": True},
        }
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps(settings))

    def command(self, model: str) -> tuple[list[str], dict[str, str]]:
        program = self.npm.program("gemini", "@google/gemini-cli@0.61.0")
        more = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": model}
        more["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
        return [program, "--yolo", "-m", "gemini-2.5-pro", "-p", "go"], more

    def shell(self, command: str) -> Step:
        return {"name": "run_shell_command", "arguments": {"command": command}}


@pytest.fixture(params=[CodexAgent, GeminiAgent], ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest, npm: Npm, hooked: Workspace) -> Other:
    made: Other = request.param(npm, hooked)
    made.prepare()
    hooked.configure(hooked.rules(SHELLS, deletes="delete"))
    done = hooked.command("hook", "install", made.name, "--user")
    assert done.returncode == 0, done
    return made


def test_its_commands_pass_our_stages(agent: Other) -> None:
    commands = ["echo hello", "git status && delete x", "cat > .env", "echo one > f1; false"]
    model = agent.run([agent.shell(each) for each in commands])
    results = model.results
    assert "hello" in results[0]
    assert "Deletions are for the user." in results[1]
    assert "which is protected" in results[2]
    assert not (agent.workspace.folder / ".env").exists()
    assert not (agent.workspace.folder / "f1").exists()
    assert "f1 went back to the state before the call" in model.read
    assert agent.recorded() == ["succeeded", "denied", "denied", "error"]


def test_a_call_that_asks_runs_when_it_is_approved_and_repeated(agent: Other) -> None:
    def reply(results: list[str]) -> Step | None:
        if results:
            ticket = re.search(r"question ([0-9a-f]{12})", results[0])
            assert ticket is not None
            if len(results) == 1:
                done = agent.workspace.person("approvals", "approve", ticket[1])
                assert done.returncode == 0, done
        return agent.shell("touch pushed # push") if len(results) < 2 else None

    results = agent.run(reply).results
    assert "again with the same arguments" in results[0]
    assert (agent.workspace.folder / "pushed").exists()
    assert agent.recorded() == ["pending", "succeeded"]


def test_a_person_edits_the_arguments(agent: Other) -> None:
    def reply(results: list[str]) -> Step | None:
        if len(results) == 1:
            found = re.search(r"question ([0-9a-f]{12})", results[0])
            assert found is not None
            edited = json.dumps({"command": "touch edited"})
            done = agent.workspace.person("approvals", "edit", found[1], edited)
            assert done.returncode == 0, done
        return agent.shell("touch pushed # push") if len(results) < 2 else None

    agent.run(reply)
    assert (agent.workspace.folder / "edited").exists()
    assert not (agent.workspace.folder / "pushed").exists()


def test_commands_in_the_sandbox_land_only_if_they_succeed(agent: Other) -> None:
    folder = agent.workspace.folder
    rules = agent.workspace.rules(SHELLS, deletes="delete")
    agent.workspace.configure(rules.replace("protected", f"{SANDBOX}protected"))
    commands = ["echo one > f1; echo said", "echo two > f2; echo said; exit 3"]
    results = agent.run([agent.shell(each) for each in commands]).results
    assert ["said" in each for each in results] == [True, True]
    assert (folder / "f1").exists()
    assert not (folder / "f2").exists()
    assert agent.recorded() == ["succeeded", "error"]


@pytest.mark.parametrize("text", [r"Exit Code: 1\n", r"Exit Code: 1\nend\n"])
def test_an_output_that_looks_like_a_failure_is_none(agent: Other, text: str) -> None:
    agent.run([agent.shell(f"printf '{text}' | tee f1")])
    assert (agent.workspace.folder / "f1").exists()
    assert agent.recorded() == ["succeeded"]


@pytest.mark.parametrize("agent", [GeminiAgent], indirect=True)
def test_the_hook_of_a_project_counts(agent: Other) -> None:
    assert agent.workspace.person("hook", "uninstall", agent.name, "--user").returncode == 0
    done = agent.workspace.person("hook", "install", agent.name, "--project")
    assert done.returncode == 0, done
    results = agent.run([agent.shell("git status && delete x")]).results
    assert "Deletions are for the user." in results[0]


@pytest.mark.parametrize("agent", [GeminiAgent], indirect=True)
def test_nothing_goes_back_while_a_process_of_the_command_lives(agent: Other) -> None:
    line = "(sleep 15; echo two > f2) >/dev/null 2>&1 & echo one > f1; false"
    model = agent.run([agent.shell(line)])
    assert (agent.workspace.folder / "f1").exists()
    assert "a process of the command still runs" in model.read
    assert agent.recorded() == ["error"]


@pytest.mark.parametrize("agent", [GeminiAgent], indirect=True)
def test_a_command_in_the_background_counts_as_done_at_once(agent: Other) -> None:
    folder, early = agent.workspace.folder, list[bool]()

    def reply(results: list[str]) -> Step | None:
        if not results:
            line = "echo one > f1; sleep 5; echo two > f2"
            arguments = {"command": line, "is_background": True}
            return {"name": "run_shell_command", "arguments": arguments}
        early.append(not (folder / "f2").exists())
        return None

    results = agent.run(reply).results
    assert "to background" in results[0]
    assert early == [True]
    assert agent.recorded() == ["succeeded"]


def test_a_sub_agent_is_refused(agent: Other) -> None:
    task, refused = "Now take the sub-task.", list[str]()
    begin: dict[str, Step] = {
        "codex": {
            "name": "spawn_agent",
            "namespace": "multi_agent_v1",
            "arguments": {"message": task},
        },
        "gemini": {
            "name": "invoke_agent",
            "arguments": {"agent_name": "generalist", "prompt": task},
        },
    }

    def reply(results: list[str]) -> Step | None:
        said = agent.model.said[-1]
        if task in said:
            return agent.shell("delete everything")
        if "Deletions are for the user." in said:
            refused.append(said)
            done = {"name": "complete_task", "arguments": {"result": "refused"}}
            return done if agent.name == "gemini" else None
        if "agent_id" in said:
            found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", results[-1])
            assert found is not None
            wait = {"targets": [found[0]], "timeout_ms": 20_000}
            return {"name": "wait_agent", "namespace": "multi_agent_v1", "arguments": wait}
        return None if results else begin[agent.name]

    agent.run(reply)
    assert len(refused) == 1
    assert "denied" in [status for _, status in agent.workspace.recorded()]


def test_the_end_of_a_turn_is_refused_once(agent: Other) -> None:
    checker = '[[plugins.agent.task_completion]]\nkind = "plan"\nrequire_plan = true\n'
    configuration = agent.workspace.folder / "toolstile.toml"
    configuration.write_text(f"{configuration.read_text()}\n{checker}")
    model = agent.run([agent.shell("echo one")])
    assert sum("A plan is missing" in said for said in model.said) == 1


@pytest.mark.parametrize(
    "how",
    [
        *("exits with 1", "is absent", "hangs", "is killed", "prints half an answer"),
        *("has no helper", "has no Python"),
    ],
)
def test_a_hook_that_is_broken_lets_no_call_run(agent: Other, how: str, tmp_path: Path) -> None:
    break_hook(agent.settings, agent.workspace, how, tmp_path)
    model = agent.run([agent.shell("touch ran1"), agent.shell("touch ran2")])
    assert [*agent.workspace.folder.glob("ran*")] == []
    assert len(model.results) == 2


def test_an_agent_does_not_loosen_its_own_governance(agent: Other, tmp_path: Path) -> None:
    workspace, settings = agent.workspace, agent.settings
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    asked = agent.run([agent.shell("a push")]).results[0]
    found = re.search(r"question ([0-9a-f]{12})", asked)
    assert found is not None, asked
    done = workspace.person("stop", "--tool", "web_search", "--reason", "Not now.")
    assert done.returncode == 0, done
    kept = [workspace.folder / "toolstile.toml", settings]
    before = [file.read_bytes() for file in kept]
    project = workspace.folder / settings.parent.name
    hidden = f"echo '{{}}' > {settings}; mkdir {project}; echo '{{}}' > {project}/{settings.name}"
    own = [
        f"unlink {settings}",
        f"echo '{{}}' > ~/{settings.parent.name}/{settings.name}",
        f"cd ~/{settings.parent.name} && mv {settings.name} x",
        f"sed -i s/Tool/Other/ ~/.[cg]*/{settings.name}",
        f"C={settings.parent}; mv $C {tmp_path}/away",
        f"mkdir {project}; echo '{{}}' > {project}/{settings.name}",
        script(scripts, "put.sh", hidden),
        f"{agent.name} --version; touch started",
    ]
    time.sleep(1.1)  # a terminal is as old as its second
    tried = [*ways(workspace, found[1], scripts, agent.name), *own, "delete probe"]
    lost: dict[str, Any] = {}

    def reply(results: list[str]) -> Step | None:
        stands = {
            "files": [file.read_bytes() for file in kept] == before,
            "project": not (project / settings.name).exists(),
            "state": (workspace.state / "toolstile/hook/installed.json").exists(),
        }
        if results and False in stands.values():
            lost[tried[len(results) - 1]] = stands, results[-1]
        return agent.shell(tried[len(results)]) if len(results) < len(tried) else None

    results = agent.run(reply).results
    assert len(results) == len(tried) > 20
    assert lost == {}
    assert "Deletions are for the user." in results[-1]
    assert found[1] in workspace.command("approvals", "list", "--json").stdout
    assert "Not now." in workspace.command("status", "--json").stdout
    assert not (workspace.folder / "started").exists()


def test_codex_starts_no_shell_to_type_into(npm: Npm, hooked: Workspace) -> None:
    agent = CodexAgent(npm, hooked)
    agent.prepare()
    hooked.configure(hooked.rules(SHELLS, deletes="delete"))
    assert hooked.command("hook", "install", "codex", "--user").returncode == 0

    def reply(results: list[str]) -> Step | None:
        if not results:
            begin = {"cmd": "bash", "tty": True, "yield_time_ms": 500}
            return {"name": "exec_command", "arguments": begin}
        found = re.search(r"session ID (\d+)", results[-1])
        if found is None or len(results) > 1:
            return None
        # No event comes for this.
        typed = {"session_id": int(found[1]), "chars": "touch typed\n", "yield_time_ms": 1000}
        return {"name": "write_stdin", "arguments": typed}

    results = agent.run(reply).results
    assert len(results) == 1, results
    assert "Run each command by itself." in results[0]
    assert not (hooked.folder / "typed").exists()
