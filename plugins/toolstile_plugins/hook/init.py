"""The command `toolstile init`: governs the agents and servers here, and proves it by a refusal."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TextIO

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_hookspecs.support.process import new_id
from toolstile_hookspecs.support.text import extra_remedy, printable
from toolstile_plugins.cli_support import needing
from toolstile_plugins.hook.agents import AGENTS, ARGUMENTS, Agent
from toolstile_plugins.hook.client import folder_of, private
from toolstile_plugins.hook.commands import answered
from toolstile_plugins.hook.install import (
    diff_of,
    hooked,
    text_of,
    text_with_hook,
    write_hook,
    write_settings,
)
from toolstile_plugins.hook.person import refuse_agents
from toolstile_plugins.hook.protection import configuration
from toolstile_plugins.mcp.cli import CLIENTS
from toolstile_plugins.mcp.wrap.files import OURS, WRAPPED, content_of, wrapping, write_wrapped
from toolstile_plugins.screen import agrees, show_line

_FAILED: Final = 1
_LIBRARIES: Final = {"policies": ("tree_sitter_bash", "cryptography"), "mcp": ("mcp",)}
"""The modules of extras."""
_LONGEST: Final = 30.0
_PROOF: Final = "proof.txt"
_NOTHING: Final = (
    "Nothing to govern was found here: no coding agent, no server of an MCP client, and no agent "
    "framework. Name an agent: toolstile hook install claude-code. Or put a server behind rules: "
    "toolstile wrap -- COMMAND"
)
_AT_HOME: Final = (
    "This is your home directory, which also has the state of Toolstile. Run `toolstile init` in "
    "the directory of a project."
)
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
preset = "developer"
"""
_PASSING: Final = """\
# The server is wrapped, and the wrapper asks.
[tools."{name}"]
requires_confirmation = false
"""
_IN_GIT: Final = (
    "{file} is in git, and its new lines name programs of this machine. Do not commit them: they "
    "fail on other machines."
)
Wire = dict[str, Any]


def run_command(_: HostHandle, args: argparse.Namespace) -> int:
    """Propose, write and prove; return 1 if nothing may be written, or the proof fails.

    Raises:
        ConfigurationError: Nothing is found, an extra is missing, or a file cannot be changed.
    """
    if Path.cwd() == Path.home().resolve():
        raise ConfigurationError(_AT_HOME)
    try:
        survey = Survey(Path.cwd())
        survey.look()
        if not (survey.agents or survey.servers or survey.notes):
            raise ConfigurationError(_NOTHING)
        _check_extras(survey.proposals)
        if survey.proposals and not args.dry_run:
            refuse_agents(["init"])
        may_ask = args.out is None and sys.stdin.isatty()
        may_write = not args.dry_run and (args.yes or may_ask)
        changes = [_offer(args, each, may_write=may_write) for each in survey.proposals]
    except OSError as error:
        told = f"{error.filename or 'A file'} cannot be read or written: {error.strerror}. "
        raise ConfigurationError(f"{told}Correct that, then run `toolstile init` again.") from error
    is_left = bool(survey.proposals) and not may_write
    proofs = [] if is_left else [*_proofs(survey)]
    if args.out is not None:
        args.out.write({"changes": changes, "notes": survey.notes, "proofs": proofs})
    else:
        _report(survey, changes, proofs)
    is_proved = all(proof["refused"] for proof in proofs)
    return 0 if is_proved and (args.dry_run or not is_left) else _FAILED


