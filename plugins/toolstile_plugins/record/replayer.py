"""Recorded results in the place of handlers, and whole runs that are made again."""

from __future__ import annotations

import difflib
import json
import logging
from collections import deque
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final, cast

from toolstile_hookspecs import (
    NOTICE,
    Answer,
    ApprovalAnswer,
    ApprovalRequest,
    CallRefused,
    ExecutorHandle,
    HostHandle,
    PolicyDecision,
    PolicyStoreLocation,
    Replay,
    RequestTurn,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolInvoked,
    ToolResult,
    ToolValidationError,
    TransactionFailed,
    TransactionHandle,
    TransactionStatus,
    VisibilityExpansionRequired,
    hookimpl,
    masked,
    secrets_in,
    secrets_of,
)
from toolstile_hookspecs.calls import DIFF, DRY_RUN
from toolstile_hookspecs.codecs import MASK, shorten
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.schema import Approval, RecordedCall
from toolstile_plugins.record.serialize import raised_by, secrets_given, shown as noted, value_of

SHOWN: Final = 200
"""The most characters of arguments in a message."""
_NEVER_RAN = frozenset(list(Stage)[: list(Stage).index(Stage.EXECUTE)])


def key_of(params: Any) -> str:
    """Return params as canonical JSON."""
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def hides_some(call: RecordedCall, recorded: object) -> bool:
    """Tell whether the arguments or params of a call, as they are recorded, lack a secret."""
    return call.masked and MASK in json.dumps(recorded)


def is_of(call: RecordedCall, params: Any) -> bool:
    """Tell whether params, with their secrets masked, equal a recorded call's."""
    return key_of(call.params) == key_of(params)


class NotRecordedError(LookupError):
    """A call is not in the record; the text is for the model."""


class RecordedAnswers:
    """Recorded calls that answer, each once: in their order, or by name and arguments."""

    def __init__(self, calls: Iterable[RecordedCall], *, strict: bool) -> None:
        self._strict = strict
        self._queues: dict[tuple[str, str], deque[RecordedCall]] = {}
        self._lock = Lock()
        for entry in calls:
            key = self._key(entry.tool, entry.params)
            self._queues.setdefault(key, deque()).append(entry)

    def _key(self, tool: str, params: Any) -> tuple[str, str]:
        # For answers in the recorded order, all calls wait in one queue.
        return ("", "") if self._strict else (tool, key_of(params))

    def take(self, tool: str, params: Any) -> RecordedCall:
        """Return the next recorded call if it is this call; raise `NotRecordedError` if not."""
        with self._lock:
            queue = self._queues.get(self._key(tool, params))
            if queue:
                following = queue[0]
                if not self._strict or (following.tool == tool and is_of(following, params)):
                    return queue.popleft()
                raise NotRecordedError(
                    f"The next call of the record (line {following.n}) is {following.tool} "
                    f"{shorten(key_of(following.params), SHOWN)}, not {tool} "
                    f"{shorten(key_of(params), SHOWN)}. It cannot be answered; make the recorded "
                    "calls in their order, or replay without strict."
                )
        if self._strict:
            raise NotRecordedError(
                f"The record ends before this call of {tool}. It cannot be answered; do not call "
                "more than was recorded."
            )
        if queue is not None:
            raise NotRecordedError(
                f"Every recorded call of {tool} with these arguments has answered already. It "
                "cannot be answered again; use the earlier answer."
            )
        raise NotRecordedError(
            f"No call of {tool} with these arguments is in the record: "
            f"{shorten(key_of(params), SHOWN)}. It cannot be answered; do without it."
        )

    def left(self) -> list[RecordedCall]:
        """Return the recorded calls that have not answered, in order."""
        with self._lock:
            left = [entry for queue in self._queues.values() for entry in queue]
        return sorted(left, key=lambda entry: entry.n)

    def left_before(self, later: RecordedCall) -> Iterable[RecordedCall]:
        """Return the calls of its queue that have not answered and were recorded before a call."""
        with self._lock:
            alike = self._queues.get(self._key(later.tool, later.params), ())
            return list(takewhile(lambda entry: entry.n < later.n, alike))


