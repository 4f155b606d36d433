"""Standard error: errors, warnings and log records."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from toolstile.host import Host
from toolstile.state.session import Session
from toolstile_cli.console import with_lines
from toolstile_hookspecs.diagnostics import is_notice
from toolstile_hookspecs.support.text import printable

# --- Errors


class UsageError(Exception):
    """The input or the command is wrong; each fault is one line, with its remedy."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


def say(kind: str, *texts: str) -> None:
    """Write lines for people to stderr, `toolstile: error: ...`, made safe for a terminal."""
    for text in texts:
        first, *rest = (printable(line) for line in text.splitlines() or [""])
        sys.stderr.write("\n  ".join([f"toolstile: {kind}: {first}", *rest]) + "\n")
    sys.stderr.flush()


def say_interrupted() -> None:
    """Say on stderr that the run was interrupted, for commands without a summary."""
    say("interrupted", "running calls are rolled back.")


# --- Plugins that did not load


def report_faults(host: Host) -> None:
    """Say on stderr which plugins did not load; `UsageError` if the configuration is at fault."""
    if unmet := host.unmet():
        raise UsageError(*unmet)
    for report in host.plugins.reports:
        if report.status != "blocked" and report.fault is not None:
            say("warning", str(report))


def report_configuration(host: Host) -> None:
    """Name on stderr a configuration that was found in a parent folder."""
    path, here = host.configuration.path, Path.cwd()
    if path is not None and path.parent != here and path.parent in here.parents:
        say("note", f"the configuration is {path}, of a parent folder.")


def report_session(session: Session) -> None:
    """Say on stderr where a session was named that nothing stores."""
    if session.journal is None:
        say(
            "warning",
            f"the session {session.id} is not stored, and ends with this command. To keep it, name "
            "a file as path in [plugins.sessions], or a database as url in [plugins.database].",
        )


# --- Log records


NOTIFYING: Final = frozenset(
    {"toolstile.prompt_overrides", "toolstile.policies", "toolstile.policies.names"}
)
"""The host's loggers whose records are all notices."""

SAID: Final = "toolstile.plugins.reports"
"""The logger of plugins that did not load, which commands report themselves."""

_TRACEBACK: Final = "Traceback (most recent call last):\n"


class _Lines(logging.Formatter):
    """One line, or one JSON object, per record; the traceback only on request."""

    as_json = False

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        # The host writes tracebacks into its messages itself if it must mask secrets in them.
        message, _, traceback = record.getMessage().partition(f"\n{_TRACEBACK}")
        line = f"toolstile: {record.levelname.lower()}: {printable(message)}"
        if traceback and self._tracebacks:
            line = f"{line}\n{with_lines(_TRACEBACK + traceback)}"
        elif traceback:
            line = f"{line}{printable(_cause(message, traceback))}"
        if self._tracebacks and record.exc_info:
            line = f"{line}\n{with_lines(self.formatException(record.exc_info))}"
        return self._object(record, line) if self.as_json else line

    def _object(self, record: logging.LogRecord, line: str) -> str:
        told, _, traceback = line.partition("\n")
        message = told.removeprefix(f"toolstile: {record.levelname.lower()}: ")
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        level = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        shown = {"traceback": traceback} if traceback else {}
        return json.dumps({**level, "message": message, **shown})


class Log(logging.StreamHandler[TextIO]):
    """The handler that writes log records to stderr beside a command's output.

    `still` pauses a moving display while a line is written below it; `lines` formats the records.
    """

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self.lines = _Lines(tracebacks=tracebacks)
        self.setFormatter(self.lines)
        self.still: Callable[[], AbstractContextManager[None]] = nullcontext

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        with self.still():
            super().emit(record)


@contextlib.contextmanager
def logging_to_stderr(verbosity: int) -> Generator[Log]:
    """Log to stderr within the block, whatever logger it comes from.

    With `verbosity` 0 notices only, because each call's outcome is shown anyway; with 1 useful
    messages; with 2 all, with tracebacks.
    """
    handler = Log(tracebacks=verbosity > 1)
    handler.addFilter(lambda record: record.name != SAID)
    root = logging.getLogger()
    before = root.level
    if not verbosity:
        handler.addFilter(lambda record: record.name in NOTIFYING or is_notice(record))
    else:
        root.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
    logging.captureWarnings(capture=True)
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        logging.captureWarnings(capture=False)
        root.setLevel(before)


def _cause(message: str, traceback: str) -> str:
    """Return the last exception of a traceback, as far as the message lacks it."""
    last = traceback.rpartition(_TRACEBACK)[2]
    lines = [line for line in last.splitlines() if not line.startswith("  ")]
    said = lines[0].partition(": ")[2] if lines else ""
    if not said or not message.rstrip(".").endswith(said.rstrip(".")):
        return "".join(f" {line}" for line in lines)
    # The rest, such as its owner, begins a new sentence.
    added = "".join(f" {line}" for line in lines[1:])
    return f".{added}" if added and not message.endswith(".") else added
