"""The options of recording and replaying, and the commands `record` and `replay`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolstile_plugins.cli_support import late, moment, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command


_OFF: Final[dict[str, Any]] = {"plugins.record.off": True}
"""For commands that make no calls, or read records: they write no record."""
_BESIDE: Final[dict[str, Any]] = {"plugins.record.beside": True}

OUTCOMES: Final = (
    *("succeeded", "failed", "unknown_tool", "invalid", "denied", "pending", "error", "timed_out"),
    *("cancelled", "deadline", "conflict", "commit_failed", "unknown", "raised"),
)
"""The values of `Status`; a test compares them."""

_RECORD_EXAMPLES: Final = """\
examples:
  toolstile run --example --record calls.jsonl   record a session
  toolstile record show calls.jsonl              list its calls
  toolstile record show calls.jsonl --line 5     show one call in full
  toolstile record show calls.jsonl --html a.html  draw a timeline to open in a browser
  toolstile record list records --tool 'read_*'  list records with calls of such tools
  toolstile record verify calls.jsonl            check that no line was changed
"""
_REPLAY_EXAMPLES: Final = """\
examples:
  toolstile replay --example calls.jsonl             answer its calls from the record
  toolstile replay --example --execute calls.jsonl   run them again, show the differences
  toolstile replay --execute --workspace DIR --approve all calls.jsonl
  toolstile run more.jsonl --replay calls.jsonl      answer other calls from the record
"""


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record", type=_absolute, metavar="FILE", help="append every call to this record"
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    _add_record(parser)
    parser.add_argument(
        "--replay",
        type=_absolute,
        metavar="FILE",
        help="answer the calls from this record; no handler runs",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="with --replay: answer only in the recorded order, not by name and arguments",
    )


def _absolute(text: str) -> str:
    return str(Path(text).absolute())


def _line(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        msg = f"{text!r} is not the number of a line, as `toolstile record show FILE` lists it"
        raise argparse.ArgumentTypeError(msg) from None


def _configure_record(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _RECORD_EXAMPLES
    add = subcommands(parser)
    show = add(
        "show",
        "list the calls of a record, or show one",
        ("calls.jsonl", "list its calls"),
        ("calls.jsonl --line 5", "show the call on line 5 in full"),
        ("calls.jsonl --html report.html", "write a page with a timeline of its calls"),
        ("calls.jsonl --json", "print each call as JSON"),
        ("records --outcome denied", "list the denied calls of a folder"),
    )
    show.add_argument("file", type=Path, metavar="FILE", help="the record, or a folder of records")
    _add_selection(show)
    how = show.add_mutually_exclusive_group()
    how.add_argument("--line", type=_line, metavar="N", help="show the call on this line in full")
    how.add_argument(
        "--html", type=Path, metavar="OUT", help="write one self-contained page with a timeline"
    )
    listing = add(
        "list",
        "list the records of a folder, with their tools and outcomes",
        ("records", "list all of them, oldest first"),
        ("records --since 2d", "list records of the last two days"),
        ("records --tool 'read_*'", "list records with such tools"),
    )
    listing.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of records")
    _add_selection(listing)
    check = add(
        "verify",
        "check that no line of a record was changed",
        ("calls.jsonl", "check every line"),
        ("calls.jsonl --last HASH", "also check that none is missing"),
    )
    check.add_argument("file", type=Path, metavar="FILE", help="the record")
    check.add_argument("--last", metavar="HASH", help="the expected hash of the last line")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="only calls of tools that match this glob",
    )
    parser.add_argument(
        "--outcome",
        action="append",
        default=[],
        type=_outcome,
        metavar="OUTCOME",
        help=f"only calls with this outcome: {', '.join(OUTCOMES)}",
    )
    parser.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help="only calls after this time: 2026-01-31T12:00 (UTC), or 2h, 7d for a time ago",
    )
    parser.add_argument("--until", type=moment, metavar="TIME", help="only calls before this time")


def _outcome(text: str) -> str:
    outcome = text.strip().lower().replace("-", "_").replace(" ", "_")
    if outcome not in OUTCOMES:
        # Because help must not load the contract, this import is late.
        from toolstile_hookspecs.support.text import suggest

        hint = suggest(text, OUTCOMES) or f"; there are {', '.join(OUTCOMES)}"
        raise argparse.ArgumentTypeError(f"{text!r} is not an outcome{hint}")
    return outcome


def _configure_replay(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _REPLAY_EXAMPLES
    parser.add_argument("file", type=Path, metavar="FILE", help="the record")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--strict",
        action="store_true",
        help="answer only in the recorded order, not by name and arguments",
    )
    how.add_argument(
        "--execute", action="store_true", help="run the handlers again, and show the differences"
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    if args.strict and args.replay is None:
        from toolstile_hookspecs import ConfigurationError

        raise ConfigurationError("--strict says how to replay: give --replay FILE, too.")
    chosen = {**_recorded(args)}
    if args.replay is not None:
        chosen["plugins.record.replay"] = args.replay
        chosen["plugins.record.strict"] = args.strict
    return chosen


def _chosen_to_record(args: argparse.Namespace) -> dict[str, Any]:
    # A command that manages servers makes no calls.
    return _recorded(args) if getattr(args, "what", None) is None else _OFF


def _recorded(args: argparse.Namespace) -> dict[str, Any]:
    if args.record is None:
        return _BESIDE
    return {"plugins.record.file": args.record, "plugins.record.folder": None}


def commands(command: type[Command]) -> list[Command]:
    """Return the commands, and those with the options."""
    run = late("toolstile_plugins.record.commands:run_command")
    optional = partial(command, extends=True, optional=True)
    return [
        *(
            command(name=name, extends=True, configure=_add_options, settings=_chosen)
            for name in ("run", "call")
        ),
        *(
            optional(name=name, configure=_add_record, settings=_chosen_to_record)
            for name in ("mcp", "ask")
        ),
        *(
            optional(name=name, settings=lambda _: _OFF)
            for name in ("tools", "prompt", "plugins", "console", "ledger")
        ),
        # The helper of a hook and these commands may run at the same time.
        *(optional(name=name, settings=lambda _: _BESIDE) for name in ("hook", "undo")),
        # Record the calls that are resumed; an answer makes none.
        optional(
            name="approvals", settings=lambda args: _BESIDE if args.what == "resume" else _OFF
        ),
        command(
            name="record",
            help="show a record of calls, or check that it was not changed",
            run=run,
            configure=_configure_record,
            settings=lambda _: _OFF,
            purpose="look",
        ),
        command(
            name="replay",
            help="repeat recorded calls, answered from the record or executed again",
            run=run,
            configure=_configure_replay,
            settings=lambda _: _OFF,
        ),
    ]
