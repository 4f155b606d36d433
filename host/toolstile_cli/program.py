"""The way from arguments to a command: the host, the commands of plugins, and the errors."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from toolstile.host import Host
from toolstile.settings import Settings, load
from toolstile_cli.commands.run import host_for, named_plugins
from toolstile_cli.console import json_lines
from toolstile_cli.errors import (
    UsageError,
    logging_to_stderr,
    report_configuration,
    report_faults,
    say,
)
from toolstile_cli.examples import THE_EXAMPLES, listed
from toolstile_cli.exit_codes import Exit
from toolstile_cli.options import (
    COMMANDS,
    FIRST,
    WITHOUT_HOST,
    main_parser,
    parse,
    refuse,
    take_common,
)
from toolstile_cli.plugin_commands import configure, purpose_of, with_extensions
from toolstile_cli.signals import Stopped, stop_on_signals
from toolstile_hookspecs import Prompt, ToolstileError
from toolstile_hookspecs.support.text import suggest

_MODULES: Final = {"go": "stop"}
"""The modules of commands that share one."""


def _run_built_in(name: str, *given: object) -> int:
    """Run a command, the function that is named like its module, which is imported now."""
    module = importlib.import_module(f"toolstile_cli.commands.{_MODULES.get(name, name)}")
    command: Callable[..., int] = getattr(module, name)
    return int(command(*given))


BUILT_IN: Final = {name: partial(_run_built_in, name) for name in COMMANDS}
UNOPENED: Final = frozenset({"check", "plugins", "stop", "go", "status"})
_CALLING: Final = (*("asteval", "code", "dialects", "mcp", "planning", "workspace_digest"),)
LOOKING: Final = {
    "ledger": _CALLING,
    "record": (*_CALLING, "ledger", "sessions", "vfs"),
    "sessions": _CALLING,
}
"""By command that makes no call, the plugins of Toolstile that it does not need."""
FILES_ALONE: Final = frozenset({"record"})
"""The commands that look at files, and need no host."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
TRACEBACKS: Final = 2
"""The verbosity from which on tracebacks are shown."""


class _LookingHost(Host):
    """A host for commands that make no calls. Policies may name tools that are not installed."""

    def offered(self, prompt: Prompt, *_: object, **__: object) -> Prompt:
        return prompt


