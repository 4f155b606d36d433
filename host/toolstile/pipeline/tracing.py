"""Traces of a call: entered first, left last, notified of stages if they ask."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.hook_calls import ask, log_observer_error
from toolstile.pipeline.parse import shown_call
from toolstile_hookspecs import Stage

if TYPE_CHECKING:
    from toolstile.pipeline.plan import DispatchTable

log = logging.getLogger("toolstile.pipeline")
_HOOK: Final = "toolstile_trace"

_STAGE: Any = ActiveCall.__dict__["stage"]
_set_stage = _STAGE.__set__
Entered = list[tuple[str, AbstractContextManager[Any]]]


def enter_traces(table: DispatchTable, call: ActiveCall, entered: Entered) -> None:
    """Enter the traces of all plugins, and note each; a trace that fails is logged."""
    for each in table.traces:
        try:
            trace = ask(call, each, shown_call(call))
            if trace is not None:
                trace.__enter__()
                entered.append((each.plugin, trace))
                _let_more(call, each.plugin, trace)
        except Exception:  # noqa: BLE001 - logged without secrets
            text = "Plugin %s failed to trace a call; the call continues."
            log_observer_error(call, log, each.plugin, _HOOK, text)


def leave_traces(entered: Entered, call: ActiveCall) -> None:
    """Leave the traces in reverse; a trace that fails is logged.

    Raises:
        BaseException: The interruption of one, when all are left.
    """
    interruption: BaseException | None = None
    while entered:
        plugin, trace = entered.pop()
        try:
            trace.__exit__(None, None, None)
        except Exception:  # noqa: BLE001 - logged without secrets
            text = "Plugin %s failed to end its trace of a call."
            log_observer_error(call, log, plugin, _HOOK, text)
        except BaseException as error:  # noqa: BLE001 - raised when all are left
            interruption = error
    if interruption is not None:
        raise interruption


class _HeardCall(ActiveCall):
    """A call whose traces hear of each stage it enters."""

    __slots__ = ()

    @property
    def stage(self) -> Stage:
        """The stage that the call reached."""
        stage: Stage = _STAGE.__get__(self)
        return stage

    @stage.setter
    def stage(self, stage: Stage) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        _set_stage(self, stage)
        for plugin, listener in self.listeners:
            try:
                listener(stage)
            except Exception:  # noqa: BLE001 - logged without secrets
                log_observer_error(self, log, plugin, _HOOK, "Plugin %s failed to trace a stage.")


def _let_more(call: ActiveCall, plugin: str, trace: object) -> None:
    listener = getattr(trace, "stage", None)
    if callable(listener):
        # Only a call with a listener gets the property; all others set a plain attribute.
        call.__class__ = _HeardCall
        call.listeners = (*call.listeners, (plugin, listener))
        listener(call.stage)
    if callable(crossing := getattr(trace, "crossing", None)):
        call.crossings = (*call.crossings, (plugin, crossing))
