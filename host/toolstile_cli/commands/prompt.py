"""`toolstile prompt`: the sections of all plugins, as a model reads them."""

from __future__ import annotations

import argparse
import sys

from toolstile.host import Host
from toolstile.prompt_overrides import skeleton
from toolstile_cli.errors import UsageError
from toolstile_cli.exit_codes import Exit


def prompt(host: Host, args: argparse.Namespace) -> int:
    """Print the prompt of a new session; with `--json`, its text and the names of its tools.

    Raises:
        UsageError: When overrides are asked for as JSON.
    """
    if args.overrides and args.out is not None:
        raise UsageError(
            "--overrides prints a file of TOML, and --json nothing but JSON; leave one of them out."
        )
    if args.overrides:
        sys.stdout.writelines(f"{line}\n" for line in skeleton(host.original_prompt))
        return Exit.OK
    with host.executor() as tools:
        rendered = tools.prompt.render(tools.session)
    if args.out is not None:
        names = [tool.name for tool in rendered.tools]
        args.out.write({"text": rendered.text, "tools": names})
    else:
        sys.stdout.write(f"{rendered.text}\n")
    return Exit.OK
