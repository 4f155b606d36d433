"""Matching of calls with recorded ones: the next, or one with equal name and arguments."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from threading import Lock
from typing import Any, cast

from toolstile_hookspecs import Stage
from toolstile_hookspecs.codecs import MASK
from toolstile_plugins.record.reader import Numbered, Recording
from toolstile_plugins.record.schema import RecordedCall

_NEVER_RAN = frozenset(list(Stage)[: list(Stage).index(Stage.EXECUTE)])


def key_of(params: Any) -> str:
    """Return params as canonical JSON."""
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def hides_some(call: RecordedCall, recorded: object) -> bool:
    """Tell whether the arguments or params of a call, as they are recorded, lack a secret."""
    return call.masked and MASK in json.dumps(recorded)


def is_of(call: RecordedCall, params: Any, recorded: Any = None) -> bool:
    """Tell whether params may be those of a recorded call.

    Secrets of its value and of the user's credentials are masked in its params too. They are
    unknown when the call is made again.

    Args:
        call: The recorded call.
        params: Params as JSON values, with their own secrets masked.
        recorded: The recorded params, where others went on.
    """
    recorded = call.params if recorded is None else recorded
    if key_of(recorded) == key_of(params):
        return True
    return hides_some(call, recorded) and may_be(recorded, params)


def may_be(recorded: object, given: object) -> bool:
    """Tell whether a JSON value may be the recorded one before it was masked.

    Example:
        >>> may_be({"note": "call ***"}, {"note": "call Ada"}), may_be([1, "***"], [2, "a"])
        (True, False)
    """
    if recorded == MASK:
        return isinstance(given, (str, int, float))
    if isinstance(recorded, str):
        return isinstance(given, str) and _text_may_be(recorded, given)
    if isinstance(recorded, dict) and isinstance(given, dict):
        one, other = cast("dict[str, object]", recorded), cast("dict[str, object]", given)
        return one.keys() == other.keys() and all(may_be(one[name], other[name]) for name in one)
    if isinstance(recorded, list) and isinstance(given, list):
        items, others = cast("list[object]", recorded), cast("list[object]", given)
        return len(items) == len(others) and all(map(may_be, items, others))
    # As JSON: Python takes true for 1.
    return key_of(recorded) == key_of(given)


def _text_may_be(recorded: str, given: str) -> bool:
    first, *parts = recorded.split(MASK)
    if not parts:
        return recorded == given
    *parts, last = parts
    end = len(given) - len(last)
    if not given.startswith(first) or not given.endswith(last) or end < len(first):
        return False
    start = len(first)
    for part in parts:
        found = given.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


class NotRecordedError(LookupError):
    """A call is not in the record; the text is for the model."""


class InOrder:
    """Answers with the next recorded call, and only if it is the same."""

    def __init__(self, calls: Iterable[Numbered]) -> None:
        self._calls = deque(calls)
        self._lock = Lock()

    def take(self, tool: str, params: Any) -> Numbered:
        """Return the next recorded call, if it is this one; each answers once.

        Raises:
            NotRecordedError: It is not.
        """
        with self._lock:
            if not self._calls:
                raise NotRecordedError(
                    f"The record ends before this call of {tool}. It cannot be answered; do not "
                    "call more than was recorded."
                )
            following = self._calls[0]
            if following.call.tool != tool or not is_of(following.call, params):
                raise NotRecordedError(
                    f"The record goes on with {_described(following)}, not with {tool} "
                    f"{_shortened(key_of(params))}. It cannot be answered; make the recorded "
                    "calls in their order, or replay without strict."
                )
            return self._calls.popleft()

    def left(self) -> list[Numbered]:
        """Return the recorded calls that have not answered any."""
        with self._lock:
            return list(self._calls)

    def left_before(self, later: Numbered) -> Iterable[Numbered]:
        """Return those of them that were recorded before a call."""
        with self._lock:
            return list(takewhile(lambda entry: entry.line < later.line, self._calls))


class ByArguments:
    """Answers with the first recorded call of that name with those arguments, then the next."""

    def __init__(self, calls: Iterable[Numbered]) -> None:
        self._calls: dict[tuple[str, str], deque[Numbered]] = {}
        self._lock = Lock()
        for entry in calls:
            key = entry.call.tool, key_of(entry.call.params)
            self._calls.setdefault(key, deque()).append(entry)

    def take(self, tool: str, params: Any) -> Numbered:
        """Return the next recorded call that is the same; each answers once.

        Raises:
            NotRecordedError: There is none.
        """
        with self._lock:
            found = self._calls.get((tool, key_of(params))) or self._alike(tool, params)
            if found:
                return found.popleft()
        if found is not None:
            raise NotRecordedError(
                f"Every recorded call of {tool} with these arguments has answered one already. It "
                "cannot be answered once more; use what it said before."
            )
        raise NotRecordedError(
            f"No call of {tool} with these arguments is in the record: "
            f"{_shortened(key_of(params))}. It cannot be answered; do without it."
        )

    def _alike(self, tool: str, params: Any) -> deque[Numbered] | None:
        """Return the calls of the first that may be this one, where secrets keep one from knowing.

        Without any that is left, return those that have answered.
        """
        alike = [
            queue
            for (name, _), queue in self._calls.items()
            if name == tool and queue and is_of(queue[0].call, params)
        ]
        first = min(alike, key=lambda queue: queue[0].line, default=None)
        return self._calls.get((tool, key_of(params))) if first is None else first

    def left(self) -> list[Numbered]:
        """Return the recorded calls that have not answered any, in order."""
        with self._lock:
            left = [entry for queue in self._calls.values() for entry in queue]
        return sorted(left, key=lambda entry: entry.line)

    def left_before(self, later: Numbered) -> Iterable[Numbered]:
        """Return those of them that were recorded before a call, of its name and arguments."""
        with self._lock:
            alike = self._calls.get((later.call.tool, key_of(later.call.params)), ())
            return list(takewhile(lambda entry: entry.line < later.line, alike))


Answers = InOrder | ByArguments


class ById:
    """Recorded calls that are still to come again, found by their ids."""

    def __init__(self, calls: Iterable[Numbered]) -> None:
        self._calls: dict[str, list[Numbered]] = {}
        for entry in calls:
            self._calls.setdefault(entry.call.id, []).append(entry)

    def __iter__(self) -> Iterator[Numbered]:
        left = [entry for same in self._calls.values() for entry in same]
        return iter(sorted(left, key=lambda entry: entry.line))

    def named(self, call_id: str) -> Sequence[Numbered]:
        """Return those of an id, in order."""
        return self._calls.get(call_id, ())

    def discard(self, entry: Numbered) -> None:
        """Take one out, if it is there."""
        same = self._calls.get(entry.call.id, [])
        if entry in same:
            same.remove(entry)


def answering(recording: Recording, only: Collection[str] | None) -> list[Numbered]:
    """Return the recorded calls that are answered for, but not those within one of them.

    Args:
        recording: The record.
        only: The tools that are answered for; None for all.
    """
    calls = {(entry.call.session, entry.call.id): entry.call for entry in recording.calls}

    def answers(call: RecordedCall) -> bool:
        return only is None or call.tool in only

    def is_within(call: RecordedCall) -> bool:
        seen: set[str] = set()
        parent = calls.get((call.session, call.parent or ""))
        while parent is not None and parent.id not in seen:
            if answers(parent):
                return True
            seen.add(parent.id)
            parent = calls.get((parent.session, parent.parent or ""))
        return False

    return [entry for entry in recording.calls if answers(entry.call) and not is_within(entry.call)]


def has_run(call: RecordedCall) -> bool:
    """Tell whether a recorded call got as far as its handler."""
    return call.stage not in _NEVER_RAN


def _described(entry: Numbered) -> str:
    return f"{entry.call.tool} {_shortened(key_of(entry.call.params))} (line {entry.line})"


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
