"""The report of a run: a row for each call, the running one, and a summary."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Self

from rich.text import Text

from toolstile_cli.call_reports import Ending
from toolstile_cli.console import Column, JsonLines, Table, Terminal, lines_of, widest
from toolstile_cli.errors import say_interrupted
from toolstile_hookspecs import Stage, Status, ToolCall, TransactionEnded, TransactionStatus
from toolstile_hookspecs.calls import NO_CHANGES
from toolstile_hookspecs.support.text import counted, duration, printable
from toolstile_plugins.screen import shown_status, style_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

MANY: Final = 20
"""From this many calls on, a bar shows how far the run is."""
MAX_LINES: Final = 12
"""Lines of a failed call's message that are shown."""
SYMBOLS: Final = {
    Status.SUCCEEDED: ("✓", "+"),
    Status.DENIED: ("⊘", "-"),
    Status.PENDING: ("…", "."),
}
UNANSWERED: Final = (
    "a person has to approve, but no one answered. Run it on a terminal, or say how calls are "
    "approved, with --approve or the configuration."
)
FAILURE: Final = ("✗", "x")


class Report:
    """The report of a run, entered at its beginning and left at its end; this one shows nothing.

    Attributes:
        is_kept: False if a transaction of the calls was not kept, except in a dry run.
    """

    is_kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type_: object, error: BaseException | None, traceback: object) -> None:
        """End the report."""

    def running(self, text: str) -> None:
        """Show the present activity."""

    def progressed(
        self, call: ToolCall, done: float, total: float | None, message: str | None
    ) -> None:
        """Show how far a handler is."""

    def advance(self) -> None:
        """Count a call that has ended, though its row comes later."""

    def still(self) -> AbstractContextManager[None]:
        """Keep everything still while a person is asked."""
        return nullcontext()

    def ended(self, ending: Ending) -> None:
        """Show the end of a call."""

    def rehearsed(self, diff: str) -> None:
        """Show the changes that all calls of a dry run together would make."""

    def transaction_ended(self, ended: TransactionEnded, changes: str | None = None) -> None:
        """Show the end of the calls' transaction; in a dry run, with their changes together."""
        self.is_kept = ended.status is TransactionStatus.COMMITTED or changes is not None


