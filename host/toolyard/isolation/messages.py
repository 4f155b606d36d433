"""What goes over the pipe between a call and the process its handler runs in."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from toolyard_hookspecs import Outcome, ToolInvoked


@dataclass(frozen=True, slots=True)
class Start:
    """Run this handler.

    Args:
        module: The module the handler is in.
        file: Where that module lies, for modules that no import finds.
        name: The handler's qualified name.
        path: The parent's `sys.path`.
        params: The typed params.
        fields: What of the context can travel.
        session_id: The session's id.
    """

    module: str
    file: str | None
    name: str
    path: tuple[str, ...]
    params: Any
    fields: dict[str, Any]
    session_id: str


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
    """What was asked for, or why it cannot be had."""

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
    """Return the exception if it survives the pipe, else one that tells of it."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:  # noqa: BLE001 - pickling runs anybody's code
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def portable_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome without what cannot travel: the tool, and a value that is not plain."""
    event = outcome.event
    params = event.params
    fields: dict[str, Any] = {
        **vars(event),
        "tool": None,
        "params_source": None,
        "held_params": params if _travels(params) else None,
        "error": portable_error(event.error) if event.error is not None else None,
        "facts": {name: value for name, value in event.facts.items() if _travels(value)},
    }
    if not _travels(event.result):
        fields["result"] = type(event.result)(event.result.message, None, event.result.success)
    return Outcome(ToolInvoked(**fields), outcome.text, outcome.data)


def _travels(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs anybody's code
        return False
    return True
