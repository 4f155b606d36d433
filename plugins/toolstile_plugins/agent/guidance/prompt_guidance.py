"""Guidance of a prompt: feedback after its calls, and checks before its end is accepted.

Calls of a dry run and of a replay get neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeGuard, cast

from toolstile_hookspecs import (
    NOTICE,
    Cancellation,
    Deadline,
    DefinitionError,
    ExecutorHandle,
    Filesystem,
    HostHandle,
    Outcome,
    PluginError,
    Prompt,
    SessionProtocol,
    Status,
    SystemClock,
    ToolContext,
    ToolstileError,
)
from toolstile_hookspecs.agents.guidance import (
    Feedback,
    FeedbackProviderConfig,
    GuidanceContext,
    GuidedOutcome,
    TaskCompletionChecker,
    TaskCompletionResult,
)
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.calls import DRY_RUN
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.services.replay import Recorder
from toolstile_hookspecs.sessions import SlicePolicy, append_all
from toolstile_plugins.agent.effects import Consult, Loop, NotInTime, adrive, drive
from toolstile_plugins.agent.result import CompletionChecked, GuidanceProgress, RunCancelled

log = logging.getLogger("toolstile.agent")

FEEDBACK_SECONDS: Final = 1.0
"""The time of a provider for an answer; after it, the run does not use the provider any more."""
CHECK_SECONDS: Final = 60.0
"""The time of a checker, unless the deadline comes first; after it the stop is refused."""
MAX_RECENT: Final = 100
"""The most recent calls in a context."""
GUIDANCE: Final = (Feedback, CompletionChecked, GuidanceProgress)
"""The types that guidance keeps in a session."""
_APART: Final = {DRY_RUN, "record.replayed"}
"""The attributes of calls that are not real."""
_UNCHECKED: Final = (
    "Whether the task is complete could not be checked. See for yourself that nothing is missing."
)

Configs = Sequence[FeedbackProviderConfig]
Outcomes = Sequence[Outcome | BaseException]


@dataclass(eq=False)
class Guidance:
    """The guidance of a prompt in a session.

    Its sources are the configuration of the host and of the agent, the prompt's template and the
    enabled sections of the prompt.

    Raises:
        DefinitionError: When a provider has no trigger, or two providers have one name.
    """

    tools: ExecutorHandle
    host: HostHandle | None = None  # the host, for its clock and its configuration
    config: Any = None  # of the agent
    deadline: Deadline | None = None
    adapter: Any = None
    cancellation: Cancellation | None = None
    run_id: str = ""
    # Receives feedback and verdicts, beside the session's dispatcher.
    publish: Callable[[object], object] = lambda _: None
    refusals: int = 0  # how often in a row the model's stop was refused
    # Returns session and resources as the calls of a transaction see them, if there is one.
    view: Callable[[], ToolContext] | None = None

    def __post_init__(self) -> None:
        prompt, clock = self.tools.prompt, self.host.clock if self.host else SystemClock()
        self._context = self._now = GuidanceContext(
            session=self.tools.session,
            prompt=prompt,
            resources=self.tools.resources,
            clock=clock,
            started=clock.monotonic(),
            deadline=self.deadline,
            adapter=self.adapter,
        )
        self._progress = GuidanceProgress(f"{prompt.ns}:{prompt.key}")
        self._abandoned, self._is_apart = set[str](), False
        self._beyond = [self.config]
        with suppress(PluginError):  # the host may go without the plugin
            self._beyond.append(self.host and self.host.settings("agent"))
        sources = [*self._beyond, prompt.template, *prompt.everywhere()]
        configs, checkers = _configs(sources), _checkers(sources)
        _check(self._progress.prompt, configs, checkers)
        self._is_used = bool(configs or checkers)
        if not self._is_used:
            return
        session, name = self.tools.session, self._progress.prompt
        for type_ in (Feedback, CompletionChecked):
            session[type_].register(type_, append_all, SlicePolicy.LOG)
        if known := session[GuidanceProgress].where(lambda each: each.prompt == name):
            self._progress = known[0]
            self._now = replace(self._now, tool_call_count=known[0].calls)
        else:  # files that exist before any call trigger nothing
            self._advance(files=self._created(configs))
        for given in session[Feedback].where(lambda each: each.prompt == name):
            # A restored session may have fewer calls than at the time of the feedback.
            index = min(given.call_index, self._progress.calls)
            self._remember(replace(given, call_index=index))

    def feedback(self, outcomes: Outcomes, elsewhere: int = 0) -> Loop[list[Feedback]]:
        """Count the calls of a batch, and return the feedback of the providers.

        Calls that wait for a person count at their end. `elsewhere` is the number of further calls,
        which the host has not seen.
        """
        ended = [each.event for each in outcomes if _has_ended(each)]
        succeeded = {event.tool_name for event in ended if event.success}
        self.refusals = 0 if succeeded else self.refusals
        self._is_apart |= any(_APART & each.attributes.keys() for each in ended)
        count, given = len(ended) + elsewhere, list[Feedback]()
        if not self._is_used or self._is_apart or not count:
            return given
        configs, before = _configs(self._sources()), self._progress
        created = self._created(configs)
        self._advance(
            calls=before.calls + count,
            succeeded=tuple(sorted(succeeded.union(before.succeeded))),
            files=(*before.files, *created),
        )
        self._now = replace(self._now, calls=(*self._now.calls, *ended)[-MAX_RECENT:])
        call_id = ended[-1].call_id if ended else ""
        due = [each.provider for each in configs if self._is_due(each, created)]
        if due:
            self._look()
        for provider in due:
            name, more = provider.name, (provider.name, FEEDBACK_SECONDS)
            if (yield from self._answer(provider.should_run, *more, object)):
                said = yield from self._answer(provider.provide, *more, Feedback | None)
                if said is not None:
                    now, prompt, at = self._progress, self._progress.prompt, self._now.clock.now()
                    fields = {"call_index": now.calls, "prompt": prompt, "call_id": call_id}
                    said = replace(said, provider_name=name, timestamp=at, **fields)
                    self._remember(said)
                    self._note(said)
                    given.append(said)
        return given

    def completion(
        self, output: Any = None, text: str = "", stop_reason: StopReason = StopReason.END
    ) -> Loop[TaskCompletionResult]:
        """Return whether the model may stop; the first checker that objects decides."""
        if self._is_apart:
            self.skip("the calls belong to a dry run or a replay")
        elif checkers := _checkers(self._sources()):
            stopped = {"tentative_output": output, "text": text, "stop_reason": stop_reason}
            self._look(refusals=self.refusals, **stopped)
            for checker in checkers:
                name, clock, deadline = _name_of(checker), self._now.clock, self._now.deadline
                seconds = min(CHECK_SECONDS, deadline.remaining() if deadline else CHECK_SECONDS)
                began = clock.monotonic()
                result: TaskCompletionResult = (
                    yield from self._answer(checker.check, name, seconds, TaskCompletionResult)
                ) or TaskCompletionResult.incomplete(_UNCHECKED)
                verdict = "complete" if result.complete else "incomplete"
                verdict_of = self.run_id, name, verdict, result.feedback
                self._note_check(CompletionChecked(*verdict_of, clock.monotonic() - began))
                if not result.complete:
                    self.refusals += 1
                    return result
        return TaskCompletionResult.ok()

    def skip(self, reason: str) -> None:
        """Publish that completion is not checked, and the reason."""
        for checker in _checkers(self._sources()):
            self._note_check(CompletionChecked(self.run_id, _name_of(checker), "skipped", reason))

    # --- For applications with a loop of another library

    def with_feedback(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes of a batch; the last ended one has the feedback for dialects."""
        return _guided(outcomes, drive(self.feedback(outcomes)))

    async def awith_feedback(self, outcomes: Outcomes) -> Outcomes:
        return _guided(outcomes, await adrive(self.feedback(outcomes)))

    def check_completion(self, output: Any = None, text: str = "") -> TaskCompletionResult:
        return drive(self.completion(output, text))

    async def acheck_completion(self, output: Any = None, text: str = "") -> TaskCompletionResult:
        return await adrive(self.completion(output, text))

    # --- Its parts

    def _answer(
        self, question: Callable[[GuidanceContext], Any], name: str, seconds: float, type_: Any
    ) -> Loop[Any]:
        """Return the answer of a provider or a checker, None if it is late or has another type."""
        try:
            answer = yield Consult(partial(question, self._context), seconds, self.cancellation)
        except RunCancelled:
            raise
        except NotInTime:
            self._abandoned.add(name)
            log.warning("%s takes too long to guide a model, and is left out", name)
        except Exception:
            log.exception("%s raised as it was to guide a model, and is left out", name)
        else:
            if isinstance(answer, type_):
                return answer
            log.warning("%s is to guide a model, and gave something else: %r", name, answer)
        return None

    def _is_due(self, config: FeedbackProviderConfig, created: Sequence[str]) -> bool:
        name, trigger, now = config.provider.name, config.trigger, self._now
        calls, seconds = trigger.every_n_calls, trigger.every_n_seconds
        if name in self._abandoned:
            return False
        if trigger.on_file_created in created or (calls and now.calls_since(name) >= calls):
            return True
        last = now.last_feedback_for(name)
        if seconds is None or last is None or last.timestamp is None:
            return seconds is not None
        return (now.clock.now() - last.timestamp).total_seconds() >= seconds

    def _created(self, configs: Configs) -> tuple[str, ...]:
        """Return the files of triggers that exist now and did not before."""
        watched = {each.trigger.on_file_created or "" for each in configs}
        new = sorted(watched - {"", *self._progress.files})
        seen: Any = new and self._seen().resources.get(Filesystem, None)  # type: ignore[type-abstract]
        return tuple(file for file in new if is_there(seen, file))

    def _remember(self, given: Feedback) -> None:
        name = given.provider_name
        others = {key: said for key, said in self._now.given.items() if key != name}
        self._now = replace(self._now, given={**others, name: given})

    def _advance(self, **changes: Any) -> None:
        self._progress = now = replace(self._progress, **changes)
        self._now = replace(self._now, tool_call_count=now.calls)
        progress = self.tools.session[GuidanceProgress]
        progress.replace(*progress.where(lambda each: each.prompt != now.prompt), now)

    def _note(self, event: object) -> None:
        self.tools.session.dispatch(event)
        self.publish(event)

    def _note_check(self, event: CompletionChecked) -> None:
        self._note(event)
        recorder = self.tools.resources.get(Recorder, None)
        if recorder is not None and self.host is not None:
            about = {"session": self.tools.session.id, "at": self.host.clock.now().isoformat()}
            try:
                recorder.note("check", {**about, "check": asdict(event)})
            except (OSError, ToolstileError):
                log.exception("The check of a task could not be recorded", extra=NOTICE)

    def _sources(self) -> list[Any]:
        prompt = self._now.prompt
        sections = (place.section for place in prompt.places(self._seen().session))
        return [*self._beyond, prompt.template, *sections]

    def _look(self, **more: Any) -> None:
        """Make the context of the next questions, on a copy of the session."""
        seen = self._seen()
        session = seen.session.clone(id=self.tools.session.id)
        self._context = replace(self._now, session=session, resources=seen.resources, **more)

    def _seen(self) -> ToolContext | ExecutorHandle:
        return self.tools if self.view is None else self.view()


