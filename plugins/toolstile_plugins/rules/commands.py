"""The command `toolstile policy`: explain a call, test the policies on cases or on records."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    HostHandle,
    Outcome,
    PolicyDecision,
    PolicyStoreLocation,
    Principal,
    Replay,
    StateError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    Verdict,
    VisibilityExpansionRequired,
    hookimpl,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.execution.options import PolicyAnswer
from toolstile_hookspecs.support.process import replaced
from toolstile_hookspecs.support.text import counted, printable, suggest
from toolstile_plugins.cli_support import unseen
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.record.reader import Recording, records_in, size_of
from toolstile_plugins.record.replayer import APART, Comparison, Replayer, registered, replayed
from toolstile_plugins.record.schema import Decision as RecordedDecision
from toolstile_plugins.rules.shell.policy import policies_of, strictest
from toolstile_plugins.screen import Cell, Screen, progress

CONFIRMATION: Final = "requires_confirmation"
"""The name under which a tool itself asks."""


def explained(
    host: HostHandle, call: ToolCall, *, request: Sequence[str], principal: Principal | None
) -> tuple[str, str, list[PolicyAnswer]]:
    """Return the verdict on a call, its text, and the answers in the order of the policies.

    The call is made in a new session. No handler runs, and no person is asked.
    """
    answers = dict[str, PolicyAnswer]()
    questions = list[ApprovalRequest]()

    def approve(question: ApprovalRequest) -> ApprovalAnswer:
        questions.append(question)
        return ApprovalAnswer.approve()

    with (
        registered(host, _Played(), "policy-explanation"),
        TemporaryDirectory(prefix="toolstile-policies-") as folder,
        host.executor(
            request=request,
            principal=principal,
            approver=approve,
            kept_apart=PolicyStoreLocation(Path(folder)),
            on_answer=lambda answer: answers.update({answer.policy: answer}),
        ) as tools,
    ):
        [outcome] = tools.dispatch_all([call])
    if not isinstance(outcome, Outcome):
        return Verdict.ALLOW.value, "", list(answers.values())
    for said in outcome.event.decisions:
        # Decisions of a count, and those in place of a policy that failed.
        name = said.policy or ""
        answers[name] = PolicyAnswer(name, said.verdict, said.reason or "")
    verdict, _ = judged(outcome.status, outcome.event.decisions)
    if any(question.tool.requires_confirmation for question in questions):
        why = f"{call.name} requires confirmation."
        answers[CONFIRMATION] = PolicyAnswer(CONFIRMATION, Verdict.ASK, why)
        verdict = verdict if verdict == Verdict.DENY else Verdict.ASK.value
    return verdict, outcome.text, list(answers.values())


UNJUDGED: Final = "not judged"
"""The verdict on a call that ends before its policies, such as a call of an unknown tool."""
_BEFORE_POLICIES: Final = {Status.UNKNOWN_TOOL, Status.INVALID}
Decision = PolicyDecision | RecordedDecision


def judged(status: Status | None, decisions: Iterable[Decision]) -> tuple[str, Decision | None]:
    """Return the verdict of all policies on a call, and the decision that made it.

    Deny wins over ask, and ask over allow.
    """
    decided = tuple(decisions)
    for verdict in (Verdict.DENY, Verdict.ASK):
        for decision in decided:
            if decision.verdict is verdict:
                return verdict.value, decision
    return UNJUDGED if status in _BEFORE_POLICIES else Verdict.ALLOW.value, None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TestedCall(_Part):
    """A call, and the expected verdict."""

    __test__ = False

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    expect: Literal["allow", "ask", "deny"] | None = None  # None for any but `deny`
    by: str | None = None  # the policy that decides
    result: JsonValue = None  # of the tool
    error: str | None = None  # with which the tool fails instead
    answer: Literal["approve", "deny"] = "approve"  # of the person, if one is asked


class Person(_Part):
    """The principal of a case; `source` vouches for the id."""

    id: str
    source: str = "test"
    groups: tuple[str, ...] = ()


class Case(_Part):
    """A session with its calls; `name` is the statement that the case makes."""

    name: str
    request: tuple[str, ...] = ()
    principal: Person | None = None
    together: bool = False  # whether the calls are one batch
    calls: tuple[TestedCall, ...] = Field(min_length=1)


class _Cases(_Part):
    cases: tuple[Case, ...] = Field(min_length=1)


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file; raise `ConfigurationError` if it cannot be read or has none."""
    try:
        return _Cases.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).cases
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {_misfit(error)}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}.") from None


