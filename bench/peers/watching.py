"""The reactions of a peer to odd arguments: called, and watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contestant import Offer, Way
from ways import opened_call

UNKNOWN_ARGUMENTS: Final = '{"a": 17, "b": 25, "comment": "please"}'
TEXT_FOR_A_NUMBER: Final = '{"a": "17", "b": 25}'


@dataclass
class Watched:
    """The observations of a call of `add`.

    Args:
        ran_with: What the handler was called with, None when it was not called.
        answer: What was returned, or raised.
        raised: Whether it was raised.
    """

    ran_with: dict[str, object] | None = None
    answer: str = ""
    raised: bool = False


def watch(way: Way, arguments: str) -> Watched:
    """Call `add`, and see what reaches it and what comes back."""
    watched = Watched()

    def seen(a: object, b: object) -> str:
        watched.ran_with = {"a": a, "b": b}
        return f"{a!r} and {b!r}"

    async def add_async(a: int, b: int) -> str:
        """Add two integers."""
        return seen(a, b)

    def add(a: int, b: int) -> str:
        """Add two integers."""
        return seen(a, b)

    handler = add_async if way.handlers[0] == "async" else add
    with opened_call(way, Offer({"add": handler})) as call:
        try:
            watched.answer = str(call("add", arguments))
        # Whatever comes is what is looked for.
        except Exception as error:  # noqa: BLE001 - the answer
            watched.answer, watched.raised = f"{type(error).__name__}: {error}", True
    return watched