def collect_feedback(
    prompt: Prompt, session: SessionProtocol, deadline: Deadline | None = None
) -> list[Feedback]:
    """Return the feedback after one more call outside of the host; the session counts them."""
    return drive(Guidance(nowhere(prompt, session), deadline=deadline).feedback((), 1))


async def acollect_feedback(
    prompt: Prompt, session: SessionProtocol, deadline: Deadline | None = None
) -> list[Feedback]:
    """Return the feedback after a call outside of the host; see `collect_feedback`."""
    return await adrive(Guidance(nowhere(prompt, session), deadline=deadline).feedback((), 1))


def nowhere(
    prompt: Prompt, session: SessionProtocol, resources: ResourceResolver | None = None
) -> ExecutorHandle:
    """Return a stand-in for an executor that makes no calls."""
    found = ToolContext(session=session).resources if resources is None else resources
    return cast("ExecutorHandle", SimpleNamespace(prompt=prompt, session=session, resources=found))


def is_there(files: Filesystem | None, file: str) -> bool:
    """Return whether a workspace has a file; it has no file outside of its folder."""
    with suppress(OSError, ValueError):
        return files is not None and files.exists(file)
    return False


def _name_of(checker: TaskCompletionChecker) -> str:
    return str(getattr(checker, "name", type(checker).__name__))


