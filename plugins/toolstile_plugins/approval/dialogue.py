"""The terminal, and the conversation with the person there: the request, an edit, the answer."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from rich.text import Text

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Cancellation,
    StateError,
    ToolValidationError,
)
from toolstile_hookspecs.codecs import RETRY
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.approval.beside import KeptQuestion, Reached, person
from toolstile_plugins.approval.display import Shown, ShownCard, View, question_of, unmasked
from toolstile_plugins.approval.grants import MOST_HOURS, Grants, Terms
from toolstile_plugins.approval.pager import exceeds, print_lines, show_lines
from toolstile_plugins.approval.settings import ApprovalSettings, Mode
from toolstile_plugins.screen import console, printable_lines

if sys.platform != "win32":
    import termios

if TYPE_CHECKING:
    from rich.console import Console

LOOK_AGAIN: Final = 0.2
"""Seconds between two checks whether a question was withdrawn."""
LONGEST_LINE: Final = 1 << 16
DEVICE: Final = Path("/dev/tty")

# A process has one terminal, so one question is asked at a time.
_turn = renewed_in_forks(__name__, "_turn", threading.Lock)


class Unavailable(Exception):
    """The process has no terminal."""


class Withdrawn(Exception):
    """The question was withdrawn before the answer."""


class Terminal:
    """A terminal.

    Input is read line by line from the descriptor. So an interrupted question leaves the mode of
    the terminal unchanged, and a wait can end early.
    """

    def __init__(self, source: int, out: TextIO, withdrawn: Cancellation) -> None:
        self.source = source
        self._out = out
        self._withdrawn = withdrawn
        self._console: Console | None = None

    def show(self, text: Text | str = "") -> None:
        """Write a line."""
        self._rich().print(text, soft_wrap=True)

    def show_all(self, view: View, *, everything: bool = False) -> None:
        """Write the lines of a view; all of a long one in a pager."""
        if everything:
            lines = [*view.lines(everything=True)]
            show_lines(self._rich(), lines, lambda: self._withdrawn.aborted)
        else:
            print_lines(self._rich(), view.lines())

    def can_view(self, view: View) -> bool:
        """Tell whether a view is shortened, or longer than the terminal."""
        return view.is_cut or exceeds(self._rich(), view.lines())

    def ask(self, question: str) -> str | None:
        """Return the line that answers a question, or None if the input was closed.

        Earlier input is discarded.

        Raises:
            Withdrawn: The call no longer waits for the answer.
        """
        with suppress(termios.error):
            termios.tcflush(self.source, termios.TCIFLUSH)
        self._rich().print(question, style="bold", end=" ", soft_wrap=True)
        self._out.flush()
        line = self._read()
        if line is None:
            self._rich().print()
        return line

    def _read(self) -> str | None:
        while not select.select([self.source], [], [], LOOK_AGAIN)[0]:
            if self._withdrawn.aborted:
                self.show()
                raise Withdrawn
        try:
            data = os.read(self.source, LONGEST_LINE)
        except OSError:
            return None
        return data.decode(errors="replace").rstrip("\r\n") if data else None

    def _rich(self) -> Console:
        if self._console is None:
            self._console = console(self._out)
        return self._console


@contextmanager
def open_terminal(withdrawn: Cancellation, *, anywhere: bool) -> Generator[Terminal]:
    """Open the terminal of this process.

    With `anywhere`, also if standard input and standard error are something else.

    Raises:
        Unavailable: The process has no terminal.
    """
    if os.name != "posix":
        raise Unavailable
    with ExitStack() as stack:
        if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
            source, out = sys.stdin.fileno(), sys.stderr
        elif anywhere:
            try:
                out = stack.enter_context(DEVICE.open("w", encoding="utf-8"))
                source = os.open(DEVICE, os.O_RDONLY | os.O_NOCTTY)
            except OSError:
                raise Unavailable from None
            stack.callback(os.close, source)
        else:
            raise Unavailable
        yield Terminal(source, out, withdrawn)


@contextmanager
def taking_turns(withdrawn: Cancellation) -> Generator[None]:
    """Wait until no other question is asked; raises `Withdrawn` if the call stops waiting."""
    while not _turn.acquire(timeout=LOOK_AGAIN):
        if withdrawn.aborted:
            raise Withdrawn
    try:
        if withdrawn.aborted:
            raise Withdrawn
        yield
    finally:
        _turn.release()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.isatty(stream.fileno())
    except (OSError, ValueError):
        return False


ALWAYS: Final = Terms(is_exact=False, hours=MOST_HOURS)
CLOSED = "The input was closed before anyone answered."
NOBODY = "No one can be asked: approval is set to 'none'."
NO_PERSON = "No one can be asked: approval is set to '{}', which asks no person."
NO_TERMINAL = "No one can be asked: no terminal is attached."
NOT_READING = "Only tools of the category 'read' are approved here."
LEFT_OPEN = "No one answered before the question was withdrawn."
LEFT: Final = "No one has answered yet. The question waits in the inbox."
_ASKS: Final = {Mode.ASK, Mode.AUTO}
# Questions wait for the one terminal without a thread each.
_asking = renewed_in_forks(
    __name__, "_asking", partial(ThreadPoolExecutor, 1, thread_name_prefix="toolstile-terminal")
)


def edit(shown: Shown, terminal: Terminal) -> str | None:
    """Return the edited arguments as JSON; None if the person went back, or on a shown fault."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if editor:
        written = _in_editor(editor, shown, terminal)
    else:
        terminal.show(printable(json.dumps(shown.masked, ensure_ascii=False)))
        line = terminal.ask("The arguments as JSON, on one line (Enter goes back):")
        written = line if line and line.strip() else None
    if written is None:
        return None
    try:
        edited = _read(written, shown)
        shown.request.tool.parse(edited)
    except ToolValidationError as error:
        for line in printable_lines(str(error).removesuffix(RETRY)):
            terminal.show(line)
        return None
    return edited


