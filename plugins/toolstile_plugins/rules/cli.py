"""The command `toolstile policy`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_hookspecs import HostHandle
from toolstile_hookspecs.support.text import counted, printable
from toolstile_plugins.record.display import Screen
from toolstile_plugins.record.selection import records_in
from toolstile_plugins.rules.backtest import backtest
from toolstile_plugins.rules.policy_tests import read_cases, tried

_TITLES: Final = ("calls", "tool", "policy", "was", "is", "first", "reason")


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry a command out; return 1 where a case does not hold, or a verdict has changed.

    Raises:
        ConfigurationError: When the tests cannot be read.
        RecordError: When a record cannot be read.
    """
    return {"test": _test, "backtest": _backtest}[args.what](host, args)


def _test(host: HostHandle, args: argparse.Namespace) -> int:
    screen, cases = Screen(), read_cases(args.file)
    failed = 0
    for case in tried(host, cases):
        failed += bool(case.faults)
        if args.out is not None:
            args.out.write({"case": case.name, "holds": not case.faults, "faults": case.faults})
            continue
        screen.line(
            f"{'fails' if case.faults else 'holds'}  {printable(case.name)}",
            "red" if case.faults else "green",
        )
        for fault in case.faults:
            screen.line(f"       {printable(fault)}")
    if args.out is None:
        told = f"{counted(len(cases), 'case')}, {failed} failed"
        screen.line(told, "bold red" if failed else "bold green")
    return 1 if failed else 0


def _backtest(host: HostHandle, args: argparse.Namespace) -> int:
    report = backtest(host, [path for place in args.records for path in records_in(place)])
    changes = report.changes
    if args.out is not None:
        for change in changes:
            args.out.write(change.wire())
        return 1 if changes else 0
    screen = Screen()
    if changes:
        rows = [
            [
                (f"{change.calls:,}", ""),
                (printable(change.tool), "bold"),
                *(
                    (printable(text), "")
                    for text in (change.policy, change.was, change.now, change.first)
                ),
                (printable(change.reason), "dim"),
            ]
            for change in changes
        ]
        screen.table(_TITLES, rows)
    otherwise = sum(change.calls for change in changes)
    told = f"{counted(report.calls, 'call')}: {otherwise:,} decided otherwise"
    screen.line(told, "bold red" if changes else "bold green")
    return 1 if changes else 0
