"""The conversation with the person: the request, the question, the answer."""

from __future__ import annotations

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest
from toolstile_plugins.approval.display import Shown
from toolstile_plugins.approval.editing import edit
from toolstile_plugins.approval.terminal import Terminal

CLOSED = "The input was closed before anyone answered."


class Dialogue:
    """Asks a person about one request.

    Args:
        terminal: Where.
        request: What is asked.

    Attributes:
        for_good: Whether the person approved the tool for the rest of the session.
    """

    def __init__(self, terminal: Terminal, request: ApprovalRequest) -> None:
        self._terminal = terminal
        self._shown = Shown(request)
        self._has_run = request.diff is not None
        self.for_good = False

    def run(self) -> ApprovalAnswer:
        """Return the person's answer.

        Raises:
            Withdrawn: When nobody waits for it any more.
        """
        self._terminal.show()
        self._show(everything=False)
        while True:
            line = self._terminal.ask(self._question())
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
            case (("a" | "always"), ""):
                self.for_good = True
                return ApprovalAnswer.approve()
            case (("n" | "no"), reason):
                return self._deny(reason.strip())
            case (("e" | "edit"), ""):
                edited = edit(self._shown, self._terminal)
                return None if edited is None else ApprovalAnswer.edit(edited)
            case (("v" | "view"), ""):
                self._show(everything=True)
            case _:
                self._terminal.show("Answer with one of the letters; n may go on with a reason.")
        return None

    def _deny(self, reason: str) -> ApprovalAnswer:
        if not reason:
            reason = self._terminal.ask("Why not? The model reads it (Enter for no reason):") or ""
        return ApprovalAnswer.deny(reason.strip() or None)

    def _question(self) -> str:
        what = "Keep it?" if self._has_run else "Run it?"
        view = ", [v]iew all of it" if self._shown.is_cut else ""
        return f"{what} [y]es, [n]o, [e]dit, [a]lways for this tool in this session{view}:"

    def _show(self, *, everything: bool) -> None:
        from rich.text import Text  # only a question needs it

        for style, line in self._shown.lines(everything=everything):
            self._terminal.show(Text(line, style))
