"""The options and commands, and their help."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, cast

from toolstile_cli.examples import OPTION, SESSIONS, listed, named_examples
from toolstile_cli.exit_codes import Exit
from toolstile_plugins.cli_support import add_session, listed_examples

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


# --- Examples in the help


EXAMPLES_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "demo": {
        "toolstile demo": "show all five scenes; the exit status is 1 if a proof fails",
        "toolstile demo --scene 3 --keep shop": "show one of them, and keep its files in ./shop",
        "toolstile demo --block ledger": "show how a payment happens twice without the ledger",
    },
    "run": {
        "toolstile run --example": "run the session of an example",
        "toolstile run session.jsonl": "run recorded calls, one JSON object per line",
        "toolstile run chat.json --json": "run a recorded conversation, print JSON",
        "toolstile run session.jsonl --parallel": "run all calls at once",
        "toolstile run session.jsonl --dry-run": "show all changes, keep none",
        "toolstile run session.jsonl --transaction": "keep the changes of all calls, or none",
    },
    "call": {
        "toolstile call list_orders --example": "call a tool of an example",
        "toolstile call list_directory path=. --workspace .": "list a directory",
        """toolstile call list_directory '{"path": "."}' --workspace .""": "the same, in JSON",
        "toolstile call read_file - --workspace . < arguments.json": "read arguments from stdin",
    },
    "tools": {
        "toolstile tools": "list the tools with their arguments",
        "toolstile tools --schema openai": "print them in a provider's format",
        "toolstile tools --plugin room.py --json": "include the tools of a file, print JSON",
    },
    "prompt": {
        "toolstile prompt": "print the prompt and its tools",
        "toolstile prompt --overrides": "print a file for overriding its texts",
    },
    "plugins": {
        "toolstile plugins": "list the plugins, and why one did not load",
        "toolstile plugins --block mcp,otel": "list them without loading two",
    },
    "check": {
        "toolstile check": "check all plugins",
        "toolstile check weather": "check an installed plugin",
        "toolstile check --plugin room.py room": "check a plugin in a single file",
    },
    "completion": {
        'eval "$(toolstile completion bash)"': "in ~/.bashrc: complete with the Tab key",
        'eval "$(toolstile completion zsh)"': "in ~/.zshrc, after compinit",
        "toolstile completion fish | source": "in ~/.config/fish/config.fish",
    },
    "stop": {
        "toolstile stop": "stop all calls, in all processes",
        "toolstile stop --tool 'send_*' --reason Spam --for 1h": "stop some for an hour",
        "toolstile stop --session desk --reason 'Runs in circles'": "stop the calls of a session",
    },
    "go": {"toolstile go": "end all stops, in all processes"},
    "status": {
        "toolstile status": "show the stops, and the present state of everything governed here",
        "toolstile status --json": "print the same as one JSON object",
    },
    "doctor": {
        "toolstile doctor": "check everything; the exit status is 1 if there is a problem",
        "toolstile doctor --config prod.toml --json": "check another configuration, print JSON",
    },
    "new": {
        "toolstile new weather": "create a package with tools in ./toolstile-weather",
        "toolstile new office-hours --kind policy": "create a package with a policy",
        "toolstile new chat --kind approver --path src": "create a package in the folder src",
    },
}
"""By command, its examples and their descriptions."""


# --- Options and commands


_STATUSES: Final = (
    "exit status: 0 success, 1 a call failed, 2 wrong input or configuration,\n"
    "  70 a bug in Toolstile or a plugin, 130 interrupted\n"
)
_HELP: Final = "toolstile help COMMAND shows the options and examples of a command"
MORE: Final = "All options of `toolstile --help` work here, too."

COMMANDS: Final = {
    "demo": "show five scenes of tool calls, each with its proof",
    "run": "run recorded calls and show the outcome of each",
    "call": "run one call and print its result as a model reads it",
    "tools": "list the tools, or print them in a provider's format",
    "prompt": "print the prompt, built from the sections of all plugins",
    "plugins": "list the plugins, and why one did not load",
    "check": "check plugins for mistakes that their authors should fix",
    "stop": "stop calls: nothing of them is committed after this command has returned",
    "go": "end all stops",
    "status": "show stops, rules, governed agents, the last calls, waiting questions and undos",
    "new": "create a package for a plugin, with tests that pass",
    "doctor": "find problems of this installation, and how to fix them",
    "completion": "print a script that makes a shell complete commands, options and names",
}
_GROUPS: Final = {
    "Call": ("demo", "run", "call", "ask", "replay"),
    "Look": ("status", "tools", "prompt", "plugins", "doctor", "sessions", "record", "check-done"),
    "Govern": ("init", "stop", "go", "undo", "approvals", "ledger", "policy", "database"),
    "Serve": ("mcp", "console", "worker"),
    "Make": ("new", "check", "completion"),
}
"""The groups of commands in the help; commands of other plugins follow."""
KINDS: Final[Mapping[str, str]] = {
    "suite": "Tools for agents, with their memory in the session.",
    "policy": "A policy that limits agents.",
    "observer": "An observer of agents' calls.",
    "store": "A store of effects that happen once.",
    "approver": "An approver, who answers for a person.",
}
"""The kinds of packages by name; the first is the default."""

DEFAULT_KIND: Final = next(iter(KINDS))

SHELLS: Final = ("bash", "zsh", "fish")
"""The shells that can be taught to complete commands."""

FIRST: Final = frozenset({"-h", "--help", "--"})
"""The words that may precede a command, beside the common options."""
WITHOUT_HOST: Final = frozenset({"completion", "demo", "doctor", "new"})
"""Commands that need no host, and work without a valid configuration."""


class _Grouped(argparse.RawDescriptionHelpFormatter):
    """Lists the commands in their groups."""

    def _format_action(self, action: argparse.Action) -> str:
        listed = getattr(action, "_choices_actions", None)
        if not listed:
            return super()._format_action(action)
        left: dict[str, argparse.Action] = {each.dest: each for each in listed}
        groups = {
            title: [left.pop(name) for name in names if name in left]
            for title, names in _GROUPS.items()
        }
        groups["Other plugins"] = [*left.values()]
        shown = super()._format_action
        self._indent()
        texts = [
            f"  {title}:\n{''.join(map(shown, found))}" for title, found in groups.items() if found
        ]
        self._dedent()
        return "\n".join(texts)


class Parser(argparse.ArgumentParser):
    """A parser with Toolstile's form of error messages."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; argparse would ignore that the output cannot be written."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Print the error and where help is, and exit with the status of a usage error."""
        refuse(message, self.prog)


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str], common: argparse.Namespace
) -> argparse.Namespace:
    """Return the parsed arguments; refuse unknown ones with the command's own help."""
    args, surplus = parser.parse_known_args(arguments, common)
    if args.command == "call" and not any(word.startswith("-") for word in surplus):
        # argparse gives up on arguments that stand after an option.
        args.arguments, surplus = [*args.arguments, *surplus], []
    if surplus:
        chosen = _chosen(parser, args)
        hint = _meant(surplus[0], (chosen, parser))
        refuse(f"unrecognized arguments: {' '.join(surplus)}{hint}", chosen.prog)
    return args