def _read(written: str, shown: Shown) -> str:
    try:
        values: Any = json.loads(written)
    except ValueError as error:
        raise ToolValidationError(f"That is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ToolValidationError("That is not a JSON object.")
    try:
        return json.dumps(unmasked(cast("object", values), shown.arguments))
    except ValueError as error:
        raise ToolValidationError(str(error)) from None


def _in_editor(editor: str, shown: Shown, terminal: Terminal) -> str | None:
    before = json.dumps(shown.masked, ensure_ascii=False, indent=2) + "\n"
    with tempfile.TemporaryDirectory(prefix="toolstile-") as folder:
        path = Path(folder, f"{shown.request.tool.name}.json")
        path.write_text(before, encoding="utf-8", errors="surrogatepass")
        try:
            # The person's own editor, on the terminal of the question.
            status = subprocess.run(  # noqa: S603 - as configured by the person
                [*shlex.split(editor), str(path)], stdin=terminal.source, check=False
            ).returncode
            after = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            terminal.show(f"{printable(editor)} cannot be used: {printable(str(error))}")
            return None
    if status != 0:
        terminal.show(f"{printable(editor)} ended with status {status}; nothing was edited.")
        return None
    if after == before:
        terminal.show("Nothing was changed.")
        return None
    return after


class Dialogue:
    """Asks a person about one request, or about one row of a card.

    Attributes:
        for_good: Whether the person approved the tool for the rest of the session.
    """

    def __init__(
        self, terminal: Terminal, request: ApprovalRequest, card: ApprovalCard | None = None
    ) -> None:
        self._terminal = terminal
        self._shown = Shown(request)
        have_run = card is not None and card.diff is not None
        self._keeps = have_run or request.diff is not None
        # Because a model has read the results of an explicit transaction, its rows are not edited.
        self._edits = card is None or not card.title
        self._grants = not have_run and not request.by_person
        self.for_good = False

    def run(self) -> ApprovalAnswer:
        """Return the person's answer; raises `Withdrawn` if the call stops waiting."""
        self._terminal.show()
        self._terminal.show_all(self._shown)
        while True:
            question = "Keep it?" if self._keeps else "Run it?"
            edit = ", [e]dit" if self._edits else ""
            view = ", [v]iew all of it" if self._terminal.can_view(self._shown) else ""
            always = ", [a]lways for this tool in this session" if self._grants else ""
            line = self._terminal.ask(f"{question} [y]es, [n]o{edit}{always}{view}:")
            if line is None:
                return ApprovalAnswer.unanswered(CLOSED)
            answer = self._read(line.strip())
            if answer is not None:
                return answer

    def _read(self, line: str) -> ApprovalAnswer | None:
        word, _, rest = line.partition(" ")
        match word.lower(), rest:
            case (("y" | "yes"), ""):
                return ApprovalAnswer.approve()
            case (("a" | "always"), "") if self._grants:
                self.for_good = True
                return ApprovalAnswer.approve()
            case (("n" | "no"), reason):
                return denied(self._terminal, reason)
            case (("e" | "edit"), "") if self._edits:
                edited = edit(self._shown, self._terminal)
                return None if edited is None else ApprovalAnswer.edit(edited)
            case (("v" | "view"), ""):
                self._terminal.show_all(self._shown, everything=True)
            case _:
                self._terminal.show("Answer with one of the letters; n may go on with a reason.")
        return None


def denied(terminal: Terminal, reason: str) -> ApprovalAnswer:
    """Return a denial with a reason, for which the person is asked if they gave none."""
    why = "Why not? The model reads it (Enter for no reason):"
    reason = reason or terminal.ask(why) or ""
    return ApprovalAnswer.deny(reason.strip() or None)


class CardDialogue:
    """Asks a person about the rows of a card that no grant answers.

    Args:
        terminal: The terminal.
        card: The card; that of calls that have run has a diff.
        held: The grants of a host without an inbox.
    """

    def __init__(self, terminal: Terminal, card: ApprovalCard, held: Grants) -> None:
        self._terminal, self._card, self._held = terminal, card, held
        self._has_run = card.diff is not None

    def run(self) -> dict[str, ApprovalAnswer]:
        """Return the answers by the ids of the calls; raises `Withdrawn` as `Dialogue.run`."""
        granted = {row.call.id: self._granted(row) for row in self._card.rows}
        rows = [row for row in self._card.rows if granted[row.call.id] is None]
        is_single = len(rows) <= 1 and not self._has_run
        answers = self._one_by_one(rows) if is_single or not rows else self._together(rows)
        given = {row.call.id: answer for row, answer in zip(rows, answers, strict=True)}
        return given | {id_: answer for id_, answer in granted.items() if answer is not None}

    def _together(self, rows: Sequence[ApprovalRequest]) -> list[ApprovalAnswer]:
        shown, terminal = ShownCard(rows, self._card.diff), self._terminal
        terminal.show(printable(self._card.title))
        terminal.show_all(shown)
        view = ", [v]iew all of it" if terminal.can_view(shown) else ""
        how = f"[y]es to all, [n]o to all, [o]ne by one{view}, or the numbers to refuse:"
        while True:
            line = terminal.ask(f"{'Keep' if self._has_run else 'Run'} all {len(rows)}? {how}")
            if line is None:
                return [ApprovalAnswer.unanswered(CLOSED)] * len(rows)
            word, _, rest = line.strip().partition(" ")
            match word.lower(), rest:
                case (("y" | "yes"), ""):
                    return [ApprovalAnswer.approve()] * len(rows)
                case (("n" | "no"), reason):
                    return [denied(terminal, reason)] * len(rows)
                case (("o" | "one"), ""):
                    return self._one_by_one(rows)
                case (("v" | "view"), ""):
                    terminal.show_all(shown, everything=True)
                case _ if refused := _numbers(line, len(rows)):
                    no, yes = denied(terminal, ""), ApprovalAnswer.approve()
                    return [no if n in refused else yes for n in range(1, len(rows) + 1)]
                case _:
                    terminal.show("Answer with one of the letters, or with numbers such as 1 3.")

    def _one_by_one(self, rows: Sequence[ApprovalRequest]) -> list[ApprovalAnswer]:
        # Asked for again, because the answer to a row before this one may have added a grant.
        return [self._granted(row) or self._asked(row) for row in rows]

    def _asked(self, row: ApprovalRequest) -> ApprovalAnswer:
        dialogue = Dialogue(self._terminal, row, self._card)
        given = dialogue.run()
        if dialogue.for_good:
            asked = question_of(row)
            grant = ALWAYS.grant(asked, person(), "terminal", asked.created)
            try:
                self._grants_of(row).add(grant, asked)
            except StateError as error:
                self._terminal.show(printable(f"It runs this once. {error}"))
        return given

    def _granted(self, row: ApprovalRequest) -> ApprovalAnswer | None:
        shown = replace(row, diff=self._card.diff) if self._has_run else row
        return self._grants_of(row).answer_to(question_of(shown))

    def _grants_of(self, row: ApprovalRequest) -> Grants:
        bound: Any = row.context.resources.get(Grants, None)  # type: ignore[type-abstract]
        return bound or self._held


def _numbers(line: str, most: int) -> set[int]:
    """Return the numbers of rows in a line; none if the line has anything else."""
    words = line.replace(",", " ").split()
    numbers = {int(word) for word in words if word.isdecimal() and 1 <= int(word) <= most}
    return numbers if all(map(str.isdecimal, words)) and len(numbers) == len({*words}) else set()


def answer(request: ApprovalRequest, mode: Mode, held: Grants) -> ApprovalAnswer:
    """Return the answer to a request; `held` are the grants of a host without an inbox."""
    if request.by_person and mode in {Mode.ALL, Mode.READ}:
        return ApprovalAnswer.unanswered(NO_PERSON.format(mode))
    match mode:
        case Mode.ALL:
            return ApprovalAnswer.approve()
        case Mode.NONE:
            return ApprovalAnswer.unanswered(NOBODY)
        case Mode.READ:
            if request.tool.category == "read":
                return ApprovalAnswer.approve()
            return ApprovalAnswer.unanswered(NOT_READING)
        case Mode.ASK | Mode.AUTO:
            card = ApprovalCard((request,), withdrawn=request.withdrawn)
            return answer_card(card, mode, held)[request.call.id]


def answer_card(card: ApprovalCard, mode: Mode, held: Grants) -> dict[str, ApprovalAnswer]:
    """Return the answers to a card, by the ids of its calls; see `answer`."""
    if mode not in _ASKS:
        return {row.call.id: answer(row, mode, held) for row in card.rows}
    try:
        with (
            open_terminal(card.withdrawn, anywhere=mode is Mode.ASK) as terminal,
            taking_turns(card.withdrawn),
        ):
            # Grants count only now, because the answer to a card before may have added one.
            return CardDialogue(terminal, card, held).run()
    except Unavailable:
        left = NO_TERMINAL
    except Withdrawn:
        left = LEFT_OPEN
    return {row.call.id: ApprovalAnswer.unanswered(left) for row in card.rows}


# --- beside an inbox


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
            end = ""
            while not end:  # until an answer counts, or another person answered first
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
