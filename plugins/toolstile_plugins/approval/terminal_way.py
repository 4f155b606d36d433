"""The terminal as a way to ask beside an inbox, one question at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Final

from toolstile_hookspecs import Cancellation
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.approval.beside import KeptQuestion, Reached, person
from toolstile_plugins.approval.dialogue import ALWAYS, Dialogue
from toolstile_plugins.approval.settings import ApprovalSettings, Mode
from toolstile_plugins.approval.terminal import (
    Terminal,
    Unavailable,
    Withdrawn,
    open_terminal,
    taking_turns,
)

# Questions wait for the one terminal without a thread each.
_asking = renewed_in_forks(
    __name__, "_asking", partial(ThreadPoolExecutor, 1, thread_name_prefix="toolstile-terminal")
)
LEFT: Final = "No one has answered yet. The question waits in the inbox."
_ASKS: Final = {Mode.ASK, Mode.AUTO}


class TerminalWay:
    """The person at the terminal, if the mode asks and there is a terminal; an `AtTerminal`."""

    def __init__(self, settings: ApprovalSettings) -> None:
        self._mode = settings.mode

    def reach(self) -> Reached | None:
        """Return the user of this process, or None without a terminal."""
        if self._mode not in _ASKS:
            return None
        try:
            with open_terminal(Cancellation(), anywhere=self._mode is Mode.ASK):
                return Reached(person(), self._ask)
        except Unavailable:
            return None

    async def _ask(self, kept: KeptQuestion) -> None:
        future = _asking.submit(copy_context().run, self._talk, kept)
        # A question that still waits for its turn is never shown.
        kept.request.withdrawn.on_cancel(future.cancel)
        asked = asyncio.wrap_future(future)
        try:
            await asyncio.shield(asked)
        finally:
            # The prompt disappears before the call continues.
            await asyncio.wait([asked])

    def _talk(self, kept: KeptQuestion) -> None:
        withdrawn = kept.request.withdrawn
        with (
            suppress(Unavailable, Withdrawn),
            open_terminal(withdrawn, anywhere=self._mode is Mode.ASK) as terminal,
            taking_turns(withdrawn),
        ):
            _talk_at(terminal, kept)


def _talk_at(terminal: Terminal, kept: KeptQuestion) -> None:
    """Ask until an answer counts, or another person answered first."""
    end = ""
    while not end:
        dialogue = Dialogue(terminal, kept.request)
        try:
            given = dialogue.run()
        except Withdrawn:
            terminal.show(printable(kept.end()))
            return
        if not given.answered:
            terminal.show(LEFT)
            return
        fault = kept.answer(given, ALWAYS if dialogue.for_good else None)
        if not fault:
            return
        terminal.show(printable(fault))
        end = kept.end()
