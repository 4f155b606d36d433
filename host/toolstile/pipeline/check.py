"""May this call go on? Policies, a person, and a place among the calls in flight."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final, cast

from toolstile.drivers.job import Staged
from toolstile.pipeline.approval import (
    ASKED_BEFORE,
    approve,
    canonical,
    digest_of,
    for_model,
    redeem,
    refuse_unaskable,
)
from toolstile.pipeline.call import CHECK, ActiveCall
from toolstile.pipeline.commit import undo
from toolstile.pipeline.failures import CallRejected
from toolstile.pipeline.hook_calls import (
    SLOW,
    add_origin_note,
    off_loop,
    settle,
    settle_for,
    tell_of_blocking,
)
from toolstile.pipeline.masking import log_failure, mask
from toolstile.pipeline.parse import ask_parsers
from toolstile.pipeline.plan import DispatchTable, ToolPlan, with_rules_of
from toolstile.plugins.inspection import Implementation
from toolstile.policies.rules import DENIED_BY_DEFAULT, Rule
from toolstile.resources.reserving import ReservingResources
from toolstile.stored_sessions import fault_of_counter
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    ConfigurationError,
    ConflictError,
    DeadlineExceededError,
    PolicyDecision,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolValidationError,
)
from toolstile_hookspecs.codecs import RETRY, ValueCodec, as_json
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.services.workspace import SupportsFileChanges

log = logging.getLogger("toolstile.policies")
ALLOW = PolicyDecision.allow()
MAX_QUESTIONS: Final = 20
"""The maximum number of questions about one call whose arguments a person edits."""
UNSETTLED: Final = (
    "did not run: its arguments come out differently whenever they are read, so nothing that a "
    "person approves would be what runs."
)


def check(run: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged | None:
    """Ask every rule; return None where all allow the call at once, else what goes on."""
    run.branch.frozen = True
    if run.resumption is None:
        for place, rule in enumerate(plan.checks):
            decision = _ask_rule(run, plan, rule)
            if decision is not None and decision is not ALLOW:
                return _check_on(run, table, place, decision)
        if not plan.confirms:
            return None
        return _check_on(run, table, len(plan.checks), None)
    return _check_on(run, table, 0, None)


def _check_on(run: ActiveCall, table: DispatchTable, place: int, decision: Any) -> Staged:
    """Ask every rule; deny, or let a person decide, or go on.

    Where the person is to be shown the diff, it is only noted that one has to be asked.

    Raises:
        CallRejected: With every reason there is.
    """
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    run.branch.frozen = True
    if run.resumption is not None:
        yield from redeem(run, run.resumption)
        run.stage = CHECK
    reasons = yield from check_policies(run, place, decision)
    if run.resumption is not None and run.resumption.waits and not reasons:
        reasons = [ASKED_BEFORE]
    if reasons and (yield from _is_recalled(run, plan)):
        run.recalled, reasons = True, []
    if plan.approves_diff or _was_shown(run):
        run.asks = tuple(reasons)
        if reasons and run.resumption is None:
            run.stage = Stage.APPROVE
            refuse_unaskable(run, reasons)
        return
    approved: str | None = None
    rounds = 0
    while reasons and digest_of(run) != approved:
        rounds += 1
        refuse_endless(run, rounds)
        approved = yield from _approve(run, table, reasons)
        run.check_limits()
        # Time has passed: the checks look again, at the state and the resources as they are.
        yield from undo(run)
        run.renew()
        run.branch.frozen = True
        run.stage = CHECK
        reasons = yield from recheck_policies(run)


def _was_shown(run: ActiveCall) -> bool:
    """Tell whether the call is resumed with the answer to a question about its changes.

    Its earlier checks were answered before it ran, as the place that it took then shows.
    """
    return run.resumption is not None and run.resumption.has_place(digest_of(run))


def _is_recalled(run: ActiveCall, plan: ToolPlan) -> Staged:
    """Tell whether an earlier result will answer: what a person would decide on is done."""
    for hook in plan.executes:
        if hook.recalls is not None:
            answer = hook.recalls(plan.tool, params_copy_for(run, hook), run.context)
            if (yield from settle_for(run, hook, answer)):
                return True
    return False


def check_again(run: ActiveCall) -> Staged:
    """Ask every rule anew for a call that is run again, on the state that others have made.

    What a person has approved stays approved.

    Raises:
        CallRejected: With every reason against the call, or when a rule asks that had not asked.
    """
    asked = {each.policy for each in run.decisions if each.asks}
    before = len(run.decisions)
    run.stage = CHECK
    run.branch.frozen = True
    yield from check_policies(run)
    asks = [each for each in run.decisions[before:] if each.asks and each.policy not in asked]
    if asks:
        reasons = " ".join(for_model(run, [_reason(run, each) for each in asks]))
        why = reasons.removesuffix(".")
        msg = f"{run.name} needs a person's approval now ({why}). Retry it, to have it asked."
        raise CallRejected(Status.DENIED, msg)
    run.branch.begin()


def _approve(run: ActiveCall, table: DispatchTable, reasons: list[str]) -> Staged:
    """Return the digest of what is approved: as it was shown, or exactly as it was edited."""
    shown = canonical(run)
    answer = yield from approve(run, reasons)
    if answer.answer is Answer.EDITED:
        edited, shown = as_edited(run, answer)
        yield from parse_edited(run, table, edited)
    return digest_of(run, arguments=shown)


def refuse_endless(run: ActiveCall, rounds: int, why: str = UNSETTLED) -> None:
    """Deny a call about which a person was asked so often that it never comes to an end.

    Raises:
        CallRejected: Saying why.
    """
    if rounds > MAX_QUESTIONS:
        msg = f"{run.name} {why} This requires human intervention."
        raise CallRejected(Status.DENIED, msg)


def as_edited(run: ActiveCall, answer: ApprovalAnswer) -> tuple[ToolCall, bytes]:
    """Return the call with an approver's arguments, and these as canonical JSON.

    Raises:
        CallRejected: When they do not fit the tool.
    """
    codec = run.tool.params_codec
    try:
        arguments = codec.encode(codec.decode(as_json(answer.arguments or "{}")))
        # With what was left out filled in, as defaults may come out differently the next time.
        made = run.call_made
        given = arguments.decode()
        return ToolCall(made.name, given, id=made.id, provider_id=made.provider_id), arguments
    except ToolValidationError as error:
        raise CallRejected(
            Status.INVALID,
            f"A person changed the arguments of {run.name} to ones that do not fit it, so it did "
            f"not run. {str(error).removesuffix(RETRY)}\nRetry it to ask for approval again.",
        ) from error


def parse_edited(run: ActiveCall, table: DispatchTable, edited: ToolCall) -> Staged:
    """Let the call go on with the arguments that an approver gave it."""
    given = canonical(run)
    yield from ask_parsers(run, table, edited)
    run.params_shown = None
    run.edited = run.edited or canonical(run) != given


def rules_to_reserve(run: ActiveCall, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules to take a place with; one told of the rollback may have given it back."""
    has_place = run.resumption is not None and run.resumption.has_place(digest_of(run))
    return tuple(rule for rule in rules if rule.on_rollback) if has_place else rules


