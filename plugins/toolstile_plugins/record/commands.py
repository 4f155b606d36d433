"""The commands `toolstile record` and `toolstile replay`, and their output."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import HostHandle, Status, StatusPart
from toolstile_hookspecs.support.text import counted, duration, printable, wire_time
from toolstile_plugins.cli_support import PROBE
from toolstile_plugins.record.reader import (
    Checked,
    Lost,
    Reader,
    Recording,
    Selection,
    records_in,
    summaries,
    verify,
)
from toolstile_plugins.record.replayer import Comparison, Replayer, executed, replayed
from toolstile_plugins.record.report import report_of
from toolstile_plugins.record.schema import (
    RecordedApproval,
    RecordedCall,
    RecordedTransaction,
    RecordError,
    read_line,
)
from toolstile_plugins.screen import Cell, Screen, progress, shown_status, shown_time, style_of


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Run `record` or `replay`; raise `RecordError` for an unreadable record."""
    if (what := getattr(args, "what", None)) is None:
        return replay_record(host, args)
    return {"verify": verify_record, "list": list_records, "show": show_record}[what](args)


def show_record(args: argparse.Namespace) -> int:
    """List the calls of a record or of a folder's records, or show one."""
    is_folder = args.file.is_dir()
    if is_folder and (args.line, args.html) != (None, None):
        told = f"Name one of its records, from `toolstile record list {args.file}`."
        raise RecordError(f"{args.file} is a folder. {told}")
    if args.html is not None:
        return write_report(args)
    readers = [Reader(path) for path in (records_in(args.file) if is_folder else [args.file])]
    selected = _selection(args)
    if args.out is None and args.line is not None:
        [found] = _on_line(args.line, readers[0])
        show_call(Screen(), found)
        return 0
    if args.out is None:
        return 1 if show_table(Screen(), readers, selected, named=is_folder) else 0
    status = 0
    for reader in readers:
        where = {"file": str(reader.path)} if is_folder else {}
        try:
            for entry in selected.of(reader) if args.line is None else _on_line(args.line, reader):
                args.out.write({**where, **wire_of(entry)})
            for other in _others(reader) if args.line is None and selected.is_all else ():
                args.out.write({**where, **wire_of(other)})
        except RecordError as error:
            if not is_folder:
                raise
            args.out.write({**where, "fault": str(error)})
            status = 1
    return status


def write_report(args: argparse.Namespace) -> int:
    """Write the page of a record."""
    page, calls = report_of(Reader(args.file), _selection(args))
    try:
        # Results of calls are private to the user.
        args.html.touch(0o600)
        args.html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(
            f"{args.html} cannot be written: {error.strerror}. Name a file in a folder that you "
            "can write."
        ) from error
    if args.out is not None:
        args.out.write({"file": str(args.html), "calls": calls})
    else:
        Screen().line(f"{args.html} shows {counted(calls, 'call')}. Open it in a browser.")
    return 0


def list_records(args: argparse.Namespace) -> int:
    """List the records of a folder that hold selected calls."""
    found = list(summaries(args.folder, _selection(args)))
    status = 1 if any(summary.fault is not None for summary in found) else 0
    if args.out is not None:
        for summary in found:
            args.out.write(summary.wire())
        return status
    screen = Screen()
    screen.table(
        ("record", "first call", "last call", "calls", "sessions", "outcomes", "tools"),
        [
            [
                summary.path.name,
                (shown_time(summary.first), "dim"),
                (shown_time(summary.last), "dim"),
                f"{summary.calls:,}",
                (f"{len(summary.sessions):,}", "dim"),
                _tally({shown_status(status): n for status, n in summary.outcomes.items()}),
                _tally(summary.tools) if summary.fault is None else summary.fault,
            ]
            for summary in found
        ],
    )
    screen.line()
    calls = counted(sum(summary.calls for summary in found), "call")
    screen.line(f"{calls} in {counted(len(found), 'record')}", "bold")
    return status