def _chosen(parser: argparse.ArgumentParser, args: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the command that was given, or of a command's command."""
    for what, commands in beneath(parser):
        given = commands.get(getattr(args, what, ""))
        return parser if given is None else _chosen(given, args)
    return parser


def beneath(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, Mapping[str, argparse.ArgumentParser]]]:
    """Yield the destination of each subcommand of a parser, and the parsers by name."""
    for action in parser._actions:  # noqa: SLF001 - listed nowhere else  # pyright: ignore[reportPrivateUsage]
        choices = cast("object", action.choices)
        if isinstance(choices, Mapping):
            # The choices of an option may be a mapping, too.
            named = cast("Mapping[str, object]", choices).items()
            parsers = {k: v for k, v in named if isinstance(v, argparse.ArgumentParser)}
            if parsers:
                yield action.dest, parsers


def _meant(given: str, parsers: Iterable[argparse.ArgumentParser]) -> str:
    """Return the option that was meant, ` (did you mean --parallel?)`, or nothing."""
    if not given.startswith("--"):
        return ""
    from toolstile_hookspecs.support.text import nearest  # the help waits for none of this

    known = [
        option.removeprefix("--")
        for parser in parsers
        for option in parser._option_string_actions  # noqa: SLF001 - listed nowhere else  # pyright: ignore[reportPrivateUsage]
        if option.startswith("--")
    ]
    meant = nearest(given.removeprefix("--").partition("=")[0], known)
    return "" if meant is None else f" (did you mean --{meant}?)"


