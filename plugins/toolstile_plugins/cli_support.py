"""Shared parts of the commands of plugins: their parsers, extras, and questions.

Because the help of a command needs its parser alone, this module imports no library and not the
contract; nor do the modules `cli.py` of the plugins, which declare their commands.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile_hookspecs import HostHandle, Tool


PROBE: Final = "toolstile-doctor"
"""The session of calls that only test a hook."""
_AGO: Final = re.compile("([0-9]{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def late(function: str) -> Callable[[HostHandle, argparse.Namespace], int]:
    """Return the function `module:name` of a command; it is imported when the command runs."""

    def run(host: HostHandle, args: argparse.Namespace) -> int:
        module, _, name = function.partition(":")
        status: int = getattr(import_module(module), name)(host, args)
        return status

    return run


def besides(*looking: str) -> Callable[[Sequence[str]], bool]:
    """Return a `Command.decides` that is true unless one of these subcommands is given."""
    return lambda words: next((word for word in words if word[:1] != "-"), "") not in looking


def unseen(_done: float, _total: float) -> None:
    """Show no progress; in the place of the function that `screen.progress` gives."""


def state_folder() -> Path:
    """Return our folder in the user's directory for state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state, "toolstile").expanduser().absolute()


def listed_examples(examples: Mapping[str, str]) -> str:
    """Return the examples of a help text: each command line with its purpose."""
    width = max(map(len, examples))
    lines = [f"  {typed:{width}}  {does}" for typed, does in examples.items()]
    return "\n".join(["examples:", *lines])


def subcommands(
    parser: argparse.ArgumentParser, *, required: bool = True
) -> Callable[..., argparse.ArgumentParser]:
    """Return a function that adds a command beneath a command, and returns the new parser.

    The function takes the name, one line for the help, and examples: pairs of the words after the
    name and their purpose.
    """
    adder = parser.add_subparsers(dest="what", required=required)

    def add(name: str, text: str, *examples: tuple[str, str]) -> argparse.ArgumentParser:
        typed = {f"{parser.prog} {name} {rest}".rstrip(): does for rest, does in examples}
        adder.metavar = "|".join([*adder.choices, name])
        return adder.add_parser(
            name,
            help=text,
            description=f"{text[:1].upper()}{text[1:]}.",
            epilog=listed_examples(typed),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    return add


def add_session(
    parser: argparse.ArgumentParser,
    text: str = "the stored session to continue or create; see [plugins.sessions], "
    "[plugins.database]",
) -> None:
    """Add the option with the name of a session."""
    parser.add_argument("--session", type=_session_name, metavar="NAME", help=text)


def moment(text: str) -> datetime:
    """Return a time: ISO 8601, in UTC unless it names a zone, or a time ago."""
    try:
        if (ago := _AGO.fullmatch(text.strip())) is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text.strip())
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        msg = f"{text!r} is not a time; write 2026-01-31, 2026-01-31T12:00, or 30m, 2h or 7d ago"
        raise argparse.ArgumentTypeError(msg) from None


def _session_name(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError("a session has a name, of printable characters")
    return text


@contextmanager
def needing(told: str, extra: str) -> Generator[None]:
    """Turn a failed import in the block into a `ConfigurationError` that names the extra.

    `told` is the feature that needs it; `{name}` in it is replaced by the missing module.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("toolstile"):
            raise
        from toolstile_hookspecs import ConfigurationError
        from toolstile_hookspecs.support.text import extra_remedy

        why = told.format(name=error.name)
        raise ConfigurationError(f"{why} {extra_remedy(extra)}.") from error


def described_category(tool: Tool[Any, Any]) -> str:
    """Return the category of a tool as a question names it.

    A foreign tool has the category of deletion if its server calls it destructive, although it may
    only overwrite.
    """
    if tool.category == "delete" and tool.origin is not None:
        return "destructive"
    return tool.category.replace("_", " ")
