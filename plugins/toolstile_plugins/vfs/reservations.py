"""Reservations about an answer, such as the parts left out and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from toolstile_hookspecs import ConflictError
from toolstile_hookspecs.support.text import counted

_SHOWN: Final = 5


class Notes:
    """Collects what is said to the call at its end; of many things of one kind the first few."""

    __slots__ = ("_left_out", "_said", "_unsearched")

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        self._left_out: dict[str, str] = {}
        self._unsearched: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Keep a sentence, once."""
        self._said[text] = None

    def hidden(self, directory: str, names: Mapping[str, str]) -> None:
        """Keep that a directory holds names that no path can hold, each for a reason."""
        if names:
            verb = "is" if len(names) == 1 else "are"
            self.say(
                f"{counted(len(names), 'entry', 'entries')} of {directory or 'the root'} {verb} "
                f"left out, as no path here can lead there: {_listed(names, ascii)}."
            )

    def left_out(self, directory: str, error: Exception) -> None:
        """Keep that a directory could not be listed."""
        self._left_out[directory or "the root"] = _reason(error)

    def unsearched(self, path: str, error: Exception) -> None:
        """Keep that a file could not be searched."""
        self._unsearched[path] = _reason(error)

    def all(self) -> Sequence[str]:
        """Return what was kept, as sentences."""
        said = list(self._said)
        said += _summed_up(self._left_out, "directory", "directories", "left out")
        said += _summed_up(self._unsearched, "file", "files", "not searched")
        return said


def _summed_up(reasons: dict[str, str], thing: str, things: str, fate: str) -> list[str]:
    if not reasons:
        return []
    verb = "was" if len(reasons) == 1 else "were"
    total = counted(len(reasons), thing, things)
    return [f"{total} {verb} {fate}: {_listed(reasons, str)}."]


def _listed(reasons: Mapping[str, str], show: Callable[[str], str]) -> str:
    """Return the first few with their reasons, and how many more there are."""
    shown = [f"{show(each)} ({reason})" for each, reason in islice(reasons.items(), _SHOWN)]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _reason(error: Exception) -> str:
    if isinstance(error, ConflictError):
        return "it was being changed"
    # What is to be done then is for whoever wants this very one.
    return str(error).partition(". ")[0].rstrip(".") or type(error).__name__