class JsonReport(Report):
    """One envelope a line; of a dry run, each with its diff; at last the end of a transaction."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def __exit__(self, type_: object, error: BaseException | None, traceback: object) -> None:
        # On stdout a summary would not be an envelope.
        if isinstance(error, KeyboardInterrupt):
            say_interrupted()

    def ended(self, ending: Ending) -> None:
        """Write the envelope."""
        self._lines.write(ending.wire())

    def transaction_ended(self, ended: TransactionEnded, changes: str | None = None) -> None:
        """Write the end of the transaction as the last line."""
        super().transaction_ended(ended, changes)
        reason = {"reason": ended.reason} if ended.reason else {}
        diff = {} if changes is None else {"diff": changes}
        self._lines.write({"transaction": ended.id, "status": ended.status, **reason, **diff})


class TableReport(Report):
    """A table for people, and below it the running call."""

    def __init__(self, terminal: Terminal, calls: Sequence[ToolCall], note: str = "") -> None:
        self._note = note
        self._terminal = terminal
        self._total = len(calls)
        self._counts: Counter[Status] = Counter()
        self._began = time.perf_counter()
        self._summed_up = False
        self._changing = 0
        self._unanswered = 0
        self._rehearsed = False
        self._over = False
        self._asking = 0
        self._lock = threading.Lock()
        self._progress = self._make_progress(terminal.console) if terminal.can_move else None
        self._table = Table(
            terminal,
            [
                Column("call", widest([printable(call.wire_id) for call in calls], 12), keep="end"),
                Column("tool", widest([printable(call.name) for call in calls], 24)),
                Column("outcome", max(len(shown_status(status)) for status in Status) + 2),
                Column("reached", max(map(len, Stage))),
                Column("time", 8, justify="right"),
            ],
            "message",
        )

    def __enter__(self) -> Self:
        self._table.head()
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, type_: object, error: BaseException | None, traceback: object) -> None:
        with self._lock:
            self._over = True
        if self._progress is not None:
            self._progress.stop()
        if error is None or isinstance(error, KeyboardInterrupt):
            self.sum_up(stopped=error is not None)

    def running(self, text: str) -> None:
        """Show it below the table."""
        self._update(description=printable(text))

    def progressed(
        self, call: ToolCall, done: float, total: float | None, message: str | None
    ) -> None:
        """Show it below the table."""
        far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self.running(f"{call.name}: {far} {message or ''}".rstrip())

    def advance(self) -> None:
        """Move the bar."""
        self._update(advance=1)

    @contextmanager
    def still(self) -> Generator[None]:
        """Show nothing below the table while a person is asked, who may be asked twice at once."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def ended(self, ending: Ending) -> None:
        """Write the call's row."""
        self._counts[ending.status] += 1
        style = style_of(ending.status)
        signs = SYMBOLS.get(ending.status, FAILURE)
        cells = [
            Text(printable(ending.call.wire_id), "dim"),
            Text(printable(ending.tool)),
            self._terminal.sign(*signs, shown_status(ending.status), style),
            Text(_reached(ending.stage), "dim"),
            Text("" if ending.seconds is None else duration(ending.seconds), "dim"),
        ]
        self._unanswered += ending.unanswered
        self._changing += _changes(ending.diff)
        shown = _begun(ending) if ending.success else _told(ending)
        changes = _shown_changes(ending.diff) if _changes(ending.diff) else []
        texts = [*shown, *changes, *(Text(note, "dim italic") for note in ending.notes)]
        self._table.row(cells, texts)

    def transaction_ended(self, ended: TransactionEnded, changes: str | None = None) -> None:
        """Write the reason why nothing was kept, or the changes of a dry run."""
        super().transaction_ended(ended, changes)
        if changes is not None:
            self.rehearsed(changes)
        elif self.is_kept:
            self._note = f"; kept together, as one transaction{self._note}"
        else:
            self._terminal.print()
            self._terminal.print(Text(f" {ended.reason}", "red"), whole=True)
            unknown = ended.status is TransactionStatus.UNKNOWN
            kept = "it is unknown which of them are kept" if unknown else "none of them is kept"
            self._note = f"; {kept}{self._note}"

    def rehearsed(self, diff: str) -> None:
        """Write the diff of several calls together, and that nothing is kept."""
        self._rehearsed = True
        if self._changing > 1:
            self._terminal.print()
            self._terminal.print(Text(" Together they would change:", "bold"))
            for line in _shown_changes(diff):
                self._terminal.print(Text("   ").append_text(line), whole=True)

    def sum_up(self, *, stopped: bool) -> None:
        """Write the number of calls by their status, once."""
        if self._summed_up:
            return
        self._summed_up = True
        done, took = self._counts.total(), duration(time.perf_counter() - self._began)
        line = Text()
        if stopped:
            line.append("interrupted", "yellow").append("; running calls are rolled back. ")
        if done < self._total:
            line.append(f"{done:,} of ")
        line.append(f"{counted(self._total, 'call')} in {took}", "bold")
        order = list(Status)
        counts = sorted(self._counts.items(), key=lambda entry: order.index(entry[0]))
        for index, (status, number) in enumerate(counts):
            line.append(", " if index else ": ")
            line.append(f"{number:,} {shown_status(status)}", style_of(status))
        if self._rehearsed:
            line.append("; a dry run, nothing of it is kept")
        line.append(self._note)
        self._terminal.print()
        self._table.below(line)
        if self._unanswered:
            hint = f"{counted(self._unanswered, 'call')} denied: {UNANSWERED}"
            self._table.below(Text(hint, "yellow"))

    def _update(self, **changes: Any) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], **changes)

    def _count(self, more: int) -> None:
        with self._lock:
            before, self._asking = self._asking, self._asking + more
            if self._progress is None or self._over or (before and self._asking):
                return
            if self._asking:
                self._progress.stop()
            else:
                self._progress.start()

    def _make_progress(self, console: Console | None) -> Progress:
        from rich.progress import (  # only a terminal needs it
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
        )

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        bar = [BarColumn(), MofNCompleteColumn()] if self._total >= MANY else []
        progress = Progress(*columns, *bar, console=console, transient=True)
        progress.add_task("", total=self._total)
        return progress


def _begun(ending: Ending) -> list[Text]:
    """Return the message of a success, or the beginning of its value."""
    lines = lines_of(ending.text)
    most = min(max(1, len(lines_of(ending.preface))), MAX_LINES)
    shown = [Text(line) for line in lines[:most]]
    if len(lines) > most:
        shown[0].append(" ...", "dim")
    return shown


def _told(ending: Ending) -> list[Text]:
    lines = lines_of(ending.text)
    shown = [Text(line) for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(Text(f"and {counted(len(lines) - MAX_LINES, 'line')} more", "dim"))
    return shown


def _changes(diff: str | None) -> bool:
    return diff is not None and diff != NO_CHANGES


def _shown_changes(diff: str | None) -> list[Text]:
    styles = {"+": "green", "-": "red"}
    return [Text(line, styles.get(line.lstrip()[:1], "dim")) for line in lines_of(diff or "")]


def _reached(stage: Stage | None) -> str:
    if stage is None:
        return ""
    return "done" if stage is Stage.TELEMETRY else stage.value.replace("_", " ")