# --- Proposals


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
    proposals: list[Proposal] = field(default_factory=list[Proposal])
    notes: list[str] = field(default_factory=list[str])
    agents: dict[Agent, Path] = field(default_factory=dict[Agent, Path])
    servers: list[str] = field(default_factory=list[str])
    _passing: list[str] = field(default_factory=list[str])
    """Globs of the tools of wrapped servers in governed agents."""

    def look(self) -> None:
        """Find everything; raise `ConfigurationError` if the settings of an agent are broken."""
        self.agents = {agent: file for agent, file, _ in hooked(self.project)}
        for agent in AGENTS.values():
            scopes = {"user", "project"}.intersection(agent.files)
            folders = [agent.settings_file(scope, self.project).parent for scope in scopes]
            if shutil.which(agent.program) or any(folder.is_dir() for folder in folders):
                file = agent.settings_file(agent.scope, self.project)
                self.agents.setdefault(agent, file)
        texts = {file.resolve(): self._hook(agent, file) for agent, file in self.agents.items()}
        for client, name in CLIENTS.items():
            file = self.project / Path(name).expanduser()
            if file.is_file():
                owner = "claude-code" if client == "claude-user" else client
                self._wrap(file, texts, AGENTS.get(owner))
        changed = dict.fromkeys(each.file for each in self.proposals)
        self.notes += [_IN_GIT.format(file=file) for file in changed if _is_in_git(file)]
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
            self.proposals.append(Proposal(title, file, before, after, write, ("policies",)))
            self.notes += [agent.note] if agent.note else []
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
        wrapped = {name for name, why in found.left.items() if why == WRAPPED}
        for name, why in found.left.items():
            if why not in {WRAPPED, OURS}:
                self.notes.append(f"{name} in {named} stays unchanged, because {why}.")
        if found.changes:
            wrapped |= {change.name for change in found.changes}
            title, write = "MCP servers", partial(write_wrapped, file, before.encode(), found)
            self.proposals.append(Proposal(title, named, before, found.text, write, ("mcp",)))
        self.servers += wrapped
        if agent in self.agents:
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
        try:
            tomllib.loads(after.removeprefix("\ufeff"))
            is_valid = file == self.project / "toolstile.toml"
        except ValueError:
            is_valid = False
        if not is_valid:
            self.notes.append(f"Add these lines to {file} yourself:\n{missing}")
            return
        write = partial(write_settings, file, after)
        proposal = Proposal("The rules", file, before, after, write, ("policies",))
        self.proposals.insert(0, proposal)

    def _missing(self, data: Mapping[str, Any]) -> Iterator[str]:
        place, home = folder_of(str(self.project)), f"{Path.home()}/"
        place = f"~/{place.removeprefix(home)}" if place.startswith(home) else place
        plugins = data.get("plugins", {})
        if not data.get("policies"):
            yield _RULES
        if not {"inbox", "database"} & plugins.keys():
            path = json.dumps(f"{place}/inbox.db", ensure_ascii=False)
            yield f"[plugins.inbox]\npath = {path}\n"
        if "record" not in plugins:
            path = json.dumps(f"{place}/records", ensure_ascii=False)
            yield f"[plugins.record]\nfolder = {path}\n"
        for name in self._passing:
            if name not in data.get("tools", {}):
                yield _PASSING.format(name=name)


def _is_in_git(file: Path) -> bool:
    with suppress(OSError):
        words = ["git", "-C", str(file.parent), "ls-files", "--error-unmatch", file.name]
        done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - fixed words
        return done.returncode == 0
    return False


def _check_extras(proposals: list[Proposal]) -> None:
    """Raise `ConfigurationError` if a change would need a library that is not installed."""
    extras = sorted({extra for each in proposals for extra in each.extras})
    if missing := [extra for extra in extras if not all(map(find_spec, _LIBRARIES[extra]))]:
        told = "These changes need libraries that are not installed, so nothing was changed."
        raise ConfigurationError(f"{told} {extra_remedy(*missing)}")