def reserve(run: ActiveCall, rules: tuple[Rule, ...]) -> Staged:
    """Take a place for the call with every rule that counts calls.

    In a stored session they count in one decision, so that a limit holds over all hosts.

    Raises:
        CallRejected: When one of them has none; what the others took is put back.
    """
    journal, counter = run.executor.journal, run.executor.resources.get(cast("Any", Counter), None)
    deciding = nullcontext() if journal is None or run.executor.dry_run else journal.moving()
    if journal is not None and (fault := fault_of_counter(counter, journal.records)):
        log.error("%s", fault)
        why = "counted elsewhere than its session is kept. This requires human intervention."
        raise CallRejected(Status.DENIED, f"{run.name} cannot be called: its limits are {why}")
    if journal is None and (counter is None or not counter.waits):
        _admit(run, rules, deciding)
    else:
        yield from off_loop(run, partial(_admit, run, rules, deciding))


def _admit(
    run: ActiveCall, rules: tuple[Rule, ...], deciding: AbstractContextManager[None]
) -> None:
    runtime = run.executor.runtime
    resources = ReservingResources(run.context.resources)
    # Within the decision, so that nobody reserves what is given back; around it, should it fail.
    with resources, runtime.admission, deciding, resources:
        _reserve(run, rules, resources)
        run.admitted = True
        runtime.calls[id(run)] = run