class ById:
    """Recorded calls that are still to come again, found by their ids."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._calls: dict[str, list[RecordedCall]] = {}
        for entry in calls:
            self._calls.setdefault(entry.id, []).append(entry)

    def __iter__(self) -> Iterator[RecordedCall]:
        left = [entry for same in self._calls.values() for entry in same]
        return iter(sorted(left, key=lambda entry: entry.n))

    def named(self, call_id: str) -> Sequence[RecordedCall]:
        """Return the calls with an id, in order."""
        return self._calls.get(call_id, ())

    def discard(self, entry: RecordedCall) -> None:
        """Remove a call, if it is there."""
        same = self._calls.get(entry.id, [])
        if entry in same:
            same.remove(entry)


def answering(recording: Recording, only: Collection[str] | None) -> list[RecordedCall]:
    """Return the recorded calls of these tools (None: all), without calls within one of them."""
    calls = {(entry.session, entry.id): entry for entry in recording.calls}

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

    return [entry for entry in recording.calls if answers(entry) and not is_within(entry)]


def has_run(call: RecordedCall) -> bool:
    """Tell whether a recorded call reached its handler."""
    return call.stage not in _NEVER_RAN


log = logging.getLogger("toolstile.record")

_UNSEEN: Final = ApprovalAnswer.approve()
"""For calls that were refused before a person answered: they end as they did."""

_GOES_ON: Final = frozenset({Answer.APPROVED, Answer.EDITED})


@dataclass(frozen=True)
class ReplayedResult(ToolResult[Any]):
    """A recorded result, with the text that the model read then."""

    text: str = ""


@dataclass(frozen=True)
class _StandIn(ReplayedResult):
    """Stands for a result that a person, asked after the call ran, did not let be kept."""


APART: Final = ContextVar("apart", default=False)
"""True where calls are replayed apart from the host's other calls, and are not recorded."""
FROM_RECORD: Final = "record.replayed"
"""The attribute of a call that a record answers; a call that a ledger answers lacks it."""


