"""The command `toolstile init`: governs the agents and servers here, and proves it by a refusal."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_hookspecs.support.process import new_id
from toolstile_hookspecs.support.text import extra_remedy, printable
from toolstile_plugins.hook.agents import ARGUMENTS, Agent
from toolstile_plugins.hook.client import folder_of, private
from toolstile_plugins.hook.commands import answered
from toolstile_plugins.hook.install import diff_of, text_of
from toolstile_plugins.hook.person import refuse_agents
from toolstile_plugins.hook.proposals import Proposal, Survey
from toolstile_plugins.hook.survey import hooked
from toolstile_plugins.screen import agrees, show_line

_FAILED: Final = 1
_LIBRARIES: Final = {"commands": "tree_sitter_bash", "inbox": "cryptography", "mcp": "mcp"}
"""The modules of extras."""
_LONGEST: Final = 30.0
_NOTHING: Final = (
    "Nothing to govern was found here: no coding agent, no server of an MCP client, and no agent "
    "framework. Name an agent: toolstile hook install claude-code. Or put a server behind rules: "
    "toolstile wrap -- COMMAND"
)
_AT_HOME: Final = (
    "This is your home directory, which also has the state of Toolstile. Run `toolstile init` in "
    "the directory of a project."
)
Wire = dict[str, Any]


def run_command(_: HostHandle, args: argparse.Namespace) -> int:
    """Propose, write and prove; return 1 if nothing may be written, or the proof fails.

    Raises:
        ConfigurationError: Nothing is found, an extra is missing, or a file cannot be changed.
    """
    try:
        home = Path.home().resolve()
    except RuntimeError as error:
        raise ConfigurationError(f"{error} Set the variable HOME.") from error
    if Path.cwd() == home:
        raise ConfigurationError(_AT_HOME)
    try:
        survey = Survey(Path.cwd(), args.preset)
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


def _check_extras(proposals: list[Proposal]) -> None:
    """Raise `ConfigurationError` if a change would need a library that is not installed."""
    extras = sorted({extra for each in proposals for extra in each.extras})
    if missing := [extra for extra in extras if find_spec(_LIBRARIES[extra]) is None]:
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
    client = {"name": "toolstile init", "version": "1"}
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    call = {"name": "write_file", "arguments": {"path": "proof.txt", "content": ""}}
    said: list[Wire] = [
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": "proof", "method": "tools/call", "params": call},
    ]
    ours = [sys.executable, "-I", "-m", "toolstile"]
    with (
        # The question of the call is for no person, so it is kept with the folder alone.
        TemporaryDirectory() as folder,
        TemporaryDirectory() as state,
        subprocess.Popen(  # noqa: S603 - our own
            [*ours, "wrap", "--name", "proof", "--", *ours, "mcp", "--workspace", folder],
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": state},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as wrapper,
    ):
        assert wrapper.stdin is not None and wrapper.stdout is not None  # noqa: S101, PT018 - pipes
        limit = Timer(_LONGEST, wrapper.kill)
        limit.start()
        for each in said:
            wrapper.stdin.write(f"{json.dumps({'jsonrpc': '2.0', **each})}\n")
        wrapper.stdin.flush()
        answers: Iterator[Wire] = map(json.loads, wrapper.stdout)
        found = (each.get("result", {}) for each in answers if each.get("id") == "proof")
        result: Wire = next(found, Wire())
        limit.cancel()
        is_refused = result.get("isError") is True and not Path(folder, "proof.txt").exists()
    text = " ".join(str(part.get("text")) for part in result.get("content", ()))
    return {"by": "A client", "call": "write_file", "refused": is_refused, "reason": text}
