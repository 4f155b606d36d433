"""The events of a run, published on the session's dispatcher and on the application's bus."""

from __future__ import annotations

from dataclasses import dataclass

from toolstile_hookspecs.agents.messages import StopReason, Usage
from toolstile_hookspecs.stored_names import stored_as


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of a run.

    Args:
        run_id: The id of the run, new for each attempt.
        request_id: The id of the request, the same over attempts.
        attempt: The number of the attempt, from 1.
        worker_id: The machine or process that runs it.
    """

    run_id: str
    request_id: str
    attempt: int = 1
    worker_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRendered(RunEvent):
    """A prompt was rendered for a request.

    Args:
        prompt: The namespace and key of the prompt.
        digest: The SHA-256 of its text.
        tools: The names of its tools.
    """

    prompt: str
    digest: str
    tools: tuple[str, ...]


@stored_as("agent.ModelReplied")
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied(RunEvent):
    """A model has replied; kept in the session's log.

    Args:
        turn: The number of the reply in the run, from 1.
        stop_reason: Why the reply ended.
        usage: The tokens, None where the provider does not tell them.
        duration: Seconds from the first try to the end of the reply.
        model: The model that answered.
    """

    turn: int
    stop_reason: StopReason
    usage: Usage | None
    duration: float
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptExecuted(RunEvent):
    """A run has ended.

    Args:
        prompt: The namespace and key of the prompt.
        stop_reason: Why it ended.
        turns: The number of replies.
        usage: The tokens of all replies.
    """

    prompt: str
    stop_reason: StopReason
    turns: int
    usage: Usage


@stored_as("agent.CompletionChecked")
@dataclass(frozen=True, slots=True)
class CompletionChecked:
    """A checker was asked whether a task is complete, or was not; kept in the session's log.

    Args:
        run_id: The id of the run.
        checker: The name of the checker.
        verdict: `complete`, `incomplete` or `skipped`.
        feedback: The words for the model, or why it was skipped.
        duration: Seconds.
    """

    run_id: str
    checker: str
    verdict: str
    feedback: str | None = None
    duration: float = 0.0


@stored_as("agent.GuidanceProgress")
@dataclass(frozen=True, slots=True)
class GuidanceProgress:
    """The progress of a prompt with guidance; part of the session's state, one for each prompt.

    Args:
        prompt: The namespace and key of the prompt.
        calls: The calls of the prompt so far.
        succeeded: The tools that have succeeded.
        files: The files of triggers that have been there.
    """

    prompt: str
    calls: int = 0
    succeeded: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