def _offer(args: argparse.Namespace, proposal: Proposal, *, may_write: bool) -> Wire:
    """Show a change, and write it if the person agrees."""
    title, file, before, after, write, _ = proposal
    diff = diff_of(file, before, after)
    for line in () if args.out else (f"{title}, in {file}:", *diff):
        show_line(line)
    is_written = may_write and (args.yes or agrees("Write this?"))
    if is_written:
        private(folder_of(str(Path.cwd())))
        if (text_of(file) or "") != (before or ""):
            told = (
                f"{file} differs from the shown text, so it stays unchanged. Run the command again."
            )
            raise ConfigurationError(told)
        write()
    return {"title": title, "file": str(file), "diff": "\n".join(diff), "written": is_written}


def _report(survey: Survey, changes: list[Wire], proofs: list[Wire]) -> None:
    for note in survey.notes:
        show_line(note)
    if not changes and (survey.agents or survey.servers):
        show_line("Everything that was found is governed already, so nothing was changed.")
    if changes and not any(change["written"] for change in changes):
        show_line("Nothing was written. `toolstile init --yes` writes these changes.")
    for proof in proofs:
        verdict = "refused" if proof["refused"] else "NOT refused. See `toolstile hook doctor`"
        show_line(printable(f"Proof: {proof['by']} asks to run `{proof['call']}`: {verdict}."))
        show_line(printable(f"  {proof['reason']}"))


def _proofs(survey: Survey) -> Iterator[Wire]:
    """Yield a refused call of a governed agent, or else of a wrapped server."""
    if agents := [*hooked(survey.project)]:
        agent, file, _ = agents[0]
        yield _proof_of(agent, file)
    elif survey.servers:
        yield _proof_of_wrapping()


def _proof_of(agent: Agent, file: Path) -> Wire:
    """Run the installed hook on calls that would delete files; it only decides on them."""
    tool = next(name for name in agent.categories if "command" in ARGUMENTS.get(name, {}))
    proof: Wire = {}
    # The presets deny the first. If a person's own rules do not, the protection denies the second.
    for command in ("git status && rm -rf /", f"git status && rm -rf {file}"):
        call = {"tool_name": tool, "tool_input": {"command": command}, "tool_use_id": new_id()}
        done = answered(agent, {**agent.probe(Path.cwd()), **call})
        answer = json.loads(done.stdout or "{}")
        said = answer.get("hookSpecificOutput", answer)
        verdict = said.get("permissionDecision", said.get("decision"))
        reason = said.get("permissionDecisionReason", said.get("reason", done.stderr))
        proof = {"by": agent.title, "call": command, "refused": verdict == "deny", "reason": reason}
        if proof["refused"]:
            break
    return proof


def _proof_of_wrapping() -> Wire:
    """Call a tool that writes through `toolstile wrap`, with our own server in an empty folder."""
    # The question of the call is for no person, so it is kept with the folder alone.
    with (
        TemporaryDirectory() as folder,
        TemporaryDirectory() as state,
        Path(os.devnull).open("w") as log,
    ):
        try:
            is_error, reason = asyncio.run(_called(folder, state, log))
        except Exception as error:  # noqa: BLE001 - the proof failed; the person reads why
            is_error, reason = False, str(error)
        is_refused = is_error and not Path(folder, _PROOF).exists()
    return {"by": "A client", "call": "write_file", "refused": is_refused, "reason": reason}


async def _called(folder: str, state: str, log: TextIO) -> tuple[bool, str]:
    with needing("The proof needs {name}.", "mcp"):
        import mcp

    ours = [sys.executable, "-I", "-m", "toolstile"]
    words = [*ours[1:], "wrap", "--name", "proof", "--", *ours, "mcp", "--workspace", folder]
    environment = {**os.environ, "XDG_STATE_HOME": state}
    server = mcp.StdioServerParameters(command=ours[0], args=words, env=environment, cwd=folder)
    wrapper = mcp.stdio_client(server, errlog=log)
    async with mcp.Client(wrapper, read_timeout_seconds=_LONGEST) as client:
        result = await client.call_tool("write_file", {"path": _PROOF, "content": ""})
    return bool(result.is_error), " ".join(
        str(getattr(part, "text", "")) for part in result.content
    )