def _configs(sources: Iterable[Any]) -> list[FeedbackProviderConfig]:
    return [config for each in sources for config in getattr(each, "feedback_providers", ())]


def _checkers(sources: Iterable[Any]) -> list[TaskCompletionChecker]:
    checkers: list[Any] = []
    for each in sources:
        found: Any = getattr(each, "task_completion", None) or ()
        checkers += found if isinstance(found, (tuple, list)) else [found]
    return checkers


def _check(prompt: str, configs: Sequence[Any], checkers: Sequence[Any]) -> None:
    if wrong := [each for each in checkers if isinstance(each, type) or not hasattr(each, "check")]:
        msg = f"task_completion is an object with check(context), not {wrong[0]!r}."
        raise DefinitionError(f"{prompt}: {msg}")
    if any(not isinstance(each, FeedbackProviderConfig) for each in configs):
        msg = "feedback_providers are FeedbackProviderConfig(provider, FeedbackTrigger(...))."
        raise DefinitionError(f"{prompt}: {msg}")
    names = [each.provider.name for each in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"{prompt}: two feedback providers have the name {twice[0]}"
        raise DefinitionError(f"{msg}; give one of them another name.")


def _has_ended(outcome: Outcome | BaseException) -> TypeGuard[Outcome]:
    return isinstance(outcome, Outcome) and outcome.status is not Status.PENDING


def _guided(outcomes: Outcomes, given: Sequence[Feedback]) -> Outcomes:
    guided = list(outcomes)
    if given:
        last = max(index for index, each in enumerate(outcomes) if _has_ended(each))
        outcome = cast("Outcome", outcomes[last])
        guided[last] = GuidedOutcome(outcome.event, outcome.held_result, tuple(given))
    return guided
