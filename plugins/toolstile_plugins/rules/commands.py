"""The command `toolstile policy`."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from toolstile_hookspecs import ConfigurationError, HostHandle, Principal, ToolCall, Verdict
from toolstile_hookspecs.support.text import counted, printable
from toolstile_plugins.record.reader import records_in
from toolstile_plugins.rules.backtest import backtest
from toolstile_plugins.rules.explanation import UNJUDGED, explained
from toolstile_plugins.rules.policy_tests import read_cases, tried
from toolstile_plugins.screen import Cell, Screen

_STYLES: Final = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red", None: "dim"}
_TITLES: Final = ("calls", "tool", "policy", "was", "is", "first", "reason")


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry a command out; return 1 where a case does not hold, or a verdict has changed.

    Raises:
        ConfigurationError: When the tests cannot be read, or groups are given without a user.
        RecordError: When a record cannot be read.
    """
    return {"test": _test, "backtest": _backtest, "explain": _explain}[args.what](host, args)


def _explain(host: HostHandle, args: argparse.Namespace) -> int:
    arguments = sys.stdin.read() if args.arguments == "-" else args.arguments
    if args.group and not args.user:
        raise ConfigurationError("--group says of whom --user names; give --user ID, too.")
    user = args.user and Principal("toolstile policy explain", args.user, args.group or ())
    call = ToolCall(args.name, arguments)
    found = explained(host, call, request=args.request or (), principal=user)
    if args.out is not None:
        answers = [
            {"policy": name, "says": verdict, "why": why, "shadow": in_shadow}
            for name, verdict, why, in_shadow in found.answers
        ]
        args.out.write({"tool": args.name, "verdict": found.verdict, "policies": answers})
        return 1 if found.verdict == UNJUDGED else 0
    screen = Screen()
    if found.verdict == UNJUDGED:
        screen.line(printable(found.text), "red")
        return 1
    screen.line(f"{printable(args.name)}: {found.verdict}", "bold")
    rows = [
        [
            (f"{verdict or '-'}{' (shadow)' if in_shadow else ''}", _STYLES[verdict]),
            (printable(name), "bold"),
            (printable(why), "" if verdict else "dim"),
        ]
        for name, verdict, why, in_shadow in found.answers
    ]
    screen.table(("says", "policy", "why"), rows)
    return 0


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
        rows: list[list[Cell]] = [
            [
                f"{change.calls:,}",
                (printable(change.tool), "bold"),
                *map(printable, (change.policy, change.was, change.now, change.first)),
                (printable(change.reason), "dim"),
            ]
            for change in changes
        ]
        screen.table(_TITLES, rows)
    otherwise = sum(change.calls for change in changes)
    told = f"{counted(report.calls, 'call')}: {otherwise:,} decided otherwise"
    screen.line(told, "bold red" if changes else "bold green")
    return 1 if changes else 0
