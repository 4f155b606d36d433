"""Whose fault it is when a hook fails during a call: the plugin's, by its name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolstile.pipeline.masking import log_failure
from toolstile.pipeline.refusals import PluginFailed, text_of
from toolstile.plugins.faults import kind_of
from toolstile.plugins.implementations import Implementation
from toolstile_hookspecs import NOTICE

if TYPE_CHECKING:
    from toolstile.pipeline.call_run import CallRun


def name_who_raised(error: BaseException, who: str, hook: str) -> None:
    """Let the traceback in the log say who raised; what the model is told stays as it is.

    Args:
        error: What was raised.
        who: The plugin or policy, such as `Plugin desk`.
        hook: The hook or method.
    """
    note = f"{who} raised it in {hook}."
    # Whoever raises one object again and again would otherwise collect them.
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def log_observer(run: CallRun, log: logging.Logger, plugin: str, hook: str, message: str) -> None:
    """Log the exception of an observer that is being handled, by which no call fails.

    The first of a plugin in a hook is a notice: nobody would hear of it otherwise.

    Args:
        run: The call that it looked on.
        log: Where to.
        plugin: Whose it is.
        hook: The hook.
        message: What it failed at, with `%s` for the plugin.
    """
    extra = NOTICE if run.executor.engine.fails_first(plugin, hook) else None
    log_failure(run, log, message, plugin, extra=extra)


def hook_failed(hook: Implementation, error: Exception) -> PluginFailed:
    """Return what to raise for a hook that raised before the handler could run."""
    told = text_of(error).rstrip(".") or type(error).__name__
    return PluginFailed(f"plugin {hook.plugin} failed in {hook.hook} ({told})")


def wrong_answer(hook: Implementation, answer: object, expected: str) -> PluginFailed:
    """Return what to raise for an answer that is of no use.

    Args:
        hook: The hook that gave it.
        answer: The answer, of which only the type is told.
        expected: What the hook may answer with.
    """
    return PluginFailed(
        f"plugin {hook.plugin} answered {hook.hook} with {kind_of(answer)}; it must return "
        f"{expected}"
    )


def check_participant(hook: Implementation, answer: Any) -> None:
    """Refuse what cannot take part in a transaction, before the host relies on it.

    Raises:
        PluginFailed: Naming the plugin, its answer and what it must return.
    """
    takes_part = hasattr(answer, "prepare") and hasattr(answer, "commit")
    if isinstance(answer, type) or not (takes_part and hasattr(answer, "rollback")):
        expected = "a participant, with prepare, commit and rollback, or None"
        raise wrong_answer(hook, answer, expected)
