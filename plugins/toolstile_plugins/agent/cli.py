"""The commands `toolstile ask` and `toolstile check-done`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from toolstile_plugins.cli_support import add_session, late

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_HELP: Final = """\
examples:
  toolstile ask "Which files are large?" --workspace .          ask with the tools of the host
  toolstile ask "Tidy up." --model anthropic:claude-sonnet-4-5  name the provider and the model
  toolstile ask "Hello" --model openai:qwen3 --base-url http://localhost:11434/v1
  toolstile ask "And now?" --session chores                     continue a stored conversation
  toolstile ask - --json < request.txt                          read stdin, print JSON
"""
_CHECK_HELP: Final = """\
examples:
  toolstile check-done --workspace .         check the files of a directory
  toolstile check-done --session chores      check a stored session with a plan
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("text", metavar="TEXT", help="the request; - for standard input")
    parser.add_argument(
        "--model", metavar="PROVIDER:NAME", help="the model (default: the one in the configuration)"
    )
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="the address of the provider's API, such as a local model's",
    )
    add_session(parser)


def _configure_check(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _CHECK_HELP
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="the last answer")
    add_session(parser, "the stored session of the task")


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    given = {"model": args.model, "base_url": args.base_url}
    return {f"plugins.agent.{key}": value for key, value in given.items() if value is not None}


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="ask",
            help="ask a model that can use the tools",
            run=late("toolstile_plugins.agent.ask:ask"),
            configure=_configure,
            settings=_chosen,
        ),
        command(
            name="check-done",
            help="check whether a task is complete, and list the missing parts",
            run=late("toolstile_plugins.agent.ask:check_done"),
            configure=_configure_check,
            purpose="look",
        ),
    ]