def run_program(arguments: Sequence[str], *, owns_process: bool) -> int:
    """Run the command that the arguments ask for, and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        common, rest = take_common(arguments)
    except SystemExit as leaving:
        return _status(leaving)
    try:
        return _run(common, rest, owns_process=owns_process)
    except SystemExit as leaving:
        return _status(leaving)
    except KeyboardInterrupt as stopped:
        say("interrupted", *getattr(stopped, "__notes__", ()))
        return stopped.status if isinstance(stopped, Stopped) else Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - people get no traceback
        return _explain(error, common.verbose)


def _run(common: argparse.Namespace, rest: list[str], *, owns_process: bool) -> int:
    with contextlib.ExitStack() as stack:
        common.stopping = stack.enter_context(stop_on_signals(owns_process=owns_process))
        common.out = stack.enter_context(json_lines()) if common.json else None
        common.log = stack.enter_context(logging_to_stderr(common.verbose))
        if rest and rest[0] in WITHOUT_HOST:
            return _run_built_in(rest[0], parse(main_parser()[0], rest, common))
        with _for_the_command_alone():
            host = _make_host(common, rest)
            offered = host.plugins.commands() if host else ()
        parser, runs, commands = with_extensions(offered, BUILT_IN)
        if host is not None and is_unknown(rest, runs):
            # It may be one of a plugin that did not load.
            report_faults(host)
        check_command(rest, runs, example=common.example is not None)
        if host is None or not rest:
            parse(parser, rest or ["--help"], common)
            return Exit.OK
        args = parse(parser, rest, common)
        if host.decides(rest):
            _pass_gates(rest)
        tags = {"tags": common.tag, "without_tags": common.without}
        chosen: dict[str, Any] = {key: given for key, given in tags.items() if given}
        if isinstance(host, _LookingHost):
            chosen |= {"policies": [], "approver": None}
        if chosen:
            host.configure(chosen)
        common.log.lines.as_json = host.configuration.log == "json"
        host.purpose = purpose_of(commands, args)
        configure(host, commands, args)
        report_configuration(host)
        if not gc.isenabled():
            # `main` switched it off for the imports; imported objects stay out of collections.
            gc.freeze()
            gc.enable()
        if args.command in UNOPENED:
            # Such a command works, or reports plugins' faults, also where a host cannot open.
            with contextlib.closing(host):
                return runs[args.command](host, args)
        report_faults(host)
        if args.command not in FILES_ALONE:
            with _for_the_command_alone():
                host.open()
        with contextlib.closing(host):
            return runs[args.command](host, args)


def _pass_gates(words: Sequence[str]) -> None:
    """Call the gates of installed plugins, which raise `ConfigurationError` to refuse a command.

    Gates are entry points rather than hooks, so that blocking a plugin does not lift its gate.
    """
    for gate in entry_points(group="toolstile.gates"):
        gate.load()(words)


def is_unknown(rest: Sequence[str], known: Container[str]) -> bool:
    """Tell whether a command is asked for that there is not."""
    return bool(rest) and not rest[0].startswith("-") and rest[0] not in known


def check_command(rest: Sequence[str], known: Iterable[str], *, example: bool) -> None:
    """Refuse an unknown command, suggesting the nearest.

    Where an example is asked for, it may have been meant as that one's name.
    """
    known = list(known)
    if rest[1:] and rest[0].startswith("-") and rest[0] not in FIRST:
        told = f"there is no option {rest[0].partition('=')[0]} of all commands"
        refuse(f"{told}; if one of them has it, give it after the command", "toolstile")
    if is_unknown(rest, known):
        near = suggest(rest[0], known)
        told = f"there is no command {rest[0]!r}{near or f'. There are {listed(known)}.'}"
        examples = f" {THE_EXAMPLES}" if example else ""
        say("error", told + examples)
        sys.exit(Exit.USAGE)


def _for_the_command_alone() -> contextlib.AbstractContextManager[object]:
    """Keep stdout free of output by plugins while they are imported and started."""
    return contextlib.redirect_stdout(sys.stderr)


def _make_host(common: argparse.Namespace, rest: list[str]) -> Host | None:
    """Return the host; where help is asked for, None and a warning if there can be none."""
    options: dict[str, Any] = {"timeout": common.timeout} if hasattr(common, "timeout") else {}
    try:
        if (name := "".join(rest[:1])) in {"check", "wrap", "unwrap"}:
            # `check` reports faulty files. Clients start `wrap` anywhere, so it looks for no file.
            settings = load(config=common.config) if name == "check" else Settings()
            files = (*settings.plugin_files, *named_plugins(common))
            settings = settings.replaced(plugin_files=files)
            return Host(settings=settings, block=common.block, **options)
        unused = {*LOOKING.get(name, ())} - {*map(str, common.plugin)}
        if rest[:2] == ["ledger", "reconcile"]:
            unused.clear()  # it asks tools
        common.block = [*common.block, *unused]
        return host_for(common, _LookingHost if unused else Host, **options)
    except ToolstileError as error:
        if rest and not {"-h", "--help"} & {*rest}:
            raise
        say("warning", str(error))
        return None


def _status(leaving: SystemExit) -> int:
    """Return the argument of `sys.exit`; argparse gives 0 after its help."""
    return leaving.code if isinstance(leaving.code, int) else Exit.INTERNAL


def _explain(error: Exception, verbosity: int) -> int:
    """Report an error; `main` reports errors of the output."""
    if verbosity >= TRACEBACKS:
        traceback.print_exception(error)
    if isinstance(error, UsageError | ToolstileError):
        say("error", *(error.faults if isinstance(error, UsageError) else [str(error)]))
        return Exit.USAGE
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        written = _written(error)
        if written is None:
            raise error
        told = f"{written} cannot be written: {os.strerror(error.errno)}"
        say("error", f"{told}. Make room there, then run the command again.")
        return Exit.INTERNAL
    cause = f"{type(error).__name__}: {error}".rstrip(": ")
    say("error", f"something broke that should not have ({cause}). Add -vv to see where.")
    return Exit.INTERNAL


def _written(error: OSError) -> str | None:
    """Return the file that could not be written, or else its writer; None for the output."""
    if error.filename is not None:
        return str(error.filename)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [str(frame.f_globals.get("__name__", "")) for frame in frames]
    ours = [name for name in modules if name.startswith("toolstile")]
    who = modules[-1] if ours[-1] == __name__ else ours[-1]
    return None if who.startswith("toolstile_cli.") else f"a file of {who}"
