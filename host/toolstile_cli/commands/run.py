"""`toolstile run`: recorded calls, dispatched in one session."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolstile.host import Host
from toolstile_cli.call_reader import STDIN, read_source, read_turns
from toolstile_cli.call_reports import Ending, Endings
from toolstile_cli.console import Terminal, undisturbed
from toolstile_cli.errors import UsageError, report_session, say
from toolstile_cli.examples import ASKED_FOR, SESSIONS, THE_EXAMPLES
from toolstile_cli.exit_codes import Exit
from toolstile_cli.run_report import JsonReport, Report, TableReport
from toolstile_cli.transcripts import UserTurn
from toolstile_hookspecs import ExecutorHandle, ToolCall, ToolInvoked, TransactionFailed
from toolstile_hookspecs.support.text import counted

if TYPE_CHECKING:
    from toolstile.executor import Executor

# --- Examples


_FOLDER: Final = Path(__file__).parents[1] / "examples"
MEANT: Final = "; in this example, some are meant to fail"


def example_plugin(name: str) -> Path:
    """Return an example's plugin, a single file."""
    return _FOLDER / f"{name}.py"


def named_plugins(options: argparse.Namespace) -> list[Path]:
    """Return the files of the plugins that options name, that of an example included."""
    example = [example_plugin(options.example)] if options.example else []
    return [*(each for each in options.plugin if not _is_name(each)), *example]


def _is_name(plugin: Path) -> bool:
    """Tell whether an option names an installed plugin rather than a file."""
    return not plugin.suffix and len(plugin.parts) == 1 and not plugin.exists()


def host_for(options: argparse.Namespace, make: type[Host] = Host, **more: Any) -> Host:
    """Return the host, of this class, that options configure; `PluginError` if one is missing."""
    files = named_plugins(options)
    host = make(config=options.config, block=options.block, plugin_files=files, **more)
    names = [str(each) for each in options.plugin if _is_name(each)]
    for name in names:
        host.plugins.loaded(name)
    names += ASKED_FOR.get(options.example, ())
    # A table, also an empty one, asks for the tools of a plugin that offers them on request.
    asked = [name for name in names if host.configuration.table_name(name) is None]
    if asked:
        host.configure({f"plugins.{name}": {} for name in asked})
    return host


def example_session(name: str) -> tuple[str, str]:
    """Return the name and the text of an example's session."""
    session = _FOLDER / SESSIONS[name]
    return session.name, session.read_text(encoding="utf-8")


# --- The command


def run(host: Host, args: argparse.Namespace) -> int:
    """Dispatch the calls of a file, showing each as it ends; `UsageError` runs nothing."""
    turns = _read(host, args)
    report = _report(args, [call for turn in turns for call in turn.calls])
    succeeded = True
    options: dict[str, Any] = {
        "approver": undisturbed(host.approver, report.still),
        "on_progress": report.progressed,
        "dry_run": args.dry_run,
        "session_id": args.session,
        "request": args.request or (),
    }
    with host.executor(**options) as executor:
        if args.session is not None:
            report_session(executor.session)
        # A fault that keeps every call from running is reported once, and before any.
        executor.table()
        endings = Endings(executor.session)
        with report, _together(executor, args, report) as tools:
            args.log.still = report.still
            dispatch = _at_once if args.parallel else _one_by_one
            for turn in turns:
                if turn.said:
                    tools.request(turn.said)
                for ending in dispatch(tools, turn.calls, endings, report):
                    report.ended(ending)
                    # Calls of an example are meant to fail, but not for want of a person.
                    meant = _is_example(args) and not ending.unanswered
                    succeeded = succeeded and (ending.success or meant)
            if args.dry_run and not args.transaction:
                report.rehearsed(executor.rehearsed())
    return Exit.OK if succeeded and report.is_kept else Exit.FAILED


@contextmanager
def _together(
    executor: Executor, args: argparse.Namespace, report: Report
) -> Generator[ExecutorHandle]:
    """Give the calls a transaction with the file as its title, if the options ask for one."""
    if not args.transaction:
        yield executor
        return
    title = args.example if args.file is None else Path(args.file).name
    work = executor.transaction("standard input" if title == STDIN else title)
    try:
        with work:
            yield work
            changes = work.changes() if args.dry_run else None
    except TransactionFailed as error:
        report.transaction_ended(error.ended)
    else:
        assert work.ended is not None  # noqa: S101 - it has ended
        report.transaction_ended(work.ended, changes)


def _is_example(args: argparse.Namespace) -> bool:
    """Return whether an example's session is run; some of its calls fail on purpose."""
    return args.file is None


def _read(host: Host, args: argparse.Namespace) -> list[UserTurn]:
    if args.file is not None:
        if args.example and args.file != STDIN and not Path(args.file).exists():
            told = f"there is neither an example nor a file {args.file!r}. {THE_EXAMPLES}"
            raise UsageError(f"{told} Name one of these, or a file of calls.")
        source, text = read_source(args.file)
    elif args.example:
        source, text = example_session(args.example)
    else:
        raise UsageError("no calls to run; give a FILE, - for standard input, or --example.")
    turns = read_turns(text, source, host.dialects)
    if not any(turn.calls for turn in turns):
        say("note", f"{source} is a recorded conversation without a call.")
    return turns


def _report(args: argparse.Namespace, calls: Sequence[ToolCall]) -> Report:
    if args.out is not None:
        return JsonReport(args.out)
    report = TableReport(Terminal(), calls, MEANT if _is_example(args) else "")
    args.stopping.last_words = lambda: report.sum_up(stopped=True)
    return report


def _one_by_one(
    tools: ExecutorHandle, calls: Sequence[ToolCall], endings: Endings, report: Report
) -> Iterator[Ending]:
    for call in calls:
        report.running(call.name)
        ending = endings.dispatch(tools, call)
        report.advance()
        yield ending


def _at_once(
    tools: ExecutorHandle, calls: Sequence[ToolCall], endings: Endings, report: Report
) -> Iterator[Ending]:
    report.running(f"{counted(len(calls), 'call')} in parallel")
    stop = endings.session.dispatcher.subscribe(
        ToolInvoked, lambda event: None if event.parent_id else report.advance()
    )
    try:
        outcomes = tools.dispatch_all(calls)
    except SystemExit as leaving:
        # All have ended, and some are kept: each is reported as if they ran one by one.
        outcomes = [endings.known(call) or leaving for call in calls]
    finally:
        stop()
    yield from map(endings.of, calls, outcomes)
