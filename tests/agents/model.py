"""A model, played by aimock: it follows a script and keeps what it was sent."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.node import Npm

AIMOCK = "@copilotkit/aimock@1.43.0"

#: Ends the conversation when what was read is not in the script; an agent asks an error again.
LOST = {"match": {}, "response": {"content": "That is not in the script."}}


@dataclass(frozen=True)
class Turn:
    """The next step of the model: it calls a tool, or says the last word.

    Args:
        read: What the newest message holds: the person's, or a tool's result.
        call: The tool that is called then, by the name that it has in Toolstile.
        arguments: Its arguments.
        beside: Tools that are called at the same time, before that one, with their arguments.
        say: What is said when no tool is called.
        first: Whether the newest message is the person's.
    """

    read: str
    call: str = ""
    arguments: Mapping[str, Any] | None = None
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    say: str = ""
    first: bool = False

    def fixture(self, prefix: str) -> dict[str, Any]:
        """The turn as aimock takes it, for an agent that puts `prefix` before names of tools."""
        seen = {"userMessage": self.read} if self.first else {"toolResultContains": self.read}
        if not self.call:
            return {"match": seen, "response": {"content": self.say}}
        wanted = {**self.beside, self.call: self.arguments}
        calls = [
            {"name": prefix + name, "arguments": json.dumps(arguments)}
            for name, arguments in wanted.items()
        ]
        match = {**seen, "hasToolResult": not self.first}
        return {"match": match, "response": {"toolCalls": calls}}


@dataclass(frozen=True)
class ScriptedModel:
    """A provider of models on loopback, which answers from a script.

    Args:
        url: Where it listens, for every provider's API.
    """

    url: str

    def results(self) -> list[str]:
        """The results of tools that the model was sent, each as the agent worded it, in order."""
        sent = [request["messages"][-1] for request in self.requests()]
        return [message["content"] for message in sent if message["role"] == "tool"]

    def requests(self) -> list[dict[str, Any]]:
        """The requests that the model was sent, in order, in the form of Chat Completions."""
        with urllib.request.urlopen(f"{self.url}/__aimock/journal", timeout=30) as answer:
            return [request["body"] for request in json.load(answer) if request.get("body")]


@contextmanager
def scripted(npm: Npm, folder: Path, prefix: str, turns: Sequence[Turn]) -> Iterator[ScriptedModel]:
    """Play a model while the context is entered."""
    script = folder / "model.json"
    fixtures = [*(turn.fixture(prefix) for turn in turns), LOST]
    script.write_text(json.dumps({"fixtures": fixtures}))
    with played(npm, script) as model:
        yield model


@contextmanager
def played(npm: Npm, script: Path) -> Iterator[ScriptedModel]:
    """Play a model from a script of aimock's while the context is entered."""
    command = [npm.program("llmock", AIMOCK), "--port", "0", "--fixtures", str(script)]
    log: list[str] = []
    with subprocess.Popen(
        command,
        env=npm.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            url = _listening(process, log)
            rest = threading.Thread(target=log.extend, args=(process.stdout,), daemon=True)
            rest.start()
            yield ScriptedModel(url)
        finally:
            process.kill()


def _listening(process: subprocess.Popen[str], log: list[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        log.append(line)
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise AssertionError(f"aimock ended before it listened:\n{''.join(log)}")
