"""The commands `toolstile record` and `toolstile replay`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import HostHandle
from toolstile_plugins.record import display as showing
from toolstile_plugins.record.reader import Numbered, Reader, Recording, verify
from toolstile_plugins.record.schema import RecordError
from toolstile_plugins.record.selection import Selection, records_in, summaries
from toolstile_plugins.screen import Screen

if TYPE_CHECKING:
    from toolstile_plugins.record.replay_run import Comparison


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out a command on a record, or replay one.

    Raises:
        RecordError: A record cannot be read, or lacks what is asked for.
    """
    if (what := getattr(args, "what", None)) is None:
        return replay_record(host, args)
    return {"verify": verify_record, "list": list_records, "show": show_record}[what](args)


def show_record(args: argparse.Namespace) -> int:
    """List the calls of a record or of a folder's records, or show one.

    Raises:
        RecordError: It cannot be read, or has no such line.
    """
    if args.file.is_dir():
        return _show_folder(args)
    reader = Reader(args.file)
    selected = _selection(args)
    if args.out is not None:
        entries = selected.of(reader) if args.line is None else _on_line(args.line, reader)
        for entry in entries:
            args.out.write(showing.wire_of(entry))
        for approval in reader.approvals.values() if args.line is None and selected.is_all else ():
            args.out.write(showing.wire_of_approval(approval))
    elif args.line is not None:
        [found] = _on_line(args.line, reader)
        showing.show_call(Screen(), found)
    else:
        showing.show_table(Screen(), [reader], selected)
    return 0


def _show_folder(args: argparse.Namespace) -> int:
    if args.line is not None:
        raise RecordError(f"{args.file} is a folder, of which no line can be shown. Name a record.")
    readers = [Reader(path) for path in records_in(args.file)]
    selected = _selection(args)
    if args.out is None:
        return 1 if showing.show_table(Screen(), readers, selected, named=True) else 0
    status = 0
    for reader in readers:
        try:
            for entry in selected.of(reader):
                args.out.write({"file": str(reader.path), **showing.wire_of(entry)})
            for approval in reader.approvals.values() if selected.is_all else ():
                args.out.write({"file": str(reader.path), **showing.wire_of_approval(approval)})
        except RecordError as error:
            args.out.write({"file": str(reader.path), "fault": str(error)})
            status = 1
    return status


def list_records(args: argparse.Namespace) -> int:
    """List the records of a folder that hold calls that are asked for.

    Raises:
        RecordError: The folder holds no record.
    """
    found = list(summaries(args.folder, _selection(args)))
    if args.out is None:
        showing.show_summaries(Screen(), found)
    else:
        for summary in found:
            args.out.write(summary.wire())
    return 1 if any(summary.fault is not None for summary in found) else 0


def _selection(args: argparse.Namespace) -> Selection:
    return Selection(tuple(args.tool), tuple(args.outcome), args.since, args.until)


def _on_line(line: int, reader: Reader) -> list[Numbered]:
    found = [entry for entry in reader if entry.line == line]
    if not found:
        raise RecordError(
            f"Line {line} of {reader.path} tells of no call. List them with `toolstile record show "
            f"{reader.path}`."
        )
    return found


def verify_record(args: argparse.Namespace) -> int:
    """Show whether a record is as it was written.

    Raises:
        RecordError: It cannot be read, or is not a record.
    """
    checked = verify(args.file)
    cut = args.last is not None and checked.last != args.last
    if args.out is not None:
        wire = showing.wire_of_checked(checked)
        args.out.write(wire if args.last is None else {**wire, "ends_as_noted": not cut})
    else:
        screen = Screen()
        showing.show_checked(screen, checked)
        if cut:
            screen.line("It does not end with the line that was noted: lines are missing.", "red")
    return 1 if checked.faults or cut else 0


def replay_record(host: HostHandle, args: argparse.Namespace) -> int:
    """Make the calls of a record again, and show what came out differently.

    Raises:
        RecordError: It cannot be read, or nobody offers its tools.
    """
    # `record` replays nothing.
    from toolstile_plugins.record.replay_run import executed, replayed
    from toolstile_plugins.record.replayer import Replayer

    recording = Recording.load(args.file)
    # Raise where the plugins that offered the recorded tools are not loaded.
    known = {tool.name for tool in host.prompt.tools()}
    gone = {
        entry.call.tool
        for entry in recording.calls
        if entry.call.parent is None and entry.call.params is not None
    }
    if gone and not gone & (known | set(host.catalog.names())):
        raise RecordError(
            f"No plugin here offers the tools of {recording.path} ({', '.join(sorted(gone))}). "
            "Load those that did, with --plugin FILE.py or --example, say."
        )
    if args.execute:
        comparisons, what = executed(host, recording), "executed"
    else:
        replay = Replayer(recording, strict=args.strict)
        comparisons, what = replayed(host, recording, replay), "replayed"
    if args.out is None:
        return 0 if showing.show_comparisons(Screen(), comparisons, what) else 1
    return 0 if all([*_written(comparisons, args.out)]) else 1


def _written(comparisons: Iterable[Comparison], out: Any) -> Iterator[bool]:
    for comparison in comparisons:
        out.write(comparison.wire())
        yield not comparison.differs
