"""Tests of policies: calls in a file, each with the verdict that it should meet.

No handler runs: a call that may go on gets the result that stands beside it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    ExecutorHandle,
    HostHandle,
    Outcome,
    PolicyStoreLocation,
    Principal,
    Replay,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    VisibilityExpansionRequired,
    hookimpl,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.support.text import suggest
from toolstile_plugins.record.replay_run import registered
from toolstile_plugins.rules.explanation import UNJUDGED, judged

NAME: Final = "policy-tests"
DENIED: Final = "deny"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TestedCall(_Part):
    """A call, and what it should meet.

    Args:
        tool: The name of the tool.
        arguments: Its arguments.
        expect: The verdict of all policies together; None for any but `deny`.
        by: The name of the policy that should say so, None for any.
        result: The value that the tool returns.
        error: The text with which the tool fails instead.
        answer: The answer of the person, where one is asked.
    """

    __test__ = False

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    expect: Literal["allow", "ask", "deny"] | None = None
    by: str | None = None
    result: JsonValue = None
    error: str | None = None
    answer: Literal["approve", "deny"] = "approve"


class Person(_Part):
    """The principal of a case.

    Args:
        id: The id.
        source: The name of what vouches for it.
        groups: The groups.
    """

    id: str
    source: str = "test"
    groups: tuple[str, ...] = ()

    def named(self) -> Principal:
        """Return the principal."""
        return Principal(self.source, self.id, self.groups)


class Case(_Part):
    """A session with its calls.

    Args:
        name: The statement that the case makes.
        request: The texts in which the user says what is wanted.
        principal: The user.
        together: Whether the calls are one batch.
        calls: The calls, in order.
    """

    name: str
    request: tuple[str, ...] = ()
    principal: Person | None = None
    together: bool = False
    calls: tuple[TestedCall, ...] = Field(min_length=1)


class _Cases(_Part):
    cases: tuple[Case, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The outcome of a case.

    Args:
        name: The name of the case.
        faults: A text for each call that met something else, none where the case holds.
    """

    name: str
    faults: tuple[str, ...] = ()


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file.

    Raises:
        ConfigurationError: When it cannot be read, or does not hold cases.
    """
    try:
        return _Cases.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).cases
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {_misfit(error)}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}.") from None


def _misfit(error: ValidationError) -> str:
    """Return what is wrong with cases, and what to write instead."""
    fault, told = error.errors(include_url=False)[0], first_fault(error)
    where = told.partition(": ")[0]
    match fault["type"]:
        case "missing" if fault["loc"] == ("cases",):
            return "there are no cases; write each as a table [[cases]]"
        case "missing":
            return f"{where}: is missing; add it"
        case "too_short":
            return f"{where}: is empty; add one"
        case "tuple_type":
            return f"{where}: expected an array; put the value into [ ]"
        case "extra_forbidden":
            known = (*_Cases.model_fields, *Case.model_fields, *TestedCall.model_fields)
            near = suggest(str(fault["loc"][-1]), (*known, *Person.model_fields))
            return f"{where}: is not a known key{near or '; remove it'}"
        case _:
            return told


def tried(host: HostHandle, cases: tuple[Case, ...]) -> Iterator[Verdicts]:
    """Yield the outcome of each case, in a session and with memories of its own.

    Args:
        host: The open host, with the policies to test.
        cases: The cases.
    """
    played = _Played()
    with registered(host, played, NAME):
        for case in cases:
            faults = (
                _fault(number, call, outcome)
                for number, (call, outcome) in enumerate(_outcomes(host, case, played), 1)
            )
            yield Verdicts(case.name, tuple(fault for fault in faults if fault is not None))


class _Played:
    """Answers in the place of handlers, and of the person."""

    def __init__(self) -> None:
        self.calls: Mapping[str, TestedCall] = {}

    @hookimpl(tryfirst=True)
    def toolstile_execute(
        self, tool: Tool[Any, Any], context: ToolContext
    ) -> Replay | ToolResult[Any] | None:
        """Answer with the result of the case."""
        call = context.tool_call
        tested = None if call is None else self.calls.get(call.id or "")
        if tested is None:
            return ToolResult.error("A test of policies runs no handler.")
        if tested.error is not None:
            return ToolResult.error(tested.error)
        if tested.result is None:
            return Replay(ToolResult("", None, exclude_value_from_context=True), effect_id=None)
        value = tool.result_codec.decode(json.dumps(tested.result))
        return Replay(ToolResult.ok(value), effect_id=None)

    def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer as the person of the case does."""
        tested = self.calls.get(request.call.id or "")
        if tested is not None and tested.answer == DENIED:
            return ApprovalAnswer.deny("The person of the test says no.")
        return ApprovalAnswer.approve()


def _outcomes(
    host: HostHandle, case: Case, played: _Played
) -> list[tuple[TestedCall, Outcome | BaseException]]:
    person = case.principal
    calls = [
        ToolCall(call.tool, json.dumps(call.arguments), id=f"call-{number}")
        for number, call in enumerate(case.calls, 1)
    ]
    played.calls = dict(zip((call.id or "" for call in calls), case.calls, strict=True))
    with (
        TemporaryDirectory(prefix="toolstile-policies-") as folder,
        host.executor(
            request=case.request,
            principal=None if person is None else person.named(),
            approver=played.approve,
            kept_apart=PolicyStoreLocation(Path(folder), anew=True),
        ) as tools,
    ):
        batches = [calls] if case.together else [[call] for call in calls]
        outcomes = [outcome for batch in batches for outcome in _made(tools, batch)]
    return list(zip(case.calls, outcomes, strict=True))


def _made(tools: ExecutorHandle, calls: list[ToolCall]) -> list[Outcome | BaseException]:
    outcomes = tools.dispatch_all(calls)
    for outcome in outcomes:
        if isinstance(outcome, VisibilityExpansionRequired):
            tools.expand(outcome)
    return outcomes


def _fault(number: int, call: TestedCall, outcome: Outcome | BaseException) -> str | None:
    """Return what a call met instead, None where it met what it should."""
    where = f"call {number}, {call.tool}"
    if not isinstance(outcome, Outcome):
        return None if call.expect in {None, "allow"} else f"{where}: it raised {outcome}."
    verdict, decision = judged(outcome.status, outcome.event.decisions)
    if verdict == UNJUDGED:
        return f"{where}: no policy was asked: {outcome.text}"
    policy = None if decision is None else decision.policy
    said = "" if decision is None else f" by {policy}: {decision.reason}"
    if call.expect is None:
        return f"{where}: denied{said}" if verdict == DENIED else None
    if verdict != call.expect:
        return f"{where}: expected {call.expect}, came to {verdict}{said}"
    if call.by is not None and policy != call.by:
        return f"{where}: expected {verdict} by {call.by}, it came{said}"
    return None