def _misfit(error: ValidationError) -> str:
    """Return the fault of cases, and the remedy."""
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


def tried(host: HostHandle, cases: tuple[Case, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each case, and the faults of its calls; each has a new session."""
    played = _Played()
    with registered(host, played, "policy-tests"):
        for case in cases:
            faults = (
                _fault(number, call, outcome)
                for number, (call, outcome) in enumerate(_outcomes(host, case, played), 1)
            )
            yield case.name, [fault for fault in faults if fault is not None]


class _Played:
    """Answers in place of handlers, so that none runs, and of the person."""

    def __init__(self) -> None:
        self.calls: Mapping[str, TestedCall] = {}

    @hookimpl(tryfirst=True)
    def toolstile_execute(
        self, tool: Tool[Any, Any], context: ToolContext
    ) -> Replay | ToolResult[Any] | None:
        call = context.tool_call
        tested = None if call is None else self.calls.get(call.id or "")
        if tested is None:
            return ToolResult.error("A check of policies runs no handler.")
        if tested.error is not None:
            return ToolResult.error(tested.error)
        if tested.result is None:
            return Replay(ToolResult("", None, exclude_value_from_context=True), effect_id=None)
        value = tool.result_codec.decode(json.dumps(tested.result))
        return Replay(ToolResult.ok(value), effect_id=None)

    def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        tested = self.calls.get(request.call.id or "")
        if tested is not None and tested.answer == "deny":
            return ApprovalAnswer.deny("The person of the test says no.")
        return ApprovalAnswer.approve()


def _outcomes(
    host: HostHandle, case: Case, played: _Played
) -> list[tuple[TestedCall, Outcome | BaseException]]:
    person = case.principal
    played.calls = {f"call-{number}": call for number, call in enumerate(case.calls, 1)}
    calls = [
        ToolCall(call.tool, json.dumps(call.arguments), id=id_)
        for id_, call in played.calls.items()
    ]
    with (
        TemporaryDirectory(prefix="toolstile-policies-") as folder,
        host.executor(
            request=case.request,
            principal=None if person is None else Principal(**dict(person)),
            approver=played.approve,
            kept_apart=PolicyStoreLocation(Path(folder), anew=True),
        ) as tools,
    ):
        batches = [calls] if case.together else [[call] for call in calls]
        outcomes: list[Outcome | BaseException] = []
        for batch in batches:
            made = tools.dispatch_all(batch)
            for outcome in made:
                if isinstance(outcome, VisibilityExpansionRequired):
                    tools.expand(outcome)
            outcomes += made
    return list(zip(case.calls, outcomes, strict=True))


def _fault(number: int, call: TestedCall, outcome: Outcome | BaseException) -> str | None:
    """Return how the outcome of a call differs from the expected one, None if it does not."""
    where = f"call {number}, {call.tool}"
    if not isinstance(outcome, Outcome):
        return None if call.expect in {None, "allow"} else f"{where}: it raised {outcome}."
    verdict, decision = judged(outcome.status, outcome.event.decisions)
    if verdict == UNJUDGED:
        return f"{where}: no policy was asked: {outcome.text}"
    policy = None if decision is None else decision.policy
    said = "" if decision is None else f" by {policy}: {decision.reason}"
    if call.expect is None:
        return f"{where}: denied{said}" if verdict == Verdict.DENY else None
    if verdict != call.expect:
        return f"{where}: expected {call.expect}, got {verdict}{said}"
    if call.by is not None and policy != call.by:
        return f"{where}: expected {verdict} by {call.by}, got it{said}"
    return None


NO_POLICY: Final = "(none)"
"""The name if no policy judges a call."""


@dataclass(slots=True)
class Change:
    """A change of the verdict on calls of one tool, with the record and line of the first call."""

    tool: str
    policy: str
    was: str
    now: str
    calls: int
    first: str
    reason: str


MOST_SAVED: Final = 4 * 1024 * 1024
"""The bytes of the longest result that is read."""


class Report(BaseModel):
    """The changed verdicts that a backtest found, most frequent first, and the number of calls.

    It grows while the backtest runs. As JSON, it is the result in a file.
    """

    format: Literal["toolstile.backtest"] = "toolstile.backtest"
    version: Literal[1] = 1
    at: datetime  # the end of the backtest
    calls: int = 0
    changes: list[Change] = Field(default_factory=list[Change])

    def add(self, path: Path, comparison: Comparison) -> None:
        """Count a call."""
        self.calls += 1
        call = comparison.recorded
        was, before = judged(call.status, call.decisions)
        now, after = judged(comparison.status, comparison.decisions)
        if was == now:
            return
        decision = after or before
        policy = NO_POLICY if decision is None else decision.policy or NO_POLICY
        key = call.tool, policy, was, now
        for known in self.changes:
            if (known.tool, known.policy, known.was, known.now) == key:
                known.calls += 1
                return
        reason = "" if decision is None else decision.reason or ""
        self.changes.append(Change(*key, 1, f"{path}:{comparison.recorded.n}", reason))

    @classmethod
    def load(cls, path: Path) -> Report | None:
        """Return the result in a file, None without a file; `ConfigurationError` for another."""
        try:
            content = b""
            # Because a read of a pipe or a device may never end, these count as empty.
            if path.is_file() or not path.exists():
                with path.open("rb") as file:
                    content = file.read(MOST_SAVED)
            return cls.model_validate_json(content)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ConfigurationError(
                f"{path} cannot be read as the result of a backtest ({type(error).__name__}). "
                "Remove it, and run the backtest again."
            ) from error

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all; raise `ConfigurationError` if that fails."""
        try:
            make_directory_of(path)
            with replaced(path) as file:
                file.write(f"{self.model_dump_json(indent=1)}\n".encode())
        except OSError as error:
            told = f"The result cannot be saved as {path}: {error.strerror}. Name another file."
            raise ConfigurationError(told) from error


def backtest(
    host: HostHandle,
    paths: Sequence[Path],
    report: Report | None = None,
    *,
    newest: int | None = None,
    note: Callable[[float, float], None] = unseen,
) -> Report:
    """Make recorded calls again, and return the changed decisions of the policies.

    Results come from the record, no handler runs, and the host's other calls are left alone. A
    question that was not asked then is approved, so that the calls behind it proceed as they did.

    Args:
        host: The host with the policies.
        paths: The records, the oldest first.
        report: The report to fill in; a new one by default.
        newest: The number of newest calls that are made; by default all.
        note: Called with the bytes that are done, and all of them.

    Raises:
        RecordError: A record cannot be read.
        StateError: Calls are stopped, or were stopped meanwhile.
    """
    report = report or Report(at=host.clock.now())
    done, total = 0.0, sum(map(size_of, paths))
    apart = APART.set(True)
    try:
        for recording in _newest(paths, newest):
            size = size_of(recording.path)
            replayer = Replayer(recording, approves=True, apart=True)
            for comparison in replayed(host, recording, replayer):
                # Because a stopped call reaches no policy, it would count as allowed.
                if stops := host.stops():
                    raise StateError(f"The policies cannot be tested. Stopped: {stops[0]}. {_GO}")
                report.add(recording.path, comparison)
                share = comparison.recorded.n / recording.calls[-1].n
                note(done + size * share, total)
            done += size
    finally:
        APART.reset(apart)
    report.at = host.clock.now()
    report.changes.sort(key=lambda change: -change.calls)
    return report


_GO: Final = "End the stops with `toolstile go` or in the console, then retry."


def _newest(paths: Sequence[Path], most: int | None) -> Iterator[Recording]:
    if most is None:
        yield from map(Recording.load, paths)
        return
    found = list[Recording]()
    for path in reversed(paths):
        if most > 0:
            found.append(Recording.load(path, most))
            most -= len(found[-1].calls)
    yield from reversed(found)


_STYLES: Final = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red", None: "dim"}
_TITLES: Final = ("calls", "tool", "policy", "was", "is", "first", "reason")


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Run a command; return 1 if a case does not hold, or a verdict has changed."""
    return {"test": _test, "backtest": _backtest, "explain": _explain}[args.what](host, args)


def _explain_line(host: HostHandle, args: argparse.Namespace) -> int:
    """Show the verdict of each policy over commands on the commands of a shell line."""
    policies = policies_of(host)
    if not policies:
        told = 'No policy is over commands. Add a table [[policies]] with kind = "command".'
        raise ConfigurationError(told)
    for policy in policies:
        found = policy.judge(args.line)
        worst = strictest(found)
        if args.out is not None:
            commands = [asdict(each) for each in found]
            args.out.write({"policy": policy.name, "verdict": worst, "commands": commands})
            continue
        rows = [(each.verdict, Verdict(each.verdict), each.command, each.rule) for each in found]
        _show(f"{printable(policy.name)}: {worst}", "command", rows)
    return 0


def _show(title: str, named: str, rows: Iterable[tuple[str, Verdict | None, str, str]]) -> None:
    """Show verdicts in a table, each with its style, a name and the reason."""
    screen = Screen()
    screen.line(title, "bold")
    cells: list[list[Cell]] = [
        [(told, _STYLES[says]), (printable(name), "bold"), (printable(why), "" if says else "dim")]
        for told, says, name, why in rows
    ]
    screen.table(("says", named, "why"), cells)


def _explain(host: HostHandle, args: argparse.Namespace) -> int:
    if (args.name is None) is (args.line is None):
        raise ConfigurationError("Give the NAME of a tool, or a shell line with --command.")
    if args.line is not None:
        return _explain_line(host, args)
    arguments = sys.stdin.read() if args.arguments == "-" else args.arguments
    if args.group and not args.user:
        raise ConfigurationError("--group needs --user: give --user ID, too.")
    user = args.user and Principal("toolstile policy explain", args.user, args.group or ())
    call = ToolCall(args.name, arguments)
    verdict, text, answers = explained(host, call, request=args.request or (), principal=user)
    if args.out is not None:
        policies = [
            {"policy": name, "says": says, "why": why, "shadow": in_shadow}
            for name, says, why, in_shadow in answers
        ]
        args.out.write({"tool": args.name, "verdict": verdict, "policies": policies})
        return 1 if verdict == UNJUDGED else 0
    if verdict == UNJUDGED:
        Screen().line(printable(text), "red")
        return 1
    rows = [
        (f"{says or '-'}{' (shadow)' if in_shadow else ''}", says, name, why)
        for name, says, why, in_shadow in answers
    ]
    _show(f"{printable(args.name)}: {verdict}", "policy", rows)
    return 0


def _test(host: HostHandle, args: argparse.Namespace) -> int:
    screen, cases = Screen(), read_cases(args.file)
    failed = 0
    for name, faults in tried(host, cases):
        failed += bool(faults)
        if args.out is not None:
            args.out.write({"case": name, "holds": not faults, "faults": faults})
            continue
        state, style = ("fails", "red") if faults else ("holds", "green")
        screen.line(f"{state}  {printable(name)}", style)
        for fault in faults:
            screen.line(f"       {printable(fault)}")
    if args.out is None:
        told = f"{counted(len(cases), 'case')}, {failed} failed"
        screen.line(told, "bold red" if failed else "bold green")
    return 1 if failed else 0


def _backtest(host: HostHandle, args: argparse.Namespace) -> int:
    paths = [path for place in args.records for path in records_in(place)]
    with progress("Backtest") as note:
        report = backtest(host, paths, note=note)
    changes = report.changes
    if args.save is not None:
        report.save(args.save)
    if args.out is not None:
        for change in changes:
            args.out.write(asdict(change))
        return 1 if changes else 0
    screen = Screen()
    if changes:
        rows: list[list[Cell]] = [
            [
                f"{change.calls:,}",
                (printable(change.tool), "bold"),
                *map(printable, (change.policy, change.was, change.now, change.first)),
                (printable(change.reason), "dim"),
            ]
            for change in changes
        ]
        screen.table(_TITLES, rows)
    otherwise = sum(change.calls for change in changes)
    told = f"{counted(report.calls, 'call')}: {otherwise:,} decided otherwise"
    screen.line(told, "bold red" if changes else "bold green")
    return 1 if changes else 0
