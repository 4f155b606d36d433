"""The calls of a record, made again and compared: answered from the record, or executed."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from toolstile_hookspecs import (
    ExecutorHandle,
    HostHandle,
    PolicyDecision,
    PolicyStoreLocation,
    RequestTurn,
    Status,
    ToolCall,
    ToolInvoked,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.calls import DRY_RUN
from toolstile_plugins.record.reader import Numbered, Recording
from toolstile_plugins.record.replayer import Replayer, hides_some, key_of
from toolstile_plugins.record.schema import RecordedCall

_OF_THE_TIME: Final = frozenset({"fetchedAt", "replayed"})
"""The parts of an envelope that say when and how it was answered."""

log = logging.getLogger("toolstile.record")
NAME: Final = "record-replay"
_MASKED: Final = "its arguments hold secrets, which the record masks"
_NOT_UNDERSTOOD: Final = "its arguments were not understood, and the record masks them"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded call beside its outcome now."""

    recorded: Numbered
    now: Mapping[str, Any] | None = None  # the envelope, None if the call was not made
    status: Status | None = None
    skipped: str | None = None  # the reason why it was not made
    # Whether it was denied then and nothing denies it now. It is answered as it was then, because
    # policies do not find files in a replay.
    passes: bool = False
    decisions: tuple[PolicyDecision, ...] = ()  # of the policies that did not allow it now
    differs: bool = field(init=False)

    def __post_init__(self) -> None:
        before = _outcome(self.recorded.call.envelope)
        # As JSON: Python takes true for 1.
        differs = self.now is not None and key_of(_outcome(self.now)) != key_of(before)
        object.__setattr__(self, "differs", differs)

    def wire(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        wire: dict[str, Any] = {
            "line": self.recorded.line,
            "id": self.recorded.call.id,
            "tool": self.recorded.call.tool,
            "same": not self.differs and self.now is not None,
            "recorded": self.recorded.call.envelope,
        }
        if self.skipped is not None:
            return {**wire, "skipped": self.skipped}
        if self.passes:
            wire["passes"] = True
        return {**wire, "now": self.now}

    def diff(self) -> list[str]:
        """Return the lines of a unified diff, from the recorded envelope to the present one."""
        now = self.now or {}
        lines = difflib.unified_diff(
            _lines(self.recorded.call.envelope), _lines(now), "recorded", "now", lineterm="", n=2
        )
        return list(lines)


def _outcome(envelope: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in envelope.items() if name not in _OF_THE_TIME}


def _lines(envelope: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in _outcome(envelope).items():
        if name == "tool":
            continue
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, indent=2, ensure_ascii=False)
        lines += f"{name}: {text}".split("\n")
    return lines


class RecordedClock:
    """A clock that shows the begin of a recorded call and, from the second look on, its end."""

    def __init__(self, call: RecordedCall) -> None:
        self._zero = self._ended = call.at
        self.show(call)

    def show(self, call: RecordedCall) -> None:
        """Show the time of another call, which ended later."""
        ended = call.at + timedelta(seconds=call.seconds)
        if ended < self._ended:
            # The system's clock was set back meanwhile; the time that had passed still counts.
            self._zero -= self._ended - call.at
        self._ended = ended
        self._at = call.at
        self._seconds = call.seconds
        self._begun = False

    def now(self) -> datetime:
        """Return when the call began."""
        return self._at

    def monotonic(self) -> float:
        """Return seconds that grow from the first call's beginning."""
        before = max(timedelta(0), self._at - self._zero).total_seconds()
        if not self._begun:
            self._begun = True
            return before
        return before + self._seconds


def replayed(
    host: HostHandle, recording: Recording, replay: Replayer | None = None
) -> Iterator[Comparison]:
    """Yield each top-level call as it comes out when it is answered from the record.

    Time passes and people answer as they did then. Policies remember the record and nothing else.
    `replay` is the plugin that answers, by default by name and arguments.
    """
    replay = replay or Replayer(recording)
    with registered(host, replay), ExitStack() as stack:
        stage = _Stage(host, stack, replay)
        for entry in _top_level(recording):
            yield stage.play(entry)


def executed(host: HostHandle, recording: Recording) -> Iterator[Comparison]:
    """Yield each top-level call as it comes out when it is really made again.

    Stored state of policies applies, and is not changed.
    """
    with ExitStack() as stack:
        stage = _Stage(host, stack, None)
        for entry in _top_level(recording):
            if not hides_some(entry.call, entry.call.arguments):
                yield stage.play(entry)
                continue
            understood = entry.call.params is not None
            yield Comparison(entry, skipped=_MASKED if understood else _NOT_UNDERSTOOD)


@contextmanager
def registered(host: HostHandle, plugin: object, name: str = NAME) -> Generator[None]:
    """Register a plugin for a while."""
    host.register(plugin, name)
    try:
        yield
    finally:
        host.unregister(name)


def _top_level(recording: Recording) -> Iterator[Numbered]:
    return (entry for entry in recording.calls if entry.call.parent is None)


class _Stage:
    """Makes recorded calls, each in a session that stands for the recorded session."""

    def __init__(self, host: HostHandle, stack: ExitStack, replay: Replayer | None) -> None:
        self._host = host
        self._stack = stack
        self._replay = replay
        self._clock: RecordedClock | None = None
        folder = stack.enter_context(TemporaryDirectory(prefix="toolstile-replay-"))
        self._kept = PolicyStoreLocation(Path(folder), anew=replay is not None)
        self._executors: dict[Hashable, ExecutorHandle] = {}
        self._said: dict[Hashable, tuple[RequestTurn, ...]] = {}
        self._events: dict[str, ToolInvoked] = {}

    def play(self, entry: Numbered) -> Comparison:
        call = entry.call
        tools = self._executor(call)
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        try:
            tools.dispatch(ToolCall(call.asked_for, arguments, id=call.id))
        except VisibilityExpansionRequired as request:
            tools.expand(request)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            log.debug("%s raised; its event has the outcome.", call.id, exc_info=True)
        event = self._events.pop(call.id)
        # A call that was denied then may be answered from the record now.
        was_denied = call.status is Status.DENIED and event.status is Status.FAILED
        passes = self._replay is not None and was_denied
        # The envelope as a record has it, with secrets masked.
        envelope = event.envelope()
        which = "data" if event.success else "error"
        if event.data is not None:
            envelope[which] = event.shown_value
        elif envelope[which] is not None:
            envelope[which] = event.hide(envelope[which])
        return Comparison(entry, envelope, event.status, passes=passes, decisions=event.decisions)

    def _executor(self, call: RecordedCall) -> ExecutorHandle:
        dry = bool(call.attributes.get(DRY_RUN))
        asks = call.asked_by
        key = call.session, asks, () if asks is None else asks.groups, dry
        options: dict[str, Any] = {"principal": asks, "dry_run": dry, "kept_apart": self._kept}
        if self._replay is not None:
            if self._clock is None:
                self._clock = RecordedClock(call)
            self._clock.show(call)
            self._replay.session = call.session
            options |= {"clock": self._clock, "approver": self._replay.approve}
        request, said = call.request or (), self._said.get(key, ())
        if request[: len(said)] != said:
            # The session was rolled back to a state that only the recorded session knows.
            del self._executors[key]
            said = ()
        if key not in self._executors:
            tools = self._stack.enter_context(self._host.executor(**options))
            tools.session.dispatcher.subscribe(ToolInvoked, self._keep)
            self._executors[key] = tools
        if added := request[len(said) :]:
            self._executors[key].request(added)
        self._said[key] = request
        return self._executors[key]

    def _keep(self, event: ToolInvoked) -> None:
        if event.parent_id is None:
            self._events[event.call.id] = event
