"""A call that runs on a worker, seen from its host: it is submitted, and its outcome awaited."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import (
    EffectUnknownError,
    Tool,
    ToolContext,
    ToolResult,
    ToolstileError,
    errors,
)
from toolstile_hookspecs.codecs import why_unwritable
from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    Dispatcher,
    DispatchOutcome,
    DispatchState,
)
from toolstile_hookspecs.services.ledger import CallEffects
from toolstile_plugins.workers import trace_context
from toolstile_plugins.workers.settings import WorkersSettings

_UNKNOWN: Final = (
    "{name} may have had its effect, but its outcome is unknown: {text} Do not repeat the call "
    "before somebody has found out."
)


class RemoteCall:
    """Runs in the place of a tool's handler.

    Args:
        tool: The tool.
        settings: The settings.
    """

    def __init__(self, tool: Tool[Any, Any], settings: WorkersSettings) -> None:
        self._tool = tool
        self._settings = settings

    async def __call__(self, params: Any, *, context: ToolContext) -> ToolResult[Any]:
        """Have the handler run on a worker, and return its result.

        Raises:
            Exception: What the handler raises, or the news that no worker has run it.
            EffectUnknownError: The handler began, and nobody knows what it has done.
        """
        dispatcher = await context.resources.aget(Dispatcher)  # type: ignore[type-abstract]
        call = self._dispatched(params, context)

        def cancel() -> None:
            # Given up, the call waits for nothing.
            threading.Thread(target=dispatcher.cancel, args=(call.key,)).start()

        forget = context.on_abandoned(cancel)
        outcome = await dispatcher.submit(call)
        forget()
        return self._result(outcome)

    def _dispatched(self, params: Any, context: ToolContext) -> DispatchedCall:
        tool, now = self._tool, datetime.now(UTC)
        effects = context.resources.get(CallEffects, None)  # type: ignore[type-abstract]
        effect_id = None if effects is None else effects.effect_id(context)
        config = tool.idempotency
        retries = config is not None and config.on_unknown == "retry"
        limits = [tool.timeout] if isinstance(tool.timeout, float | int) else []
        if context.deadline is not None:
            limits.append(context.deadline.remaining())
        deadline = now + timedelta(seconds=min(limits)) if limits else None
        begin_by = now + timedelta(seconds=self._settings.patience)
        return DispatchedCall(
            key=effect_id or uuid4().hex,
            tool=tool.name,
            version=tool.version,
            params=tool.params_codec.encode(params).decode(),
            repeatable=tool.category == "read" or retries,
            begin_by=begin_by if deadline is None else min(begin_by, deadline),
            deadline=deadline,
            priority=_depth(context),
            traceparent=trace_context.current(),
        )

    def _result(self, outcome: DispatchOutcome) -> ToolResult[Any]:
        if outcome.state is DispatchState.RESULT:
            encoded = outcome.value
            try:
                value = None if encoded is None else self._tool.result_codec.decode(encoded)
            except Exception as error:
                # It has run, and had its effect: only its worker has other code.
                told = f"its worker's result does not fit here ({why_unwritable(error)})."
                raise self._unknown(told) from error
            return ToolResult(outcome.text, value, exclude_value_from_context=outcome.excluded)
        if outcome.state is DispatchState.UNKNOWN:
            raise self._unknown(outcome.text)
        if outcome.error is None:
            return ToolResult.error(outcome.text)
        raise _raised(outcome.error, outcome.text)

    def _unknown(self, text: str) -> EffectUnknownError:
        return EffectUnknownError(_UNKNOWN.format(name=self._tool.name, text=text))


def _raised(name: str, text: str) -> Exception:
    """Return an exception of the contract by its name, any other as its text."""
    class_: Any = getattr(errors, name, None)
    if isinstance(class_, type) and issubclass(class_, ToolstileError):
        try:
            return class_(text)
        except TypeError:
            # It needs more than a text.
            pass
    return RuntimeError(text or name)


def _depth(context: ToolContext) -> int:
    """Return how many calls wait for this one, which comes before calls that hold up fewer."""
    depth = 0
    while context.parent is not None:
        depth, context = depth + 1, context.parent
    return depth
