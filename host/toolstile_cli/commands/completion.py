"""`toolstile completion`: the script by which a shell completes commands."""

from __future__ import annotations

import argparse
import sys

from argcomplete.shell_integration import shellcode

from toolstile_cli.exit_codes import Exit


def completion(args: argparse.Namespace) -> int:
    """Print the script for a shell."""
    script = shellcode(["toolstile"], shell=args.shell)
    if args.out is None:
        sys.stdout.write(script.rstrip("\n") + "\n")
    else:
        args.out.write({"shell": args.shell, "script": script})
    return Exit.OK
