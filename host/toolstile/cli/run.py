"""`toolstile run`: recorded calls, dispatched in one session."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolstile.cli.asking import undisturbed
from toolstile.cli.console import Terminal
from toolstile.cli.endings import Ending, Endings
from toolstile.cli.example import THE_EXAMPLES, example_session
from toolstile.cli.exits import Exit
from toolstile.cli.failures import UsageError, say
from toolstile.cli.reader import STDIN, read_calls, read_source
from toolstile.cli.report import JsonReport, Report, TableReport
from toolstile.host import Host
from toolstile_hookspecs import ExecutorHandle, ToolCall, ToolInvoked
from toolstile_hookspecs.support.text import counted


def run(host: Host, args: argparse.Namespace) -> int:
    """Dispatch the calls of a file, showing each as it ends.

    Raises:
        UsageError: When the file is wrong; nothing is run then.
    """
    calls = _read(host, args)
    report = _report(args, calls)
    succeeded = True
    options: dict[str, Any] = {
        "approver": undisturbed(host.approver, report.still),
        "on_progress": report.progressed,
        "dry_run": args.dry_run,
    }
    with host.executor(**options) as tools:
        # What keeps every call from running is told once, and before any.
        tools.table()
        with report:
            args.log.still = report.still
            dispatch = _at_once if args.parallel else _one_by_one
            for ending in dispatch(tools, calls, report):
                report.ended(ending)
                succeeded = succeeded and ending.success
            if args.dry_run:
                report.rehearsed(tools.rehearsed())
    return Exit.OK if succeeded else Exit.FAILED


def _read(host: Host, args: argparse.Namespace) -> list[ToolCall]:
    if args.file is not None:
        if args.example and args.file != STDIN and not Path(args.file).exists():
            told = f"there is neither an example nor a file {args.file!r}. {THE_EXAMPLES}"
            raise UsageError(f"{told} Name one of these, or a file of calls.")
        source, text = read_source(args.file)
    elif args.example:
        source, text = example_session(args.example)
    else:
        raise UsageError("no calls to run; give a FILE, - for standard input, or --example.")
    calls = read_calls(text, source, host.dialects)
    if not calls:
        say("note", f"{source} is a recorded conversation, in which the model made no call.")
    return calls


def _report(args: argparse.Namespace, calls: Sequence[ToolCall]) -> Report:
    if args.out is not None:
        return JsonReport(args.out)
    report = TableReport(Terminal(), calls)
    args.stopping.last_words = lambda: report.sum_up(stopped=True)
    return report


def _one_by_one(
    tools: ExecutorHandle, calls: Sequence[ToolCall], report: Report
) -> Iterator[Ending]:
    endings = Endings(tools.session)
    for call in calls:
        report.running(call.name)
        ending = endings.dispatch(tools, call)
        report.advance()
        yield ending


def _at_once(tools: ExecutorHandle, calls: Sequence[ToolCall], report: Report) -> Iterator[Ending]:
    endings = Endings(tools.session)
    tools.session.dispatcher.subscribe(
        ToolInvoked, lambda event: None if event.parent_id else report.advance()
    )
    report.running(f"{counted(len(calls), 'call')} in parallel")
    try:
        outcomes = tools.dispatch_all(calls)
    except SystemExit as leaving:
        # All have ended, and some are kept: each is told as it would be one by one.
        yield from (endings.of(call, endings.known(call) or leaving) for call in calls)
        return
    for call, outcome in zip(calls, outcomes, strict=True):
        yield endings.of(call, outcome)