def _tally(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {printable(name)}" for name, count in ordered)


def _selection(args: argparse.Namespace) -> Selection:
    outcomes = tuple(map(Status, args.outcome))
    return Selection(tuple(args.tool), outcomes, args.since, args.until)


def _on_line(line: int, reader: Reader) -> list[RecordedCall]:
    found = [entry for entry in reader if entry.n == line]
    if not found:
        raise RecordError(
            f"Line {line} of {reader.path} is not a call. List the calls with `toolstile record "
            f"show {reader.path}`."
        )
    return found


def verify_record(args: argparse.Namespace) -> int:
    """Show whether a record is as it was written."""
    with progress("Verify") as note:
        checked = verify(args.file, note)
    cut = args.last is not None and checked.last != args.last
    if args.out is not None:
        wire = {
            "file": str(checked.path),
            "intact": not checked.faults,
            "lines": checked.lines,
            "calls": checked.calls,
            "last": checked.last,
            "ended": checked.ended,
            "faults": [
                {"line": fault.line, "damage": fault.damage, "text": fault.text}
                for fault in checked.faults
            ],
            "lost": [{"line": gap.line, "calls": gap.calls} for gap in checked.lost],
        }
        args.out.write(wire if args.last is None else {**wire, "ends_as_noted": not cut})
    else:
        screen = Screen()
        show_checked(screen, checked)
        if cut:
            screen.line("It does not end with the line that was noted: lines are missing.", "red")
    return 1 if checked.faults or cut else 0


def replay_record(host: HostHandle, args: argparse.Namespace) -> int:
    """Make the calls of a record again, and show the differences."""
    recording = Recording.load(args.file)
    known = {tool.name for tool in host.prompt.tools()}
    gone = {
        entry.tool for entry in recording.calls if entry.parent is None and entry.params is not None
    }
    if gone and not gone & (known | set(host.catalog.names())):
        raise RecordError(
            f"No plugin here offers the tools of {recording.path} ({', '.join(sorted(gone))}). "
            "Load the plugins that did, for example with --plugin FILE.py or --example."
        )
    if args.execute:
        comparisons, what = executed(host, recording), "executed"
    else:
        replay = Replayer(recording, strict=args.strict)
        comparisons, what = replayed(host, recording, replay), "replayed"
    if args.out is None:
        made = sum(entry.parent is None for entry in recording.calls)
        with progress("Replay") as note:
            noted = _noted(comparisons, note, made)
            return 0 if show_comparisons(Screen(), noted, what) else 1
    is_same = True
    for comparison in comparisons:
        args.out.write(comparison.wire())
        is_same = is_same and not comparison.differs
    return 0 if is_same else 1


def _noted(
    comparisons: Iterable[Comparison], note: Callable[[float, float], None], made: int
) -> Iterator[Comparison]:
    for done, comparison in enumerate(comparisons, 1):
        note(done, made)
        yield comparison


MAX_FAULTS: Final = 20
"""The most faults, and places of lost calls, that are shown to a person."""

_DIFF: Final = {"+": "green", "-": "red", "@": "cyan"}
_ITEM: Final = "  - "
_LAST: Final = 5
"""The calls of `toolstile status`, from the last `_FILES` and the last `_END` bytes of each."""
_FILES: Final = 20
_END: Final = 1 << 18
_TITLES: Final = ("line", "made at", "call", "tool", "outcome", "time", "text for the model")


def show_table(
    screen: Screen, readers: Sequence[Reader], selection: Selection, *, named: bool = False
) -> list[str]:
    """Show a row for each call; a nested call, indented, stands before its parent.

    If there may be several records (`named`), each row names its own, and faults of records that
    cannot be read are shown below and returned. Otherwise such a fault raises `RecordError`.
    """
    rows: list[list[Cell]] = []
    sessions: set[str] = set()
    faults: list[str] = []
    for reader in readers:
        try:
            for entry in selection.of(reader):
                rows.append([*([(reader.path.name, "dim")] if named else []), *_row(entry)])
                sessions.add(entry.session)
        except RecordError as error:
            if not named:
                raise
            faults.append(str(error))
    screen.table([*(["record"] if named else []), *_TITLES], rows)
    screen.line()
    screen.line(f"{counted(len(rows), 'call')} in {counted(len(sessions), 'session')}", "bold")
    for reader in readers:
        for found in reader.checks if selection.is_all else ():
            checker, *said = (found.check.get(name) for name in ("checker", "verdict", "feedback"))
            text = f"{shown_time(found.at)} checked by {checker}: {', '.join(filter(None, said))}"
            screen.line(printable(text))
        for other in _others(reader) if selection.is_all else ():
            screen.line(printable(f"{shown_time(other.at)} {other.described}"))
        if reader.torn:
            what = f"The last line of {reader.path.name}" if named else "The last line"
            screen.line(f"{what} is incomplete and left out.", "yellow")
        _show_lost(screen, reader.lost)
    for fault in faults:
        screen.line(fault, "red")
    return faults


def last_calls(places: Iterable[Path]) -> StatusPart:
    """Return the last calls of records, or of folders, without verification and probes."""
    found: list[RecordedCall] = []
    for place in places:
        files: list[Path] = []
        with suppress(RecordError):
            files = records_in(place)
        # A run that makes no call writes a record, too.
        for file in files[-_FILES:]:
            with file.open("rb") as opened:
                # Because a record may be large, only its end is read.
                opened.seek(max(0, file.stat().st_size - _END))
                for line in opened:
                    with suppress(ValueError):
                        said = read_line(line.rstrip(b"\n"))
                        found += [said] if isinstance(said, RecordedCall) else []
    made = (call for call in found if call.session != PROBE)
    last = sorted(made, key=lambda call: call.at)[-_LAST:]
    told = [(call, call.read.strip().partition("\n")[0]) for call in last]
    lines = [
        f"Called: {shown_time(call.at)}  {call.tool}  {shown_status(call.status)}"
        f"{'' if call.status is Status.SUCCEEDED or not text else f': {text}'}"
        for call, text in told
    ]
    items = [
        {"tool": call.tool, "status": call.status, "at": wire_time(call.at), "text": text}
        for call, text in told
    ]
    return StatusPart("calls", items, lines)


def show_call(screen: Screen, call: RecordedCall) -> None:
    """Show all that is recorded of a call."""
    screen.line(f"{call.tool}, {shown_status(call.status)}", style_of(call.status))
    document = call.model_dump(mode="json", exclude_defaults=True)
    for name in ("n", "prev", "hash", "kind", "status"):
        document.pop(name, None)
    if call.stages:
        taken = [f"{stage} {duration(seconds)}" for stage, seconds in call.stage_seconds]
        document["stages"] = "\n".join(taken)
    details = {name.replace("_", " "): value for name, value in document.items()}
    width = max(map(len, details))
    for name, value in details.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        first, *rest = text.split("\n")
        screen.line(f"{name:<{width}} {printable(first)}")
        for line in rest:
            screen.line(f"{'':<{width}} {printable(line)}")


def show_checked(screen: Screen, checked: Checked) -> None:
    """Show whether a record is as it was written, and its faults."""
    for fault in checked.faults[:MAX_FAULTS]:
        screen.line(f"line {fault.line}: {fault.damage}; it {fault.text}.", "red")
    if len(checked.faults) > MAX_FAULTS:
        more = counted(len(checked.faults) - MAX_FAULTS, "more fault")
        screen.line(f"... {more}; --json lists all of them.", "red")
    lines = f"{counted(checked.lines, 'line')}, {counted(checked.calls, 'call')}"
    if checked.faults:
        screen.line(f"{lines}: {counted(len(checked.faults), 'fault')}", "bold red")
        _show_lost(screen, checked.lost)
        return
    screen.line(f"{lines}: every line is as it was written", "bold green")
    _show_lost(screen, checked.lost)
    if not checked.ended:
        screen.line(
            "The last run has no end: its process was killed or still runs, its end could not be "
            "written, or lines at the end were removed.",
            "yellow",
        )
    screen.line(f"last hash {checked.last}", "dim")


def show_comparisons(screen: Screen, comparisons: Iterable[Comparison], what: str) -> bool:
    """Show the differences; returns whether all calls came out the same."""
    same = different = skipped = 0
    for comparison in comparisons:
        call = comparison.recorded
        heading = f"line {call.n}: {printable(call.tool)} ({printable(call.id)})"
        if comparison.skipped is not None:
            skipped += 1
            screen.line(f"{heading} was not made: {comparison.skipped}", "yellow")
        elif comparison.differs:
            different += 1
            screen.line(f"{heading} came out differently", "bold")
            for line in comparison.diff():
                screen.line(f"  {printable(line)}", _DIFF.get(line[:1], "dim"))
        else:
            same += 1
            if comparison.passes:
                screen.line(f"{heading} was denied then, and nothing denies it now", "yellow")
    other = f", {different:,} different" if different else ""
    left = f"; {skipped:,} not made" if skipped else ""
    made = f"{counted(same + different, 'call')} {what}: {same:,} the same"
    screen.line(f"{made}{other}{left}", "bold green" if not different else "bold red")
    return not different


def wire_of(said: RecordedCall | RecordedApproval | RecordedTransaction) -> dict[str, Any]:
    """Return a call, an answer, a grant or the end of a transaction as a JSON object."""
    return {"line": said.n, **said.model_dump(mode="json", exclude={"prev", "hash"})}


def _others(reader: Reader) -> list[RecordedApproval | RecordedTransaction]:
    return sorted([*reader.transactions, *reader.approvals.values()], key=lambda said: said.n)


def _show_lost(screen: Screen, lost: Sequence[Lost]) -> None:
    if not lost:
        return
    where = [f"{gap.calls:,} before line {gap.line}" for gap in lost[:MAX_FAULTS]]
    if len(lost) > MAX_FAULTS:
        where.append("...")
    calls = counted(sum(gap.calls for gap in lost), "more call")
    screen.line(f"{calls} could not be recorded: {', '.join(where)}", "yellow")


def _row(call: RecordedCall) -> list[Cell]:
    # The first line of the text, with the items of the list that it announces.
    gist, *rest = call.read.strip().split("\n")
    items = [line.removeprefix(_ITEM) for line in rest if line.startswith(_ITEM)]
    if gist.endswith(":") and items:
        gist = f"{gist} {'; '.join(items)}"
    return [
        (str(call.n), "dim"),
        (shown_time(call.at), "dim"),
        (printable(call.id), "dim"),
        printable(call.tool) if call.parent is None else f"  {printable(call.tool)}",
        (shown_status(call.status), style_of(call.status)),
        (duration(call.seconds), "dim"),
        printable(gist),
    ]
