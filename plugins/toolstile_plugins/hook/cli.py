"""The commands `toolstile hook` and `toolstile init`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import besides, late, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile hook install claude-code                 govern Claude Code in this project
  toolstile hook install claude-code --user          and in all projects of this user
  toolstile hook uninstall claude-code               take out exactly these lines
  toolstile hook doctor                              check that the hooks answer
  toolstile hook test claude-code < event.json       show the answer to an event
"""
_AGENTS: Final = ("claude-code", "codex", "gemini")
_SCOPES: Final = {
    "project": "the settings of the project in this directory (default)",
    "user": "the settings of this user",
    "managed": "the settings of this machine, which users cannot change",
}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add = subcommands(parser)
    texts = {
        "install": "put the hook into the settings of an agent",
        "uninstall": "take the hook out of the settings of an agent",
    }
    for name, text in texts.items():
        command = add(name, text, ("claude-code", "in the project of this directory"))
        command.add_argument("agent", choices=_AGENTS, help="the agent")
        places = command.add_mutually_exclusive_group()
        for scope, where in _SCOPES.items():
            places.add_argument(
                f"--{scope}", dest="scope", action="store_const", const=scope, help=where
            )
    add("doctor", "check that installed hooks answer", ("", "check each"))
    test = add(
        "test",
        "answer an event from standard input as the hook would, without a helper",
        ("claude-code < event.json", "print the answer to an event"),
    )
    test.add_argument("agent", choices=_AGENTS, help="the agent")
    sandbox = add(
        "sandbox",
        "run a command of an agent in the sandbox; only a success lands",
        ("FOLDER NOTE LINE", "a hook starts this itself"),
    )
    texts = {"folder": "its directory", "note": "the call, for an undo", "line": "the command"}
    for name, text in texts.items():
        sandbox.add_argument(name, help=text)
    add("serve", "answer the hooks of this directory until idle", ("", "a hook starts this itself"))


_INIT_HELP: Final = """\
examples:
  toolstile init              ask before each change
  toolstile init --dry-run    show the changes, and write none
  toolstile init --yes        write them without a question
"""


def _configure_init(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _INIT_HELP
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, and write none")


_PENDING: Final = {"plugins.inbox.wait": "pending"}
UNDO: Final = {"plugins.undo.keep": "7 days", "plugins.vfs.root": "."}
"""The configuration for an undo, because a hook needs none."""


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="hook",
            help="govern the tools of a coding agent, such as Claude Code",
            run=late("toolstile_plugins.hook.commands:run_command"),
            configure=_configure,
            settings=lambda args: _PENDING if args.what in {"serve", "test"} else {},
            defaults={"approver": "inbox", **UNDO},
            purpose=lambda args: "call" if args.what in {"serve", "test"} else "look",
            decides=besides("doctor", "sandbox", "test"),
        ),
        command(
            name="init",
            help="govern the coding agents and MCP servers here: show each change, then write it",
            run=late("toolstile_plugins.hook.init:run_command"),
            configure=_configure_init,
            purpose="look",
        ),
    ]
