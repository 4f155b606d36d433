"""May this call go on? Policies, a person, and a place among the calls in flight."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator
from typing import Any

from toolyard.pipeline.asking import settle
from toolyard.pipeline.batch import Milestone
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.limits import Limit, TimedOut
from toolyard.pipeline.parsing import ask_parsers
from toolyard.pipeline.plan import Table
from toolyard.pipeline.refusals import Refusal
from toolyard.pipeline.steps import Run, Step
from toolyard.policies.approval import digest_of, read_answer, request_for
from toolyard.policies.rules import Rule
from toolyard_hookspecs import (
    Answer,
    DeadlineExceededError,
    PolicyDecision,
    Stage,
    Status,
    ToolCall,
)
from toolyard_hookspecs.signatures import is_async_callable

log = logging.getLogger("toolyard.policies")
ALLOW = PolicyDecision.allow()

Staged = Generator[Step, Any, Any]


def check(run: CallRun, table: Table) -> Staged:
    """Ask every rule; deny, or let a person decide, or go on.

    Raises:
        Refusal: With every reason there is.
    """
    run.branch.freeze()
    reasons = yield from _ask_rules(run)
    approved: str | None = None
    while reasons:
        run.stage = Stage.APPROVE
        digest = digest_of(_tool(run), _canonical(run))
        if digest == approved:
            break
        answer = yield from _approve(run, reasons)
        if answer.answer is Answer.EDITED:
            edited = ToolCall(run.call_made.name, answer.arguments or "{}", id=run.call_made.id)
            yield from ask_parsers(run, table, edited)
            run.copies = None
            digest = digest_of(_tool(run), _canonical(run))
        approved = digest
        run.check_limits()
        run.branch.refork()
        run.branch.freeze()
        run.stage = Stage.CHECK
        reasons = yield from _ask_rules(run)


def admit(run: CallRun) -> None:
    """Take a place for the call with every rule that counts calls.

    Raises:
        Refusal: When one of them has none; what the others took is put back.
    """
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    runtime = run.executor.runtime
    if plan.reserves:
        with runtime.admission:
            _reserve(run, plan.reserves)
            runtime.enter(run)
    else:
        runtime.enter(run)
    run.admitted = True
    run.passed(Milestone.ADMITTED)


def _reserve(run: CallRun, rules: tuple[Rule, ...]) -> None:
    session = run.executor.session
    before = session.policy_records
    context = dataclasses.replace(run.context, session=run.branch.reserving())
    for rule in rules:
        try:
            decision = rule.reserve(_tool(run), params_for(run, rule), context=context)  # type: ignore[misc]
        except Exception as error:
            session.policy_records = before
            log.exception("Policy %s failed to reserve; the call is denied.", rule.name)
            raise Refusal(Status.DENIED, _failed(rule)) from error
        if not isinstance(decision, PolicyDecision) or not decision.allowed:
            session.policy_records = before
            reason = decision.reason if isinstance(decision, PolicyDecision) else None
            _note(run, rule, PolicyDecision.deny(reason or _failed(rule)))
            raise Refusal(Status.DENIED, reason or _failed(rule))


def _ask_rules(run: CallRun) -> Staged:
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    denials: list[str] = []
    asks: list[str] = []
    tool, context = plan.tool, run.context
    shared = plan.shares_params
    for rule in plan.checks:
        try:
            params = run.params if shared else params_for(run, rule)
            decision = rule.check(tool, params, context)  # type: ignore[misc]
            if decision is None or decision is ALLOW:
                continue
            if decision.__class__ is not PolicyDecision:
                decision = yield from settle(run, decision, run.limit_without_timeout())
        except DeadlineExceededError:
            raise
        except Exception:
            run.check_limits()
            log.exception("Policy %s failed to check; the call is denied.", rule.name)
            decision = PolicyDecision.deny(_failed(rule))
        if decision is None or (decision.__class__ is PolicyDecision and _plain(decision)):
            continue
        if not isinstance(decision, PolicyDecision):
            log.error("Policy %s answered %r, not a PolicyDecision.", rule.name, decision.__class__)
            decision = PolicyDecision.deny(_failed(rule))
        _note(run, rule, decision)
        reason = decision.reason or f"Policy {rule.name} does not allow {tool.name}."
        (asks if decision.allowed else denials).append(reason)
    if denials:
        raise Refusal(Status.DENIED, "\n".join(dict.fromkeys(denials)))
    if tool.requires_confirmation:
        asks.append(f"{tool.name} requires confirmation.")
    return list(dict.fromkeys(asks))


def _approve(run: CallRun, reasons: list[str]) -> Staged:
    approver = run.executor.approver
    refused = f"{run.name} needs a person's approval ({' '.join(reasons)})"
    if approver is None:
        msg = f"{refused}, and there is nobody to ask. It cannot run here; say so, or do without."
        raise Refusal(Status.DENIED, msg)
    tool = _tool(run)
    request = request_for(
        run.call_made,
        tool,
        params=tool.params_codec.decode(run.arguments),
        arguments=_canonical(run),
        reasons=reasons,
        context=run.context,
    )
    limit = Limit(run.executor.approval_timeout, run.deadline, run.cancellation)
    try:
        given = yield Run(
            lambda: approver(request),
            is_async_callable(approver),
            limit,
            _Asked(run),
            limit.endless,
        )
        given = yield from settle(run, given, limit)
    except TimedOut:
        msg = f"{refused}, and nobody answered in time. Ask again later, then retry."
        raise Refusal(Status.DENIED, msg) from None
    except Exception as error:
        run.check_limits()
        log.exception("The approver failed; the call is denied.")
        msg = f"{refused}, and asking for it failed. It cannot run now."
        raise Refusal(Status.DENIED, msg) from error
    answer = read_answer(given)
    run.note("toolyard.approval", answer.answer.value)
    if answer.answer is Answer.DENIED:
        reason = f": {answer.reason}" if answer.reason else "."
        msg = f"A person did not approve {run.name}{reason} Do not try it again unchanged."
        raise Refusal(Status.DENIED, msg)
    if answer.answer is Answer.PENDING:
        msg = f"{run.name} waits for a person's approval. Nothing has run; ask for it later."
        run.note("toolyard.approval_token", answer.token)
        raise Refusal(Status.PENDING, msg)
    return answer


class _Asked:
    """An approver at work; giving it up abandons nothing of the call."""

    def __init__(self, run: CallRun) -> None:
        self._run = run

    def abandon(self, reason: str) -> None:
        log.info("The approval of %s was given up: %s.", self._run, reason)

    def ended_late(self) -> None:
        log.info("An approver answered for %s after it was given up.", self._run)


def params_for(run: CallRun, rule: Rule) -> Any:
    """Return the params as a rule may see them: its own copy, where they can be changed."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    if plan.shares_params:
        return run.params
    if not rule.wants_params:
        return None
    if run.copies is None:
        run.copies = {}
    if rule.name not in run.copies:
        run.copies[rule.name] = plan.tool.params_codec.decode(run.arguments)
    return run.copies[rule.name]


def _canonical(run: CallRun) -> bytes:
    canonical: bytes = _tool(run).params_codec.encode(run.params)
    return canonical


def _tool(run: CallRun) -> Any:
    assert run.plan is not None  # noqa: S101 - looked up before
    return run.plan.tool


def _plain(decision: PolicyDecision) -> bool:
    return decision.allowed and not decision.asks


def _note(run: CallRun, rule: Rule, decision: PolicyDecision) -> None:
    said = PolicyDecision(decision.allowed, decision.reason, decision.asks, rule.name)
    run.decisions = (*run.decisions, said)


def _failed(rule: Rule) -> str:
    return (
        f"The policy {rule.name} could not decide, so the call is denied. This requires "
        "human intervention."
    )