def refuse(message: str, program: str) -> NoReturn:
    """Exit with a message about wrong usage."""
    from toolstile_cli.errors import say  # likewise

    say("error", f"{message}. See `{program} --help`.")
    sys.exit(Exit.USAGE)


def common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that can be given anywhere."""
    group = parser.add_argument_group("options of all commands, before or after them")
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="use this configuration file and no other"
    )
    group.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="NAMES",
        help="do not load these plugins, separated by commas",
    )
    group.add_argument(
        "--plugin",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.py",
        help="also load a plugin from a file, or enable the tools of an installed plugin by its "
        "name; can be repeated",
    )
    for option, text in (
        ("--tag", "offer only the tools with one of these tags, separated by commas"),
        ("--without", "hide the tools with one of these tags, separated by commas"),
    ):
        group.add_argument(option, action="append", default=[], metavar="TAGS", help=text)
    group.add_argument(
        OPTION,
        choices=tuple(SESSIONS),
        metavar="[NAME]",
        help=f"also load an example (there are {listed(tuple(SESSIONS))}); the first by default",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help="timeout for each call of a tool that sets no timeout; 'none' for no limit",
    )
    group.add_argument("--json", action="store_true", help="print only JSON Lines on stdout")
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log to stderr; -vv logs more, with tracebacks",
    )
    group.add_argument("-V", "--version", action="store_true", help="print the version and exit")


def take_common(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split the common options, wherever they stand, from the rest."""
    parser = Parser(prog="toolstile", add_help=False, allow_abbrev=False)
    common_options(parser)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    common, rest = parser.parse_known_args(named_examples(arguments[:end]))
    for lists in ("block", "tag", "without"):
        names = (name.strip() for each in getattr(common, lists) for name in each.split(","))
        setattr(common, lists, tuple(name for name in names if name))
    return common, [*rest, *arguments[end:]]


def main_parser(more: Iterable[tuple[str, str]] = ()) -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of everything, and the commands' parsers by name.

    Further commands are given by name and help.
    """
    firsts = dict(next(iter(examples.items())) for examples in EXAMPLES_OF.values())
    parser = Parser(
        prog="toolstile",
        usage="toolstile [options] COMMAND ...",
        description="Run an agent's tool calls with validation, policies and approvals.",
        epilog=f"{listed_examples(firsts)}\n\n{_HELP}\n{_STATUSES}",
        formatter_class=_Grouped,
        allow_abbrev=False,
    )
    adder = parser.add_subparsers(
        prog="toolstile", title="commands", metavar="COMMAND", dest="command"
    )
    parsers: dict[str, Parser] = {}
    for name, text in (*COMMANDS.items(), *more):
        examples = EXAMPLES_OF.get(name)
        parsers[name] = adder.add_parser(
            name,
            help=text,
            description=f"{text[:1].upper()}{text[1:].rstrip('.')}.",
            epilog=f"{listed_examples(examples)}\n\n{MORE}" if examples else MORE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    common_options(parser)
    for name, configure in _CONFIGURE.items():
        configure(parsers[name])
    return parser, parsers


def restore_common_options(parser: argparse.ArgumentParser) -> None:
    """Restore the common part that the plugin's own epilogs have replaced."""
    epilog = parser.epilog or ""
    if MORE not in epilog:
        parser.epilog = f"{epilog.rstrip()}\n\n{MORE}".lstrip()
    for _, commands in beneath(parser):
        for command in commands.values():
            restore_common_options(command)


