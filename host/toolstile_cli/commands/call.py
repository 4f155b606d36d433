"""`toolstile call`: one call, and its text for a model."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from toolstile.host import Host
from toolstile_cli.call_reader import STDIN, read_arguments, read_pairs, read_source, typed_by
from toolstile_cli.call_reports import Endings
from toolstile_cli.console import with_lines
from toolstile_cli.errors import report_session, say, say_interrupted
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import ToolCall
from toolstile_plugins.screen import shown_status


def call(host: Host, args: argparse.Namespace) -> int:
    """Dispatch one call and print its text, or its envelope with `--json`."""
    words: list[str] = args.arguments
    pairs, text = read_pairs(words), "{}"
    if words and not pairs:
        piped = words == [STDIN]
        text = read_arguments(read_source(STDIN)[1] if piped else " ".join(words), quoted=not piped)
    try:
        given: Any = {"session_id": args.session, "request": args.request or ()}
        with host.executor(dry_run=args.dry_run, **given) as tools:
            if args.session is not None:
                report_session(tools.session)
            # A fault that keeps every call from running is reported once, and before any.
            table = tools.table()
            if pairs:
                plan = table.plans.get(args.name)
                text = json.dumps(typed_by(plan.tool.params_codec.schema() if plan else {}, pairs))
            wish = ToolCall(args.name, text)
            ending = Endings(tools.session).dispatch(tools, wish)
    except KeyboardInterrupt:
        say_interrupted()
        raise
    if args.out is not None:
        args.out.write({**ending.shown, **ending.envelope})
    elif ending.success:
        sys.stdout.write(_ended(with_lines(ending.text)))
        if ending.diff is not None:
            sys.stdout.write(f"\nIt would change:\n{_ended(with_lines(ending.diff))}")
    else:
        say(shown_status(ending.status), ending.text)
    return Exit.OK if ending.success else Exit.FAILED


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
