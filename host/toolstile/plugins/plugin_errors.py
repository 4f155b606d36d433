"""The fault for which a plugin is not taken: its cause and its remedy, in a line each."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Final

from toolstile.settings import Settings
from toolstile.settings.sources import OWN_FILE, PROJECT_FILE
from toolstile.settings.table_validation import kind_of
from toolstile_hookspecs import ConfigurationError, PluginError
from toolstile_hookspecs.codecs import as_sentence

MAX_CAUSE: Final = 300
NO_PROCESS: Final = (
    "it declares isolation='process', and no loaded plugin runs its handler in a process; load one "
    "that does, such as the built-in 'isolation'"
)
"""The fault of a tool that cannot run, after its name."""


class PluginFault(Exception):
    """Why a plugin, or something it offers, is not taken: cause and remedy, each a sentence.

    `misconfigured`: it lies in the configuration. `kinds` of policies are missing for it.
    """

    def __init__(
        self, cause: str, remedy: str, *, misconfigured: bool = False, kinds: Iterable[str] = ()
    ) -> None:
        super().__init__(f"{cause} {remedy}")
        self.cause = cause
        self.remedy = remedy
        self.misconfigured = misconfigured
        self.kinds = frozenset(kinds)

    def as_error(self, beginning: str) -> PluginError:
        return PluginError(f"{beginning}: {self}".rstrip())


def in_configuration(error: ConfigurationError, plugin: str, settings: Settings) -> PluginFault:
    """Return the fault of a plugin whose table does not fit, or is not there."""
    # Reports are in one line.
    told = " ".join(str(error).splitlines())
    table = f"Its settings are written below [plugins.{plugin}]"
    if settings.table_of(plugin):
        remedy = "Correct it there."
    elif settings.path is None:
        remedy = f"{table} in a {OWN_FILE}, here or in a directory above."
    elif settings.path.name == PROJECT_FILE:
        remedy = f"Its settings are written below [tool.toolstile.plugins.{plugin}] there."
    else:
        remedy = f"{table} there."
    return PluginFault(told, remedy, misconfigured=True)


def raised_in(hook: str, error: BaseException) -> PluginFault:
    """Return the fault of a hook that raised."""
    if isinstance(error, PluginError):  # the cause and the remedy stand in it
        return PluginFault(str(error), "")
    return PluginFault(
        f"{hook} raised {as_sentence(one_line(error))}",
        "Fix the plugin, or block it with TOOLSTILE_BLOCK.",
    )


def wrong_answer(hook: str, answer: object, expected: str) -> PluginFault:
    """Return the fault of a hook with a wrong answer; it shows the answer's type only."""
    if inspect.iscoroutine(answer):
        answer.close()
    return PluginFault(
        f"{hook} returned {kind_of(answer)}, which it must not.", f"Return {expected}."
    )


def one_line(error: BaseException) -> str:
    r"""Return an exception's type and text in one line, without a traceback.

    Example:
        >>> one_line(ValueError("no\nsuch thing"))
        'ValueError: no such thing'
    """
    # pydantic's own pages are for the author.
    told = str(error).partition("\nFor further information visit ")[0]
    text = " ".join(told.split()).rstrip(".")
    text = text if len(text) <= MAX_CAUSE else f"{text[: MAX_CAUSE - 3]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
