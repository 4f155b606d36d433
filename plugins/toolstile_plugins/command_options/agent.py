"""The arguments of `toolstile ask` and `toolstile check-done`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments

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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HELP
    parser.add_argument("text", metavar="TEXT", help="the request; - for standard input")
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="the model (default: the one in the configuration)",
    )
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="the address of the provider's API, such as a local model's",
    )
    parser.add_argument(
        "--session",
        type=_session_name,
        metavar="NAME",
        help="the stored session to continue or create; see [plugins.sessions], [plugins.database]",
    )


def _configure_check(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _CHECK_HELP
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="the last answer")
    parser.add_argument(
        "--session", type=_session_name, metavar="NAME", help="the stored session of the task"
    )


def _session_name(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError("a session has a name, of printable characters")
    return text


ASK: Final = Arguments("ask", _configure, "ask a model that can use the tools")
CHECK_DONE: Final = Arguments(
    "check-done", _configure_check, "check whether a task is complete, and list the missing parts"
)
ARGUMENTS: Final = (ASK, CHECK_DONE)
