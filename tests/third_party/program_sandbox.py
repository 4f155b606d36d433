"""A stranger's plugin of one file: it runs tools with the tag `program` as real programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from toolstile_hookspecs import ProcessDied, Tool, ToolContext, applies_to, hookimpl

# It starts a program of its own, so that more than one process has to end.
PROGRAM = "import subprocess, sys; sys.exit(subprocess.call(['sleep', sys.argv[1]]))"


def is_program(tool: Tool[Any, Any]) -> bool:
    """Tell whether a tool is one of the sandbox."""
    return "program" in tool.tags


class ProgramSandbox:
    """Runs a program for each call, and kills its whole group when the call is given up.

    Args:
        is_async: Whether it waits on the event loop.

    Attributes:
        started: The context and the process number of each program, as it was started.
        killed: The numbers of those that were killed.
    """

    def __init__(self, *, is_async: bool = False) -> None:
        self.is_async = is_async
        self.started: SimpleQueue[tuple[ToolContext, int]] = SimpleQueue()
        self.killed: list[int] = []

    @hookimpl
    @applies_to(is_program)
    def toolstile_execute(self) -> Callable[..., Any]:
        """Run the program in place of the handler."""
        return self._arun if self.is_async else self._run

    def _run(self, params: Any, *, context: ToolContext) -> str:
        with self._started(params, context) as process:
            return result_of(process.wait())

    async def _arun(self, params: Any, *, context: ToolContext) -> str:
        # The thread reaps the program, also where the loop ends and cancels this task itself.
        process = self._started(params, context)
        return result_of(await asyncio.to_thread(process.wait))

    def _started(self, params: Any, context: ToolContext) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROGRAM, str(params.seconds)]
        process = subprocess.Popen(command, start_new_session=True)
        context.on_abandoned(partial(self._kill, process.pid))
        self.started.put((context, process.pid))
        return process

    def _kill(self, number: int) -> None:
        self.killed.append(number)
        os.killpg(number, signal.SIGKILL)


def result_of(status: int) -> str:
    """Return what a program came to.

    Raises:
        ProcessDied: When it was killed.
    """
    if status < 0:
        msg = f"its program was killed by signal {-status}"
        raise ProcessDied(msg)
    return f"exit status {status}"