class Replayer:
    """A plugin that answers calls from a record; their handlers do not run.

    Lookup, parsing and policies work as ever, and recorded changes of the session are made again. A
    call that is not in the record fails with a message that says so.

    Args:
        recording: The record.
        strict: Whether calls are answered only in the recorded order, or by name and arguments.
            Each recorded call answers once.
        only: The tools that are answered for; the handlers of others run. None for all.
        approves: Whether questions are approved that the record has no answer to.
        apart: Whether only calls are answered whose context has `APART`; for a host with others.

    Attributes:
        session: The recorded session whose calls are being made, None for any. Refusals and
            answers of people count for its calls alone: sessions repeat the ids of calls.

    Example:
        >>> host.register(Replayer(Recording.load("calls.jsonl")))  # doctest: +SKIP
    """

    def __init__(
        self,
        recording: Recording,
        *,
        strict: bool = False,
        only: Collection[str] | None = None,
        approves: bool = False,
        apart: bool = False,
    ) -> None:
        self.recording = recording
        self.session: str | None = None
        self._only = only
        self._approves = approves
        self._apart = apart
        calls = answering(recording, only)
        ran = [entry for entry in calls if has_run(entry)]
        self._answers = RecordedAnswers(ran, strict=strict)
        self._lock = Lock()
        self._making_up = Lock()
        self._told: set[str] = set()
        self._refused = ById(entry for entry in calls if not has_run(entry))
        self._asked = ById(entry for entry in calls if entry.approval is not None)
        # They ran without an answer, because the card of their transaction came after them.
        self._on_cards = ById(each for each in ran if each.transaction is not None)

    @property
    def unused(self) -> list[RecordedCall]:
        """The recorded calls that ran then and have not answered any call yet."""
        return self._answers.left()

    @hookimpl(tryfirst=True)
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> None:
        """Refuse arguments again that did not fit, if the record masks them."""
        if self._apart and not APART.get():
            return
        with self._lock:
            for said in self._of_session(self._refused.named(call.id)):
                if (
                    said.tool == tool.name
                    and said.status is Status.INVALID
                    and _is_given(said.arguments, call.arguments)
                ):
                    self._refused.discard(said)
                    raise ToolValidationError(said.read)

    @hookimpl(tryfirst=True)
    def toolstile_execute(
        self, tool: Tool[Any, Any], params: Any, context: ToolContext
    ) -> Replay | ToolResult[Any] | None:
        """Answer in the handler's place."""
        is_others = self._apart and not APART.get()
        if is_others or (self._only is not None and tool.name not in self._only):
            return None
        context.set_attribute(FROM_RECORD, True)  # noqa: FBT003 - its value
        shown = _shown(tool, params, context)
        asked = self._asked_once_run(tool, context.tool_call)
        if asked is not None and not _was_kept(asked, shown):
            return Replay(_StandIn("", text=asked.read), effect_id=None)
        refused = self._take_refused(tool, shown, context.tool_call)
        if refused is not None:
            return ToolResult.error(refused.read)
        try:
            answer = self._take(tool, shown, context.tool_call)
        except NotRecordedError as error:
            return ToolResult.error(str(error))
        return self._answered(tool, answer)

    @hookimpl(tryfirst=True)
    def toolstile_render(self, result: ToolResult[Any]) -> str | None:
        """Give the text that the model read then."""
        return result.text if isinstance(result, ReplayedResult) else None

    @hookimpl(tryfirst=True)
    def toolstile_on_result(
        self, tool: Tool[Any, Any], result: ToolResult[Any], context: ToolContext
    ) -> None:
        """Reject a stand-in, because no person was asked about it now."""
        if not isinstance(result, _StandIn):
            return
        with self._lock:
            asked = self._asked_once_run(tool, context.tool_call)
            if asked is not None:
                self._end_asking(asked, goes_on=False)
        if asked is not None and not has_run(asked):
            raise CallRefused(asked.read)
        raise CallRefused(
            f"A person changed the arguments of {tool.name} then, and no person is asked now. It "
            "cannot be answered; replay it with the policies that asked."
        )

    def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer as the person did then; to be given to the host as its approver."""
        with self._lock:
            tool = request.tool
            found = next(iter(self._asked_of(tool, self._asked.named(request.call.id))), None)
            if found is None:
                given = _shown(tool, request.params, request.context)
                asked = self._asked_of(tool, self._asked)
                found = next((each for each in asked if _is_asked(tool, each, given)), None)
            if found is not None and found.approval is not None:
                said = _said_again(found, found.approval)
                shows_diff = request.diff is not None
                # A person who was shown the diff may have given the call other arguments.
                shown = _shown(request.tool, request.params, request.context)
                if (DIFF in found.attributes and not is_of(found, shown)) and (
                    shows_diff or said.answer in _GOES_ON
                ):
                    said = _edited_again(found)
                    if shows_diff and said.answer is Answer.EDITED:
                        # The final answer follows once the edited call has run.
                        return said
                self._end_asking(found, goes_on=said.answer in _GOES_ON)
                return said
            id_ = request.call.id
            named = [*self._refused.named(id_), *self._on_cards.named(id_)]
            refused = self._of_session(named)
        if refused or self._approves:
            return _UNSEEN
        return ApprovalAnswer.unanswered("The record has no answer to this.")

    def _answered(self, tool: Tool[Any, Any], call: RecordedCall) -> Replay | ToolResult[Any]:
        self._compare_versions(tool, call)
        raised = raised_by(call)
        if raised is not None:
            raise raised
        if not call.success:
            return ToolResult.error(call.read)
        where = f"{self.recording.path}, line {call.n}"
        try:
            data = json.dumps(call.envelope.get("data"))
            value = tool.result_codec.decode(data) if call.value == "wire" else None
        except ValueError as error:
            reason = str(error).rstrip(".")
            raise ToolError(
                f"The recorded result of {tool.name} does not fit it any more ({reason}). It "
                "cannot be replayed; record it again.",
                for_operator=f"It stands in {where}.",
            ) from error
        if call.changes_lost is not None:
            log.warning(
                "%s: its changes of the session are lost: %s",
                where,
                call.changes_lost,
                extra=NOTICE,
            )
        result = ReplayedResult(
            call.message, value, exclude_value_from_context=call.value == "kept", text=call.read
        )
        return Replay(result, effect_id=None, changes=call.changes)

    def _compare_versions(self, tool: Tool[Any, Any], answer: RecordedCall) -> None:
        """Warn once about a tool that has changed, in more than a patch, since the recording."""
        then, now = (
            (text or "").split(".")[:2] for text in (answer.envelope.get("version"), tool.version)
        )
        with self._lock:
            if then == now or tool.name in self._told:
                return
            self._told.add(tool.name)
        log.warning(
            "%s, line %d: %s was recorded in version %s, and its version is %s now; the recorded "
            "answer may differ from a present one.",
            self.recording.path,
            answer.n,
            tool.name,
            answer.envelope.get("version") or "(none)",
            tool.version or "(none)",
            extra=NOTICE,
        )

    def _take(self, tool: Tool[Any, Any], shown: Any, call: ToolCall | None) -> RecordedCall:
        try:
            return self._answers.take(tool.name, shown)
        except NotRecordedError:
            if call is None:
                raise
        # Defaults may differ: a factory makes new ones, and they change between versions. So take
        # a recorded call whose original arguments are these.
        with self._making_up:
            given = key_of(masked(value_of(call.arguments), tool.params_codec.secret_schema()))
            left = [entry for entry in self._answers.left() if entry.tool == tool.name]
            same = (
                recorded.params
                for recorded in left
                if (recorded.approval is None or recorded.approval.answer != Answer.EDITED)
                and key_of(recorded.arguments) == given
            )
            is_left = any(is_of(recorded, shown) for recorded in left)
            return self._answers.take(tool.name, shown if is_left else next(same, shown))

    def _take_refused(
        self, tool: Tool[Any, Any], shown: Any, call: ToolCall | None
    ) -> RecordedCall | None:
        """Return the same call if it was refused then, and nothing refuses it now."""
        if call is None:
            return None
        same = (tool.name, call.id)

        def is_same(entry: RecordedCall) -> bool:
            return (entry.tool, entry.id) == same and is_of(entry, shown)

        with self._lock:
            refused = self._of_session(self._refused.named(call.id))
            found = next(filter(is_same, refused), None)
            if found is None:
                return None
            if any(map(is_same, self._of_session(self._answers.left_before(found)))):
                return None
            self._refused.discard(found)
            return found

    def _of_session(self, calls: Iterable[RecordedCall]) -> list[RecordedCall]:
        return [entry for entry in calls if self.session in {None, entry.session}]

    def _asked_once_run(self, tool: Tool[Any, Any], call: ToolCall | None) -> RecordedCall | None:
        """Return the same call if a person was asked after it ran, and is not asked yet."""
        if call is None:
            return None
        found = next(iter(self._asked_of(tool, self._asked.named(call.id))), None)
        return found if found is not None and DIFF in found.attributes else None

    def _end_asking(self, found: RecordedCall, *, goes_on: bool) -> None:
        self._asked.discard(found)
        if not goes_on:
            # The call ends here as it did then; the same call may have been resumed later.
            self._refused.discard(found)

    def _asked_of(self, tool: Tool[Any, Any], calls: Iterable[RecordedCall]) -> list[RecordedCall]:
        return [entry for entry in self._of_session(calls) if entry.tool == tool.name]


def _was_kept(call: RecordedCall, shown: Any) -> bool:
    """Tell whether a person let the call proceed with these very arguments."""
    kept = has_run(call) and call.approval is not None and call.approval.answer in _GOES_ON
    return kept and is_of(call, shown)


def _is_given(recorded: Any, given: object) -> bool:
    if isinstance(recorded, str) or not isinstance(given, (str, bytes)):
        return bool(recorded == given)
    try:
        return bool(recorded == json.loads(given))
    except (ValueError, RecursionError):
        return False


def _shown(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Any:
    """Return params as they are recorded, except for secrets that only the result names."""
    codec, call = tool.params_codec, context.tool_call
    value, schema = json.loads(codec.encode(params)), codec.secret_schema()
    secrets = (*secrets_of(value, schema), *secrets_in(context.auth))
    if schema and call is not None:
        secrets += secrets_given(tool, call.arguments)
    return noted(value, schema, secrets)


def _is_asked(tool: Tool[Any, Any], call: RecordedCall, given: Any) -> bool:
    """Tell whether a person was asked about params; a person may have edited them since."""
    codec = tool.params_codec
    try:
        plain = json.loads(codec.encode(codec.decode(json.dumps(call.arguments))))
    except ToolValidationError:
        return is_of(call, given)
    return key_of(masked(plain, codec.secret_schema())) == key_of(given)


def _said_again(call: RecordedCall, approval: Approval) -> ApprovalAnswer:
    match approval.answer:
        case "approved":
            return ApprovalAnswer.approve()
        case "edited":
            return _edited_again(call)
        case "pending":
            return ApprovalAnswer.pending()
        case "refused":
            return ApprovalAnswer.unanswered("The approval that came did not hold.")
        case "unanswered":
            return ApprovalAnswer.unanswered(approval.reason) if approval.reason else _UNSEEN
        case _:
            return ApprovalAnswer.deny(approval.reason)


def _edited_again(call: RecordedCall) -> ApprovalAnswer:
    if hides_some(call, call.params):
        return ApprovalAnswer.deny(
            "The arguments that a person wrote hold secrets, which the record masks."
        )
    return ApprovalAnswer.edit(call.params)


# --- A recorded run, made again


_OF_THE_TIME: Final = frozenset({"fetchedAt", "replayed"})
"""The parts of an envelope that say when and how it was answered."""

NAME: Final = "record-replay"
_MASKED: Final = "its arguments hold secrets, which the record masks"
_NOT_UNDERSTOOD: Final = "its arguments were not understood, and the record masks them"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded call beside its outcome now."""

    recorded: RecordedCall
    now: Mapping[str, Any] | None = None  # the envelope, None if the call was not made
    status: Status | None = None
    skipped: str | None = None  # the reason why it was not made
    # Whether it was denied then and nothing denies it now. It is answered as it was then, because
    # policies do not find files in a replay.
    passes: bool = False
    decisions: tuple[PolicyDecision, ...] = ()  # of the policies that did not allow it now

    @property
    def differs(self) -> bool:
        """True if the outcome now is not the recorded one."""
        before = _outcome(self.recorded.envelope)
        # As JSON: Python takes true for 1.
        return self.now is not None and key_of(_outcome(self.now)) != key_of(before)

    def wire(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        wire: dict[str, Any] = {
            "line": self.recorded.n,
            "id": self.recorded.id,
            "tool": self.recorded.tool,
            "same": not self.differs and self.now is not None,
            "recorded": self.recorded.envelope,
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
            _lines(self.recorded.envelope), _lines(now), "recorded", "now", lineterm="", n=2
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
        stage = _Stage(host, stack, replay, recording)
        for entry in _top_level(recording):
            yield stage.play(entry)


def executed(host: HostHandle, recording: Recording) -> Iterator[Comparison]:
    """Yield each top-level call as it comes out when it is really made again.

    Stored state of policies applies, and is not changed.
    """
    with ExitStack() as stack:
        stage = _Stage(host, stack, None, recording)
        for entry in _top_level(recording):
            if not hides_some(entry, entry.arguments):
                yield stage.play(entry)
                continue
            understood = entry.params is not None
            yield Comparison(entry, skipped=_MASKED if understood else _NOT_UNDERSTOOD)


@contextmanager
def registered(host: HostHandle, plugin: object, name: str = NAME) -> Generator[None]:
    """Register a plugin for a while."""
    host.register(plugin, name)
    try:
        yield
    finally:
        host.unregister(name)


def _top_level(recording: Recording) -> Iterator[RecordedCall]:
    return (entry for entry in recording.calls if entry.parent is None)


class _Stage:
    """Makes recorded calls, each in a session that stands for the recorded session."""

    def __init__(
        self, host: HostHandle, stack: ExitStack, replay: Replayer | None, recording: Recording
    ) -> None:
        self._host = host
        self._ends = {each.id: each for each in recording.transactions}
        self._works: dict[str, TransactionHandle] = {}
        """The transactions that are open, by the id of the recorded one."""
        self._stack = stack
        self._replay = replay
        self._clock: RecordedClock | None = None
        folder = stack.enter_context(TemporaryDirectory(prefix="toolstile-replay-"))
        self._kept = PolicyStoreLocation(Path(folder), anew=replay is not None)
        self._executors: dict[Hashable, ExecutorHandle] = {}
        self._said: dict[Hashable, tuple[RequestTurn, ...]] = {}
        self._events: dict[str, ToolInvoked] = {}

    def play(self, call: RecordedCall) -> Comparison:
        self._end_before(call)
        tools = self._within(self._executor(call), call.transaction)
        for name in call.agent.split("/")[1:]:
            # With all the tools of its parent, because the record has the calls that were refused.
            tools = cast("Any", tools.child(name))
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        ended = self._ends.get(call.transaction or "")
        # A row that a person refused on the card of a transaction that was kept.
        refused = ended and call.success and call.id not in ended.calls
        if refused:
            tools = tools.transaction("refused")
        try:
            tools.dispatch(ToolCall(call.asked_for, arguments, id=call.id))
        except VisibilityExpansionRequired as request:
            tools.expand(request)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            log.debug("%s raised; its event has the outcome.", call.id, exc_info=True)
        if refused:
            cast("Any", tools).rollback()
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
        return Comparison(call, envelope, event.status, passes=passes, decisions=event.decisions)

    def _within(self, tools: ExecutorHandle, id_: str | None) -> ExecutorHandle:
        """Return the transaction that stands for a recorded one, or the executor for None."""
        if id_ is None:
            return tools
        if id_ not in self._works:
            ended = self._ends.get(id_)
            above, title = (None, id_) if ended is None else (ended.parent, ended.title)
            self._works[id_] = self._within(tools, above).transaction(title)
        return self._works[id_]

    def _end_before(self, call: RecordedCall) -> None:
        """End the transactions that had ended before a call, as they ended then."""
        around, id_ = list[str](), call.transaction
        while id_ is not None:
            around.append(id_)
            id_ = self._ends[id_].parent if id_ in self._ends else None
        for id_ in reversed([*self._works]):
            if (ended := self._ends.get(id_)) is None:
                continue
            # A savepoint that was kept ends with the one around it, which has a call here.
            is_kept = id_ not in around and ended.parent in around and ended.n > call.n
            if is_kept or ended.n < call.n:
                work = self._works.pop(id_)
                with suppress(TransactionFailed):
                    if is_kept or ended.status is TransactionStatus.COMMITTED:
                        work.commit()
                    else:
                        work.rollback(ended.reason)

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
