"""The changes of files with which `toolstile init` governs the agents and MCP servers here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.hook.agents import AGENTS, Agent
from toolstile_plugins.hook.client import folder_of
from toolstile_plugins.hook.install import text_of, text_with_hook, write_hook, write_settings
from toolstile_plugins.hook.protection import configuration
from toolstile_plugins.hook.survey import hooked
from toolstile_plugins.mcp.cli import CLIENTS
from toolstile_plugins.mcp.wrap.files import OURS, WRAPPED, content_of, wrapping, write_wrapped

_FRAMEWORKS: Final = {
    "agents": "OpenAI Agents",
    "claude_agent_sdk": "Claude Agent SDK",
    "langchain": "LangChain",
    "llm": "llm",
    "pydantic_ai": "pydantic-ai",
}
"""The frameworks that have an adapter, by their modules."""
_IN_CODE: Final = (
    "Installed here: {names}. A program governs the tools of its agent with one line: `governed` "
    "of the framework's module in toolstile_plugins.adapters."
)
_RULES: Final = """\
# The commands of agents. `toolstile policy explain --command 'git push'` shows a verdict.
[[policies]]
kind = "command"
tools = ["Bash", "run_shell_command"]
preset = "{preset}"
"""
_PASSING: Final = """\
# The server is wrapped, and the wrapper asks.
[tools."{name}"]
requires_confirmation = false
"""
_IN_GIT: Final = (
    "{file} is in git, and its new lines name programs of this machine. Do not commit them: on "
    "another machine the agent would refuse each call."
)


class Proposal(NamedTuple):
    """A change of a file, and the extras that it needs."""

    title: str
    file: Path
    before: str | None
    after: str
    write: Callable[[], object]
    extras: tuple[str, ...]


@dataclass
class Survey:
    """The agents and the servers of MCP clients here, with proposals, and notes on the rest.

    The rules come first, so that no call passes without them.
    """

    project: Path
    preset: str
    proposals: list[Proposal] = field(default_factory=list[Proposal])
    notes: list[str] = field(default_factory=list[str])
    agents: dict[Agent, Path] = field(default_factory=dict[Agent, Path])
    servers: list[str] = field(default_factory=list[str])
    _passing: list[str] = field(default_factory=list[str])
    """Globs of the tools of wrapped servers in governed agents."""

    def look(self) -> None:
        """Find everything; raise `ConfigurationError` if the settings of an agent are broken."""
        self.agents = _agents(self.project)
        texts = {file.resolve(): self._hook(agent, file) for agent, file in self.agents.items()}
        for client, name in CLIENTS.items():
            file = self.project / Path(name).expanduser()
            if file.is_file():
                owner = "claude-code" if client == "claude-user" else client
                self._wrap(file, texts, AGENTS.get(owner))
        if self.agents:
            self._configure()
        if frameworks := [_FRAMEWORKS[module] for module in _FRAMEWORKS if find_spec(module)]:
            self.notes.append(_IN_CODE.format(names=", ".join(frameworks)))

    def _hook(self, agent: Agent, file: Path) -> str:
        """Propose the hook of an agent, and return its settings with it."""
        before = text_of(file)
        after = text_with_hook(agent, file, before)
        if before != after:
            write = partial(write_hook, agent, file, before, after)
            title = f"The hook of {agent.title}"
            self.proposals.append(Proposal(title, file, before, after, write, ("inbox",)))
            self.notes += [agent.note] if agent.note else []
            self.notes += [_IN_GIT.format(file=file)] if _is_in_git(file) else []
        return after

    def _wrap(self, named: Path, texts: Mapping[Path, str], agent: Agent | None) -> None:
        """Propose to wrap the servers in a client's file; `texts` are settings with our hook."""
        try:
            file, now = content_of(named)
            before = texts.get(file, now.decode())
            found = wrapping(before, file)
        except ConfigurationError as error:
            self.notes.append(str(error))
            return
        for name, why in found.left.items():
            if why == WRAPPED:
                self.servers.append(name)
            elif why != OURS:
                self.notes.append(f"{name} in {named} stays unchanged, because {why}.")
        if names := [change.name for change in found.changes]:
            self.servers += names
            title, write = "MCP servers", partial(write_wrapped, file, before.encode(), found)
            self.proposals.append(Proposal(title, named, before, found.text, write, ("mcp",)))
        if agent in self.agents:
            wrapped = {*names, *(name for name, why in found.left.items() if why == WRAPPED)}
            plain = (re.sub(r"[^A-Za-z0-9_-]", "_", name) for name in sorted(wrapped))
            self._passing += [f"{agent.own.replace('toolstile', name)}*" for name in plain]

    def _configure(self) -> None:
        """Propose the missing parts of the configuration."""
        file, data = configuration(self.project)
        if not (missing := "\n".join(self._missing(data))):
            return
        before = text_of(file) or ""
        after = f"{before.rstrip()}\n\n{missing}" if before.strip() else missing
        after = re.sub(r"\r?\n", "\r\n", after) if "\r\n" in before else after
        is_valid = file == self.project / "toolstile.toml"
        try:
            tomllib.loads(after.removeprefix("\ufeff"))
        except ValueError:
            is_valid = False
        if not is_valid:
            self.notes.append(f"Add these lines to {file} yourself:\n{missing}")
            return
        write = partial(write_settings, file, after)
        proposal = Proposal("The rules", file, before, after, write, ("commands", "inbox"))
        self.proposals.insert(0, proposal)

    def _missing(self, data: Mapping[str, Any]) -> Iterator[str]:
        place, home = folder_of(str(self.project)), f"{Path.home()}/"
        place = f"~/{place.removeprefix(home)}" if place.startswith(home) else place
        plugins = data.get("plugins", {})
        if not data.get("policies"):
            yield _RULES.format(preset=self.preset)
        if not {"inbox", "database"} & plugins.keys():
            path = json.dumps(f"{place}/inbox.db", ensure_ascii=False)
            yield f"[plugins.inbox]\npath = {path}\n"
        if "record" not in plugins:
            path = json.dumps(f"{place}/records", ensure_ascii=False)
            yield f"[plugins.record]\nfolder = {path}\n"
        for name in self._passing:
            if name not in data.get("tools", {}):
                yield _PASSING.format(name=name)


def _agents(project: Path) -> dict[Agent, Path]:
    """Return the agents that are used here, with the files for their hooks."""
    found = {agent: file for agent, file, _ in hooked(project)}
    for agent in AGENTS.values():
        folders = [agent.settings_file("user", project).parent]
        with suppress(ConfigurationError):
            folders.append(agent.settings_file("project", project).parent)
        if shutil.which(agent.program) or any(folder.is_dir() for folder in folders):
            found.setdefault(agent, agent.settings_file(agent.scope, project))
    return found


def _is_in_git(file: Path) -> bool:
    with suppress(OSError):
        words = ["git", "-C", str(file.parent), "ls-files", "--error-unmatch", file.name]
        done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - fixed words
        return done.returncode == 0
    return False
