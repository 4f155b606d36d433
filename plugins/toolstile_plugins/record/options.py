"""The commands `record` and `replay`, and what the options of recording change in settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, model_validator

from toolstile_hookspecs import Command, ConfigurationError
from toolstile_plugins.command_options.record import RECORD, RECORDED, REPLAY, REPLAYABLE


class RecordSettings(BaseModel):
    """The settings of recording and replaying.

    Args:
        file: The file that every call is appended to; None to record nothing.
        folder: A directory in which each run gets a record of its own. It serves hosts that run at
            the same time.
        fsync: Whether each line is on the disk before the call ends, and survives a loss of power.
        replay: A record to answer calls from, in place of the handlers; None to run them.
        off: Whether nothing is recorded or replayed. The commands that make no calls set it.
        strict: Whether calls are answered in the recorded order only, and not by their names
            and arguments.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path | None = None
    folder: Path | None = None
    fsync: bool = False
    replay: Path | None = None
    off: bool = False
    strict: bool = False

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.file is not None and self.folder is not None:
            raise ValueError("give either a file for all runs, or a folder with one for each")
        return self


_OFF: Final = {"plugins.record.off": True}
"""For commands that make no calls, or look at records: none is written meanwhile."""


def offered_commands() -> list[Command]:
    """Return the commands and options."""
    return [
        *(
            Command(command, extends=True, configure=configure, settings=_chosen)
            for command, configure, _ in REPLAYABLE
        ),
        *(
            Command(
                command,
                extends=True,
                optional=True,
                configure=configure,
                settings=_chosen_to_record,
            )
            for command, configure, _ in RECORDED
        ),
        *(
            Command(name, extends=True, settings=_switched_off)
            for name in ("tools", "prompt", "plugins")
        ),
        *(
            Command(name, extends=True, optional=True, settings=_switched_off)
            for name in ("console", "ledger")
        ),
        Command("approvals", extends=True, optional=True, settings=_off_unless_resumed),
        RECORD.offered("toolstile_plugins.record.commands", "look", _switched_off),
        REPLAY.offered("toolstile_plugins.record.commands", "call", _switched_off),
    ]


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    if args.strict and args.replay is None:
        raise ConfigurationError("--strict says how to replay: give --replay FILE, too.")
    chosen = _recorded(args)
    if args.replay is not None:
        chosen["plugins.record.replay"] = args.replay
        chosen["plugins.record.strict"] = args.strict
    return chosen


def _chosen_to_record(args: argparse.Namespace) -> dict[str, Any]:
    """Record calls; the commands that manage servers make none."""
    return _recorded(args) if getattr(args, "what", None) is None else _switched_off(args)


def _recorded(args: argparse.Namespace) -> dict[str, Any]:
    if args.record is None:
        return {}
    return {"plugins.record.file": args.record, "plugins.record.folder": None}


def _switched_off(args: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001 - whatever they are
    return dict(_OFF)


def _off_unless_resumed(args: argparse.Namespace) -> dict[str, Any]:
    """Record the calls that are resumed; who answers makes none."""
    return {} if args.what == "resume" else dict(_OFF)
