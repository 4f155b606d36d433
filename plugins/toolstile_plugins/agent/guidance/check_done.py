"""`toolstile check-done`: whether the task of a session is complete."""

from __future__ import annotations

import argparse
import sys

from toolstile_hookspecs import HostHandle
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.agent.guidance.prompt_guidance import Guidance


def check_done(host: HostHandle, args: argparse.Namespace) -> int:
    """Ask the checkers of the configuration and of the sections; return the exit status."""
    with host.executor(session_id=args.session) as tools:
        verdict = Guidance(tools, host).check_completion(text=args.text)
    if args.out is not None:
        args.out.write({"complete": verdict.complete, "feedback": verdict.feedback})
    elif not verdict.complete:
        sys.stdout.write(f"{printable(verdict.feedback or '')}\n")
    return 0 if verdict.complete else 1
