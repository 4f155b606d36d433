"""`llm -T Toolstile`, as the program llm runs it, with the plugin of a model beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import json, os
import llm


class Scripted(llm.Model):
    model_id = "scripted"
    supports_tools = True
    can_stream = False

    def execute(self, prompt, stream, response, conversation=None):
        with open("read.jsonl", "a") as file:
            for result in prompt.tool_results:
                print(json.dumps([result.tool_call_id, result.output]), file=file)
        script = json.loads(os.environ["SCRIPT"])
        turn = sum(message.role == "assistant" for message in prompt.messages)
        if turn < len(script) and script[turn]:
            for number, (name, given) in enumerate(script[turn]):
                response.add_tool_call(llm.ToolCall(name, given, f"c{turn}{number}"))
            yield ""
        else:
            yield "done"


class AsyncScripted(llm.AsyncModel):
    model_id = "scripted"
    supports_tools = True
    can_stream = False

    async def execute(self, prompt, stream, response, conversation=None):
        for text in Scripted().execute(prompt, stream, response):
            yield text


@llm.hookimpl
def register_models(register):
    register(Scripted(), AsyncScripted())
"""
DESK = '''
from contextlib import contextmanager
from toolstile_hookspecs import MarkdownSection, hookimpl, tool


@tool(category="side_effect")
def place(item: str, quantity: int = 1) -> str:
    """Order something."""
    return f"{quantity} x {item}"


@tool(category="delete", requires_confirmation=True)
def erase(name: str) -> str:
    """Erase something for good."""
    return f"Erased {name}."


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="desk", title="Desk", tools=[place, erase])]


@hookimpl
def toolstile_lifespan(host):
    @contextmanager
    def life():
        print("opened")
        yield
        print("closed")

    return life()
'''
SETTINGS = """
plugin_files = ["desk.py"]
approver = "inbox"
approval_key = "a key of a test, of more than 32 characters"
approval_spent = "spent.db"

[plugins.inbox]
path = "inbox.db"
wait = "pending"
"""
ORDER = ["Toolstile_place", {"item": "cup"}]
ERASE = ["Toolstile_erase", {"name": "a.txt"}]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with a configuration."""
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "desk.py").write_text(DESK)
    (folder / "toolstile.toml").write_text(SETTINGS)
    return folder


@pytest.fixture
def run(desk: Path, tmp_path: Path) -> Run:
    """Return what runs llm in the folder, with a model that follows a script."""
    site = tmp_path / "site"
    made = site / "scripted_model-1.0.dist-info"
    made.mkdir(parents=True)
    (site / "scripted_model.py").write_text(MODEL)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-model\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[llm]\nscripted = scripted_model\n")
    environment = {
        **os.environ,
        "LLM_USER_PATH": str(tmp_path / "llm"),
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
    }

    def run(*arguments: str, script: list[Any] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "llm", *arguments],
            cwd=desk,
            env={**environment, "SCRIPT": json.dumps(script or [])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def read(desk: Path) -> list[list[str]]:
    lines = (desk / "read.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_llm_finds_it() -> None:
    (found,) = (each for each in entry_points(group="llm") if each.name == "toolstile")
    assert found.value == "toolstile_cli.llm_toolbox"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--async"]])
def test_its_tools_are_those_of_the_host_that_is_configured_here(
    run: Run, desk: Path, flags: list[str]
) -> None:
    script = [[ORDER, ["Toolstile_place", {"item": 5, "colour": "red"}]]]
    ended = run("-m", "scripted", *flags, "-T", "Toolstile", "Order a cup.", script=script)
    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr
    (_, done), (_, faulty) = read(desk)
    assert done == "1 x cup"
    assert faulty.startswith("Error: Invalid arguments for place:")
    # What plugins print does not get between the words of the model.
    assert ended.stderr.splitlines() == ["opened", "closed"]


@pytest.mark.long
@pytest.mark.slow
def test_a_call_that_waits_goes_on_when_it_is_repeated(run: Run, desk: Path) -> None:
    toolbox = 'Toolstile(session="desk-7")'
    assert run("-m", "scripted", "-T", toolbox, "Erase a.", script=[[ERASE]]).returncode == 0
    ((_, text),) = read(desk)
    assert text.startswith(
        "erase waits for a person's approval. Nothing has run. A person will answer"
    )
    ticket = text.split("question ")[1].split()[0].rstrip(".")
    answering = [sys.executable, "-m", "toolstile", "approvals", "approve", ticket]
    subprocess.run(answering, cwd=desk, check=True, capture_output=True)
    # llm remembers the toolbox of a conversation, and its session with it.
    ended = run("-c", "Go on.", script=[[], [], [ERASE]])
    assert ended.returncode == 0, ended.stderr
    assert read(desk)[-1][1] == "Erased a.txt."


@pytest.mark.long
@pytest.mark.slow
def test_a_configuration_with_a_fault_is_told_in_one_line(run: Run, desk: Path) -> None:
    (desk / "toolstile.toml").write_text("approvr = 1\n")
    ended = run("-m", "scripted", "-T", "Toolstile", "Order a cup.")
    assert ended.returncode == 1
    assert "approvr" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_it_is_listed_and_costs_nothing_until_it_is_used(run: Run, desk: Path) -> None:
    listed = run("tools", "list")
    assert "Toolstile(config" in listed.stdout
    assert "opened" not in listed.stderr
    told = "import sys, toolstile_cli.llm_toolbox; print(*sorted(sys.modules), sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [name for name in loaded if name.startswith("toolstile")]
    assert ours == ["toolstile_cli", "toolstile_cli.llm_toolbox"]