def _configure_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scene",
        type=int,
        choices=range(1, 6),
        metavar="N",
        help="show only scene 1, 2, 3, 4 or 5",
    )
    keeping = "keep workspace, databases and bank.log in this new folder"
    parser.add_argument("--keep", type=Path, metavar="DIR", help=keeping)
    parser.add_argument("--yes", action="store_true", help="approve the deletion of scene 4")


def _configure_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="calls as JSON Lines, or a recorded conversation; - for standard input",
    )
    parser.add_argument(
        "--parallel", action="store_true", help="run all calls at once, isolated from each other"
    )
    parser.add_argument(
        "--transaction",
        action="store_true",
        help="keep the changes of all calls by one decision at the end, or none; tools whose "
        "effects cannot be rolled back are denied",
    )
    _add_shared(parser)


def _configure_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="KEY=VALUE",
        help="its arguments; each value is read by the tool's schema. Or one JSON object, or - for "
        "a JSON object on standard input",
    )
    _add_shared(parser)


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show the changes of each call and keep none; tools whose effects cannot be undone "
        "are denied",
    )
    add_session(parser)
    parser.add_argument("--request", action="append", metavar="TEXT", help="the user's request")


def _configure_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the plugin's name: lower-case letters, digits and hyphens"
    )
    parser.add_argument(
        "--kind",
        choices=tuple(KINDS),
        default=DEFAULT_KIND,
        help=f"the kind of plugin (default: {DEFAULT_KIND})",
    )
    parser.add_argument(
        "--path",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="create the package in this folder (default: the current one)",
    )


def _configure_stop(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--all", action="store_true", help="stop all calls (default)")
    for option, name, text in (
        ("--tool", "GLOB", "stop the calls of tools with this name, or glob"),
        ("--principal", "P", "stop the calls for the principal with this id"),
        ("--session", "S", "stop the calls in the session with this id"),
        ("--server", "NAME", "stop the calls of the tools of this server"),
    ):
        scope.add_argument(option, metavar=name, help=text)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, which models read")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_duration,
        metavar="TIME",
        help="end the stop after this time, such as 90s, 10m, 1h or 2d",
    )


_CONFIGURE: Final[Mapping[str, Callable[[Parser], object]]] = {
    "demo": _configure_demo,
    "completion": lambda parser: parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish"
    ),
    "check": lambda parser: parser.add_argument(
        "names",
        nargs="*",
        metavar="FILE.py",
        help="the plugins or packages to check (default: all)",
    ),
    "new": _configure_new,
    "stop": _configure_stop,
    "prompt": lambda parser: parser.add_argument(
        "--overrides",
        action="store_true",
        help="print a file for overriding the prompt's texts, for the key prompt_overrides",
    ),
    "run": _configure_run,
    "call": _configure_call,
    "tools": lambda parser: parser.add_argument(
        "--schema", metavar="DIALECT", help="print the tools in the format of this provider"
    ),
}


def _seconds(text: str) -> float | None:
    if text.lower() == "none":
        return None
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < math.inf:
            return seconds
    msg = f"{text!r} is not a positive number of seconds; 'none' stands for no limit"
    raise argparse.ArgumentTypeError(msg)


def _duration(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m, 1h or 2d")
    return int(found[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]
