"""`toolstile completion`: the script with which a shell completes commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from argcomplete.shell_integration import shellcode

from toolstile_cli.exit_codes import Exit
from toolstile_cli.options import SHELLS


def completion(args: argparse.Namespace) -> int:
    """Print the script for a shell."""
    script = _script(args.shell)
    if args.out is None:
        sys.stdout.write(script)
    else:
        args.out.write({"shell": args.shell, "script": script.rstrip("\n")})
    return Exit.OK


def quick_script(words: Sequence[str]) -> str | None:
    """Return the script, None where more is typed than the name of a shell."""
    return _script(words[0]) if len(words) == 1 and words[0] in SHELLS else None


def _script(shell: str) -> str:
    return shellcode(["toolstile"], shell=shell).rstrip("\n") + "\n"
