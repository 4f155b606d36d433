"""Agents as people have them, with the lines of the guide, and each with a model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.node import Npm
from tests.plugins.mcp.guide import configured

#: Far more than an agent takes, and less than it takes to give up on a model that is not there.
PATIENCE = 180


@dataclass(frozen=True)
class Agent(ABC):
    """An agent without a person at it.

    Args:
        npm: What has its program.
        home: Its home directory: nothing of the user's is read or written.
        project: The directory that it works in.
        toolstile: The command that serves Toolstile's tools.
        configuration: What it reads.
    """

    npm: Npm
    home: Path
    project: Path
    toolstile: Path
    configuration: Path

    #: What it puts before the names of a server's tools.
    prefix: ClassVar[str]

    def ask(self, message: str, model: str) -> str:
        """The agent's answer, with its model at the URL `model`, once it has called its tools."""
        kept = {name: value for name, value in os.environ.items() if name in {"LANG", "TMPDIR"}}
        done = subprocess.run(
            self.command(message),
            cwd=self.project,
            env={
                **kept,
                **self.settings(model),
                "HOME": str(self.home),
                "PATH": self.npm.environment()["PATH"],
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    @abstractmethod
    def command(self, message: str) -> list[str]:
        """The command that puts `message` to it and ends with its answer."""

    @abstractmethod
    def settings(self, model: str) -> dict[str, str]:
        """The variables with which it asks the model at that URL."""


class ClaudeCode(Agent):
    """Claude Code in print mode, with the servers of one file and no others."""

    prefix = "mcp__toolstile__"

    def command(self, message: str) -> list[str]:
        file = self.home / "servers.json"
        servers = configured("claude-code", self.toolstile, self.configuration)
        file.write_text(json.dumps(servers))
        return [
            self.npm.program("claude", "@anthropic-ai/claude-code@2.1.330"),
            "--print",
            message,
            "--mcp-config",
            str(file),
            "--strict-mcp-config",
            "--allowedTools",
            "mcp__toolstile",
        ]

    def settings(self, model: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }


class GeminiCli(Agent):
    """Gemini CLI without its terminal, in a project whose settings name the server."""

    prefix = "mcp_toolstile_"

    def command(self, message: str) -> list[str]:
        settings = {
            **configured("gemini-cli", self.toolstile, self.configuration),
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
        folder = self.home / ".gemini"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps(settings))
        return [
            self.npm.program("gemini", "@google/gemini-cli@0.61.0"),
            "--prompt",
            message,
            "--model",
            "gemini-2.5-pro",
            # What may be done is for Toolstile to say, not for who would sit at the terminal.
            "--approval-mode",
            "yolo",
        ]

    def settings(self, model: str) -> dict[str, str]:
        return {
            "GOOGLE_GEMINI_BASE_URL": model,
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
