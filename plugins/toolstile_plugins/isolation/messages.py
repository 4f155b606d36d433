"""Messages on the pipe between a call and the process of its handler."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from typing import Any, cast

from toolstile_hookspecs import (
    Outcome,
    ToolCall,
    ToolInvoked,
    ToolResult,
    ToolstileError,
    VisibilityExpansionRequired,
)

MAIN = "__toolstile_main__"
"""The name of the parent's `__main__` in the handler's process, where it does not run."""


@dataclass(frozen=True, slots=True)
class Start:
    """Run this handler.

    Args:
        module: The module the handler is in.
        file: The file of that module, for modules that no import finds.
        name: The handler's qualified name.
        path: The parent's `sys.path`.
        python_path: The parent's `PYTHONPATH`, for the programs that the handler starts.
        tool: The tool's name.
        arguments: The params as JSON, for a decorated function, whose tool reads them again.
        rest: Everything else, a pickled `Rest`: unpickling it may need the module.
        crossings: Pickled traces of plugins, entered around the handler.
    """

    module: str
    file: str | None
    name: str
    path: tuple[str, ...]
    python_path: str | None
    tool: str
    arguments: bytes | str | None
    rest: bytes
    crossings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """The parts that are read after the handler's module is loaded.

    Args:
        params: The typed params, None where they are made of the arguments.
        fields: The fields of the context that can travel.
        session_id: The session's id.
        has_heartbeat: Whether the context has a heartbeat.
    """

    params: Any
    fields: dict[str, Any]
    session_id: str
    has_heartbeat: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Do something on the call's behalf, and answer under this number."""

    number: int
    target: str
    method: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, or the reason that there is none."""

    number: int
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The handler has ended."""

    value: Any = None
    error: BaseException | None = None
    trace: str = ""


def portable_error(error: BaseException) -> BaseException:
    """Return the exception if it survives the pipe, else the nearest one that does."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:  # noqa: BLE001 - pickling runs anybody's code
        for base in type(error).__mro__:
            if base.__module__ == ToolstileError.__module__ and base is not ToolstileError:
                if base is VisibilityExpansionRequired:
                    return RuntimeError(_text_of(error))
                made: BaseException = base(_text_of(error))
                return made
        return RuntimeError(f"{type(error).__name__}: {_text_of(error)}")
    return error


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - anybody's exception; its class has to do
        return type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(_text_of, inner))}"
    return text


def portable_call(call: ToolCall | None) -> ToolCall | None:
    """Return the call without what belongs to the parent process."""
    if call is None:
        return None
    meta = {name: value for name, value in call.meta.items() if travels(value)}
    return dataclasses.replace(call, cancellation=None, deadline=None, meta=meta)


def portable_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome without what cannot travel: the tool, and a value that is not plain.

    Params whose type is not known there go as plain JSON values with their secrets masked.
    """
    event = outcome.event
    params = event.params
    fields: dict[str, Any] = {
        **vars(event),
        "call": portable_call(event.call),
        "tool": None,
        "arguments": None,
        "held_params": params if travels(params) else event.shown_arguments,
        "auth": None,
        "result_secrets": (),
        "result": outcome.result,
        "text": outcome.text,
        "data": event.data,
        "error": portable_error(event.error) if event.error is not None else None,
        "attributes": {name: value for name, value in event.attributes.items() if travels(value)},
    }
    if not travels(outcome.result):
        fields["result"] = ToolResult(outcome.result.message, None, outcome.success)
    for name in ("message", "told"):  # which the event keeps in place of its own fields
        fields.pop(name, None)
    return Outcome(ToolInvoked(**fields))


def travels(value: object) -> bool:
    """Tell whether a value can go over the pipe."""
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs anybody's code
        return False
    return True
