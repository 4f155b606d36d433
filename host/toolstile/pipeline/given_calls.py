"""What is given to be dispatched, refused before anything runs where it is no call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from toolstile_hookspecs import Cancellation, Deadline, ToolCall

_REMEDY: Final = (
    "write ToolCall(name, arguments), or have a dialect read the calls of a model's reply"
)


def check_call(call: object) -> None:
    """Refuse what is no call, and a call that could never be ended as it says.

    Raises:
        TypeError: Saying what to write.
    """
    if not isinstance(call, ToolCall):
        kind = type(call).__name__
        raise TypeError(f"what is dispatched is a ToolCall, not {kind}: {_REMEDY}")
    _check_limit(call.deadline, "deadline", Deadline, "Deadline.after(seconds)")
    remedy = "Cancellation(), and keep it to cancel the call"
    _check_limit(call.cancellation, "cancellation", Cancellation, remedy)


def _check_limit(given: object, name: str, kind: type[Any], remedy: str) -> None:
    if given is not None and not isinstance(given, kind):
        found = type(given).__name__
        raise TypeError(
            f"the {name} of a ToolCall is a {kind.__name__}, not {found}: write {remedy}"
        )


def several_calls(given: object) -> list[ToolCall]:
    """Return the calls of a batch.

    Raises:
        TypeError: When they are not several, or one of them is no call; names the first such.
    """
    if not _is_several(given):
        msg = f"what is dispatched at once are several ToolCalls, not {_told(given)}: give a list"
        raise TypeError(msg)
    calls: list[ToolCall] = []
    for index, call in enumerate(given):
        if not isinstance(call, ToolCall):
            msg = (
                "what is dispatched at once are ToolCalls, but the one at index "
                f"{index} is {_told(call)}; none was dispatched: {_REMEDY}"
            )
            raise TypeError(msg)
        calls.append(call)
    return calls


def _is_several(given: object) -> TypeGuard[Iterable[object]]:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def _told(value: object) -> str:
    return "one ToolCall" if isinstance(value, ToolCall) else type(value).__name__