def _reserve(run: ActiveCall, rules: tuple[Rule, ...], resources: Any) -> None:
    keeper, session = run.executor.keeper, run.executor.session
    if keeper is None:
        _take_places(run, rules, resources)
        return
    before = session.policy_records
    try:
        with keeper.counting(session, [rule.name for rule in rules]):
            _take_places(run, rules, resources)
    except (ConfigurationError, OSError, ValueError) as error:
        session.policy_records = before
        log_failure(run, log, "What policies remember could not be kept; %s is denied.", run)
        raise CallRejected(
            Status.DENIED,
            f"{run.name} cannot be called now: what its policies remember could not be kept. "
            "This requires human intervention.",
        ) from error


def _take_places(run: ActiveCall, rules: tuple[Rule, ...], resources: Any) -> None:
    session, apart = run.executor.session, _apart(run)
    before, apart_before = session.policy_records, {**(apart or {})}
    context = _with(run.context, session=run.branch.reserving(apart), resources=resources)
    try:
        # In one order on all hosts, or two would wait for one another in a database.
        for rule in sorted(rules, key=lambda rule: rule.name):
            try:
                decision = rule.reserve(run.tool, params_copy_for(run, rule), context=context)  # type: ignore[misc]
            except Exception as error:
                log_failure(run, log, "Policy %s failed to reserve; the call is denied.", rule.name)
                raise CallRejected(Status.DENIED, _failed(rule)) from error
            if not isinstance(decision, PolicyDecision) or not decision.allowed:
                reason = decision.reason if isinstance(decision, PolicyDecision) else None
                _note(run, rule, PolicyDecision.deny(reason or _failed(rule)))
                raise CallRejected(Status.DENIED, reason or _failed(rule))  # noqa: TRY301
    except BaseException:
        if apart is None:
            session.policy_records = before
        else:
            apart.clear()
            apart.update(apart_before)
        raise


def _apart(run: ActiveCall) -> dict[str, Any] | None:
    """Return the reserved records of a dry run, None for a call that counts on its session."""
    rehearsal = run.executor.rehearsal
    return rehearsal.reserved if run.executor.dry_run and rehearsal is not None else None


def tell_failure(run: ActiveCall, rules: tuple[Rule, ...]) -> None:
    """Show the rules what the model reads of an admitted call that failed."""
    executor, session = run.executor, run.executor.session
    keeper = executor.keeper
    names = [rule.name for rule in rules]
    try:
        with (
            executor.runtime.admission,
            nullcontext() if keeper is None else keeper.counting(session, names),
        ):
            context = _with(run.context, session=session.fork().reserving(_apart(run)))
            for rule in rules:
                try:
                    params = params_copy_for(run, rule)
                    rule.on_failure(run.tool, params, run.result, context=context)  # type: ignore[misc]
                except Exception:  # noqa: BLE001 - logged without secrets
                    log_failure(run, log, "Policy %s failed to see a failure.", rule.name)
    except (ConfigurationError, OSError, ValueError):
        log_failure(run, log, "What policies remember of the failure of %s is lost.", run)


def _with(context: ToolContext, **changed: Any) -> ToolContext:
    # What `dataclasses.replace` does, in a tenth of the time: this is on every call's path.
    other = object.__new__(ToolContext)
    other.__dict__.update(context.__dict__, **changed)
    return other


