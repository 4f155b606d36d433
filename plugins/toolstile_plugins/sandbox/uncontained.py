"""The backend `none`: a command runs as any program of this user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.sandbox.backend import Command, Running, start_process
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout

NOT_CONTAINED = (
    "Nothing contains it: it can read, change and send whatever this user can, also outside of "
    "the workspace, and that is not rolled back."
)

_EXEC: Final = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""By a shell, so that a missing program ends with 127 and a message, as in a sandbox."""


class Uncontained:
    """Runs commands in a copy of the workspace, without containing them."""

    name = "none"
    contained = False
    mounts = False

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings

    def findings(self) -> Iterator[Diagnostic]:
        yield Diagnostic.warning(
            "sandbox",
            f"Commands run without one. {NOT_CONTAINED}",
            'Configure backend = "bubblewrap" in [plugins.sandbox].',
        )

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        known = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return Running(
            start_process(
                (*_EXEC, *command.words),
                stdin=stdin,
                env={**known, **command.env},
                cwd=os.path.join(layout.upper, command.cwd),  # noqa: PTH118 - of texts
            )
        )
