"""The entry point; it stays lean, so that `toolstile --version` answers at once."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from toolstile._version import __version__
from toolstile_cli.exit_codes import Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; None for the process's own. Then the command owns the process:
            if a handler does not let the process end, it is killed.

    Returns:
        The exit status, see `Exit`.

    Example:
        >>> main(["--version"])
        toolstile 0.1.0
        0
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    # Replace the standard streams that are closed.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - fast; it stays
            setattr(sys, name, nowhere)
    try:
        status = _run(arguments, owns_process=argv is None)
        sys.stdout.flush()
    except KeyboardInterrupt:
        # The program answers it by itself; this one came while it was still being imported.
        status = Exit.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return Exit.BROKEN_PIPE
    except OSError as error:
        _close_stdout()
        sys.stderr.write(
            f"toolstile: error: the output cannot be written: {error.strerror}. Make room there, "
            "or write elsewhere, then run the command again.\n"
        )
        return Exit.INTERNAL
    if argv is None and status in {Exit.HUNG_UP, Exit.INTERRUPTED, Exit.TERMINATED}:
        # Threads that a handler left behind may keep the interpreter from ending.
        sys.stderr.flush()
        os._exit(int(status))
    return int(status)


def _run(arguments: list[str], *, owns_process: bool) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    given = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not {"-V", "--version"}.isdisjoint(given) or given[:1] == ["version"]:
        # The import of `json` would take longer than all the rest.
        as_json = f'{{"version": "{__version__}"}}'
        sys.stdout.write(f"{as_json if '--json' in given else f'toolstile {__version__}'}\n")
        return Exit.OK
    # A shell sets this variable to ask for completions.
    if owns_process and "_ARGCOMPLETE" in os.environ:
        from toolstile_cli.shell_completion import answer_shell

        answer_shell()
    if not arguments or arguments[-1] in {"--help", "-h"}:
        from toolstile_cli.quick_help import quick_help

        if (text := quick_help(arguments)) is not None:
            sys.stdout.write(text)
            return Exit.OK
    if arguments[:1] == ["completion"]:
        from toolstile_cli.commands.completion import quick_script

        # A shell asks at each of its starts.
        if (text := quick_script(arguments[1:])) is not None:
            sys.stdout.write(text)
            return Exit.OK
    if owns_process:
        # Because imported modules stay, looking for garbage among them is a waste.
        gc.disable()
    from toolstile_cli.program import run_program  # it imports all the rest

    return run_program(arguments, owns_process=owns_process)


def _close_stdout() -> None:
    """Let the interpreter flush into nothing when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