def recheck_policies(run: ActiveCall) -> Staged:
    """Ask every rule, also those added while a person was asked; see `check_policies`."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    run.plan = with_rules_of(plan, [run.executor.plan_of(plan.tool)])
    return (yield from check_policies(run))


def check_policies(run: ActiveCall, place: int = 0, decision: Any = None) -> Staged:
    """Ask every rule from a place on; return why a person has to be asked.

    The first of them may have been asked: then its decision is given.

    Raises:
        CallRejected: With every reason against the call.
    """
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    denials, asks, is_allowed = list[str](), list[str](), False
    for rule in plan.checks[place:]:
        if decision is None:
            decision = _ask_rule(run, plan, rule)
        answer, decision = decision, None
        if answer is not None and answer.__class__ is not PolicyDecision:
            try:
                answer = yield from settle(run, answer, run.limit_without_timeout())
            except DeadlineExceededError:
                raise
            except Exception:  # noqa: BLE001 - logged without secrets
                answer = _deny_for_failure(run, rule)
        if answer is None or (answer.__class__ is PolicyDecision and _plain(answer)):
            is_allowed |= answer is not None and answer.reason is not None
            continue
        if rule is DENIED_BY_DEFAULT and (is_allowed or asks):
            continue
        _take_objection(run, rule, answer, denials, asks)
    if denials:
        raise CallRejected(Status.DENIED, "\n".join(dict.fromkeys(denials)))
    if plan.confirms:
        asks.append(f"{run.name} requires confirmation.")
    return list(dict.fromkeys(asks)) if asks else asks


def _take_objection(
    run: ActiveCall, rule: Rule, answer: Any, denials: list[str], asks: list[str]
) -> None:
    if not isinstance(answer, PolicyDecision):
        found = type(answer).__qualname__
        log.error("Policy %s answered %s, not a PolicyDecision.", rule.name, found)
        answer = PolicyDecision.deny(_failed(rule))
    decision = _note(run, rule, answer)
    (asks if answer.allowed else denials).append(answer.reason or _reason(run, decision))


def _reason(run: ActiveCall, decision: PolicyDecision) -> str:
    does = "asks" if decision.allowed else f"does not allow {run.name}"
    return decision.reason or f"Policy {decision.policy} {does}."


def check_changes(run: ActiveCall, plan: ToolPlan) -> Staged:
    """Ask the rules about the files that the call has changed; return whether any of them asks.

    Raises:
        CallRejected: With every reason against the changes.
    """
    # Of an earlier attempt, which changed other files.
    former = [each for each in run.decisions if each.paths]
    run.decisions = tuple(each for each in run.decisions if each not in former)
    denials, asks = list[str](), list[str]()
    run.stage = Stage.VALIDATE
    run.branch.frozen = True
    for part in run.scope.participants():
        # Faster than to ask whether it is an instance of the protocol.
        if hasattr(branch := getattr(part, "branch", None), "file_changes"):
            yield from _check_part(run, plan, cast("SupportsFileChanges", branch), denials, asks)
    run.branch.frozen = False
    if denials:
        raise CallRejected(Status.DENIED, "\n".join(dict.fromkeys(denials)))
    stale = {mask(run, each.reason or "") for each in former}
    before = [each for each in run.asks if mask(run, each) not in stale]
    run.asks = tuple(dict.fromkeys([*asks, *before]))
    return bool(asks)


def _check_part(
    run: ActiveCall,
    plan: ToolPlan,
    branch: SupportsFileChanges,
    denials: list[str],
    asks: list[str],
) -> Staged:
    if not branch.changed:
        return
    changes = yield from off_loop(run, branch.file_changes)
    own = (Rule(each.name, check_changes=each.check_changes) for each in branch.policies)
    for rule in (*own, *plan.change_checks) if changes else ():
        question: Any = rule.check_changes
        ask = partial(question, plan.tool, changes, context=run.context)
        try:
            answer = yield from settle(run, (yield from off_loop(run, ask)))
        except (ConflictError, DeadlineExceededError):
            raise
        except Exception:  # noqa: BLE001 - logged without secrets
            answer = _deny_for_failure(run, rule)
        if answer is not None and not (isinstance(answer, PolicyDecision) and _plain(answer)):
            _take_objection(run, rule, answer, denials, asks)
            if run.decisions[-1].paths:
                branch.show_first(run.decisions[-1].paths)


def _ask_rule(run: ActiveCall, plan: ToolPlan, rule: Rule) -> Any:
    """Return what a rule decides, None or ALLOW where it allows the call, or an awaitable."""
    # A rule of the plan's checks has one.
    question: Any = rule.check
    started = perf_counter() if run.on_loop else 0.0
    try:
        params = run.params if plan.shares_params else params_copy_for(run, rule)
        return question(plan.tool, params, context=run.context)
    except DeadlineExceededError:
        raise
    except Exception:  # noqa: BLE001 - logged without secrets
        return _deny_for_failure(run, rule)
    finally:
        if started and perf_counter() - started > SLOW:
            tell_of_blocking(rule, started)


def _deny_for_failure(run: ActiveCall, rule: Rule) -> PolicyDecision:
    run.check_limits()
    log_failure(run, log, "Policy %s failed to check; the call is denied.", rule.name)
    return PolicyDecision.deny(_failed(rule))


def params_copy_for(run: ActiveCall, viewer: Implementation | Rule) -> Any:
    """Return the params as policies and plugins see them: one copy for all, where they can change.

    A viewer that has changed the copy keeps it, and the next one gets another.
    """
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    if plan.shares_params:
        return run.params
    if not viewer.wants_params:
        return None
    codec = plan.tool.params_codec
    if run.params_shown is None or not _is_unchanged(run, codec):
        run.params_shown = codec.copy(run.arguments)
    return run.params_shown


def _is_unchanged(run: ActiveCall, codec: ValueCodec) -> bool:
    try:
        return codec.encode(run.params_shown) == run.arguments
    except (ValueError, TypeError, AttributeError, RecursionError):
        # What a viewer has put there need not fit.
        return False


def _plain(decision: PolicyDecision) -> bool:
    return decision.allowed and not decision.asks


def _note(run: ActiveCall, rule: Rule, decision: PolicyDecision) -> PolicyDecision:
    reason = None if decision.reason is None else mask(run, decision.reason)
    said = replace(decision, reason=reason, policy=rule.name)
    run.decisions = (*run.decisions, said)
    return said


def _failed(rule: Rule) -> str:
    return (
        f"The policy {rule.name} could not decide, so the call is denied. This requires "
        "human intervention."
    )


# --- On result


def tell_result(run: ActiveCall, plan: ToolPlan) -> Staged | None:
    """Let the policies hear of the success; return what is yet to be waited for, if anything."""
    for place, rule in enumerate(plan.on_results):
        if (answer := _tell(run, plan, rule)) is not None:
            return _tell_rest(run, plan, place, answer)
    return None


def _tell(run: ActiveCall, plan: ToolPlan, rule: Rule) -> Any:
    params = run.params if plan.shares_params else params_copy_for(run, rule)
    tell: Any = rule.on_result
    started = perf_counter() if run.on_loop else 0.0
    try:
        return tell(plan.tool, params, run.result, context=run.context)
    except Exception as error:
        add_origin_note(error, rule.title, "on_result")
        raise
    finally:
        if started and perf_counter() - started > SLOW:
            tell_of_blocking(rule, started)


def _tell_rest(run: ActiveCall, plan: ToolPlan, place: int, answer: Any) -> Staged:
    for rule in plan.on_results[place:]:
        if answer is None:
            answer = _tell(run, plan, rule)
        try:
            yield from settle(run, answer)
        except Exception as error:
            add_origin_note(error, rule.title, "on_result")
            raise
        answer = None
