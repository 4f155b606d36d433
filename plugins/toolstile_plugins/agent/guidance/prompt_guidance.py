"""Guidance of a run: feedback after its calls, and checks before its end is accepted.

Calls of a dry run and of a replay get neither.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from toolstile_hookspecs import (
    Clock,
    Deadline,
    DefinitionError,
    ExecutorHandle,
    Filesystem,
    Outcome,
    Status,
    SystemClock,
    ToolInvoked,
)
from toolstile_hookspecs.agents.feedback import Feedback
from toolstile_hookspecs.agents.guidance import (
    FeedbackProvider,
    FeedbackProviderConfig,
    GuidanceContext,
    TaskCompletionChecker,
    TaskCompletionResult,
)
from toolstile_hookspecs.calls import DRY_RUN
from toolstile_hookspecs.sessions import SlicePolicy, append_all
from toolstile_plugins.agent.effects import Consult, Loop, NotInTime
from toolstile_plugins.agent.events import CompletionChecked, GuidanceProgress

log = logging.getLogger("toolstile.agent")

FEEDBACK_SECONDS: Final = 1.0
"""The time of a provider for an answer; the run goes on without it, and asks it no more."""
CHECK_SECONDS: Final = 60.0
"""The time of a checker, unless the deadline comes first; after it the stop is refused."""
MAX_RECENT: Final = 100
"""The most calls that a context tells of."""
GUIDANCE: Final = (Feedback, CompletionChecked, GuidanceProgress)
"""The types that guidance keeps in a session."""
_UNCHECKED: Final = (
    "Whether the task is complete could not be checked. See for yourself that nothing is missing."
)


@dataclass(slots=True)
class Guidance:
    """The guidance of a prompt in a session, from its template and its enabled sections.

    Args:
        tools: The executor.
        clock: The source of time.
        deadline: The end of the run.
        adapter: The adapter of the provider.
        run_id: The id of the run.
        publish: Receives feedback and verdicts, beside the session's dispatcher.

    Raises:
        DefinitionError: When a provider has no trigger, or two have one name.
    """

    tools: ExecutorHandle
    clock: Clock = field(default_factory=SystemClock)
    deadline: Deadline | None = None
    adapter: Any = None
    run_id: str = ""
    publish: Callable[[object], object] = lambda _: None
    refusals: int = 0
    _prompt: str = ""
    _is_used: bool = False
    _is_apart: bool = False
    _started: float = 0.0
    _count: int = 0
    _calls: deque[ToolInvoked] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    _given: dict[str, Feedback] = field(default_factory=dict[str, Feedback])
    _files: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _abandoned: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Go on from what the session has, or note the files that are there before any call."""
        prompt, session = self.tools.prompt, self.tools.session
        self._prompt, self._started = f"{prompt.ns}:{prompt.key}", self.clock.monotonic()
        sources = [prompt.template, *prompt.everywhere()]
        configs = list(_configs(sources))
        _check(self._prompt, configs)
        self._is_used = bool(configs) or any(True for _ in _checkers(sources))
        if not self._is_used:
            return
        for type_ in (Feedback, CompletionChecked):
            session[type_].register(type_, append_all, SlicePolicy.LOG)
        if (before := self._progress()) is not None:
            self._count, self._files = before.calls, set(before.files)
        else:
            files = [(each.provider.name, each.trigger.on_file_created or "") for each in configs]
            self._files = {file for file in files if self._has(file[1])}
            self._advance()
        for given in session[Feedback].where(lambda each: each.prompt == self._prompt):
            # A restored session may have fewer calls than when it was given.
            self._remember(replace(given, call_index=min(given.call_index, self._count)))

    def feedback(
        self, outcomes: Sequence[Outcome | BaseException], elsewhere: int = 0
    ) -> Loop[list[Feedback]]:
        """Count the calls of a batch, and return what the providers say about it.

        Args:
            outcomes: The outcomes; those that wait for a person count when they have ended.
            elsewhere: The number of further calls, which the host has not seen.
        """
        found = [each.event for each in outcomes if isinstance(each, Outcome)]
        ended = [event for event in found if event.status is not Status.PENDING]
        if any(event.success for event in ended):
            self.refusals = 0
        self._is_apart |= any(each.replayed or each.attributes.get(DRY_RUN) for each in ended)
        count, given = len(ended) + elsewhere, list[Feedback]()
        if not self._is_used or self._is_apart or not count:
            return given
        self._count += count
        self._calls.extend(ended)
        due = [each.provider for each in _configs(self._sources()) if self._is_due(each)]
        self._advance(ended)
        context = self._context() if due else None
        for provider in due:
            said = yield from self._asked(provider, context)
            if said is not None:
                given.append(self._give(provider.name, said))
        return given

    def objection(self, **stopped: Any) -> Loop[str | None]:
        """Return what is missing before the model may stop, None where nothing is.

        Args:
            stopped: The fields of the context that say how it stopped.
        """
        if not self._is_used:
            return None
        if self._is_apart:
            self.skip("its calls are those of a dry run or a replay")
            return None
        context = self._context(refusals=self.refusals, **stopped)
        for checker in _checkers(self._sources()):
            result = yield from self._checked(checker, context)
            if not result.complete:
                self.refusals += 1
                return result.feedback
        return None

    def skip(self, reason: str) -> None:
        """Note that completion is not checked, and why."""
        for checker in _checkers(self._sources()) if self._is_used else ():
            self._note(CompletionChecked(self.run_id, name_of(checker), "skipped", reason))

    def _asked(self, provider: FeedbackProvider, context: Any) -> Loop[Feedback | None]:
        said: object = None
        try:
            if (yield Consult(partial(provider.should_run, context), FEEDBACK_SECONDS)):
                said = yield Consult(partial(provider.provide, context), FEEDBACK_SECONDS)
        except NotInTime:
            self._abandoned.add(provider.name)
            log.warning("Feedback provider %s takes too long, and is left out", provider.name)
        except Exception:
            log.exception("Feedback provider %s raised, and is left out", provider.name)
        if said is None or isinstance(said, Feedback):
            return said
        log.warning("Feedback provider %s gave something else: %r", provider.name, said)
        return None

    def _checked(
        self, checker: TaskCompletionChecker, context: GuidanceContext
    ) -> Loop[TaskCompletionResult]:
        left = CHECK_SECONDS if self.deadline is None else self.deadline.remaining()
        began, name, result = self.clock.monotonic(), name_of(checker), None
        try:
            result = yield Consult(partial(checker.check, context), min(CHECK_SECONDS, left))
        except Exception:
            log.exception("Completion checker %s raised, or took too long", name)
        if not isinstance(result, TaskCompletionResult):
            log.warning("Completion checker %s came to no verdict: %r", name, result)
            result = TaskCompletionResult.incomplete(_UNCHECKED)
        verdict = "complete" if result.complete else "incomplete"
        took = self.clock.monotonic() - began
        self._note(CompletionChecked(self.run_id, name, verdict, result.feedback, took))
        return result

    def _is_due(self, config: FeedbackProviderConfig) -> bool:
        name, trigger = config.provider.name, config.trigger
        last, file = self._given.get(name), (name, trigger.on_file_created or "")
        since = self._count - last.call_index if last else self._count
        if name in self._abandoned:
            return False
        if file not in self._files and self._has(file[1]):
            self._files.add(file)
            return True
        if trigger.every_n_calls is not None and since >= trigger.every_n_calls:
            return True
        if trigger.every_n_seconds is None or last is None or last.timestamp is None:
            return trigger.every_n_seconds is not None
        return (self.clock.now() - last.timestamp).total_seconds() >= trigger.every_n_seconds

    def _has(self, filename: str) -> bool:
        files = self.tools.resources.get(Filesystem, None)  # type: ignore[type-abstract]  # a protocol
        with suppress(OSError, ValueError):
            return bool(filename) and files is not None and files.exists(filename)
        return False

    def _give(self, name: str, said: Feedback) -> Feedback:
        now, count = self.clock.now(), self._count
        given = replace(
            said, provider_name=name, timestamp=now, call_index=count, prompt=self._prompt
        )
        self._remember(given)
        self._note(given)
        return given

    def _remember(self, given: Feedback) -> None:
        self._given.pop(given.provider_name, None)  # so that the last one stands last
        self._given[given.provider_name] = given

    def _advance(self, ended: Sequence[ToolInvoked] = ()) -> None:
        progress, before = self.tools.session[GuidanceProgress], self._progress()
        names = {event.tool_name for event in ended if event.success}
        names.update(before.succeeded if before else ())
        now = (self._prompt, self._count, tuple(sorted(names)), tuple(sorted(self._files)))
        others = progress.where(lambda each: each.prompt != self._prompt)
        progress.seed(*others, GuidanceProgress(*now))

    def _progress(self) -> GuidanceProgress | None:
        found = self.tools.session[GuidanceProgress].where(lambda each: each.prompt == self._prompt)
        return found[0] if found else None

    def _note(self, event: object) -> None:
        self.tools.session.dispatch(event)
        self.publish(event)

    def _sources(self) -> list[Any]:
        prompt = self.tools.prompt
        return [prompt.template, *(each.section for each in prompt.places(self.tools.session))]

    def _context(self, **more: Any) -> GuidanceContext:
        return GuidanceContext(
            session=self.tools.session.clone(id=self.tools.session.id),
            prompt=self.tools.prompt,
            resources=self.tools.resources,
            clock=self.clock,
            started=self._started,
            deadline=self.deadline,
            adapter=self.adapter,
            tool_call_count=self._count,
            calls=tuple(self._calls),
            given=dict(self._given),
            **more,
        )


def _configs(sources: Iterable[Any]) -> Iterator[FeedbackProviderConfig]:
    for source in sources:
        yield from getattr(source, "feedback_providers", ())


def _checkers(sources: Iterable[Any]) -> Iterator[TaskCompletionChecker]:
    for source in sources:
        if (checker := getattr(source, "task_completion", None)) is not None:
            yield checker


def _check(prompt: str, configs: Sequence[Any]) -> None:
    if any(not isinstance(each, FeedbackProviderConfig) for each in configs):
        raise DefinitionError(
            f"{prompt}: write FeedbackProviderConfig(provider, FeedbackTrigger(...)) for each of "
            "its feedback_providers."
        )
    names = [each.provider.name for each in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DefinitionError(f"{prompt}: two feedback providers have the name {twice[0]}.")


def name_of(checker: TaskCompletionChecker) -> str:
    """Return the name of a checker, that of its class where it has none."""
    return str(getattr(checker, "name", type(checker).__name__))
