"""The checks of a call: policies, a person, and a place among the calls in flight."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final, cast

from toolstile.drivers.job import Staged, WaitFor
from toolstile.pipeline.approval import (
    ASKED_BEFORE,
    approve,
    canonical,
    digest_of,
    for_model,
    redeem,
    refuse_unaskable,
)
from toolstile.pipeline.batch import Milestone
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
from toolstile.state.policy_records import without
from toolstile.stored_sessions import fault_of_counter
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    ConfigurationError,
    ConflictError,
    DeadlineExceededError,
    PolicyDecision,
    PolicyState,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolValidationError,
)
from toolstile_hookspecs.codecs import RETRY, ValueCodec, as_json
from toolstile_hookspecs.policies import RESERVED
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


def check(call: ActiveCall, table: DispatchTable, plan: ToolPlan) -> Staged | None:
    """Ask every rule. Return None if all allow the call, else the steps that continue the check."""
    call.branch.frozen = True
    if call.resumption is None:
        for place, rule in enumerate(plan.checks):
            decision = _ask_rule(call, plan, rule)
            if decision is not None and decision is not ALLOW:
                return _check_on(call, table, place, decision)
        if not plan.confirms:
            return None
        return _check_on(call, table, len(plan.checks), None)
    return _check_on(call, table, 0, None)


def _check_on(call: ActiveCall, table: DispatchTable, place: int, decision: Any) -> Staged:
    """Ask every rule; deny, let a person decide, or continue.

    If the person will be shown the diff, only note that a person must be asked.

    Raises:
        CallRejected: With every reason there is.
    """
    plan = call.plan
    assert plan is not None  # noqa: S101 - looked up before
    call.branch.frozen = True
    if call.resumption is not None:
        yield from redeem(call, call.resumption)
        call.stage = CHECK
    reasons = yield from check_policies(call, place, decision)
    if call.resumption is not None and not reasons:
        # Because the person has answered about these params, and this diff, alone.
        reasons = [ASKED_BEFORE]
    if reasons and (yield from _is_recalled(call, plan)):
        call.recalled, reasons = True, []
    # Resumed with the answer to a question about its changes: its earlier checks were answered
    # before it ran, as the place that it took then shows.
    resumed = call.resumption
    if plan.approves_diff or (resumed is not None and resumed.has_place(digest_of(call))):
        call.asks = tuple(reasons)
        if reasons and call.resumption is None:
            call.stage = Stage.APPROVE
            refuse_unaskable(call, reasons)
        return
    approved: str | None = None
    rounds = 0
    while reasons and digest_of(call) != approved:
        rounds += 1
        refuse_endless(call, rounds)
        shown = canonical(call)
        call.executor.engine.gate.check(call)  # the call may have waited for others meanwhile
        answer = yield from approve(call, reasons)
        if answer.answer is Answer.EDITED:
            edited, shown = as_edited(call, answer)
            yield from parse_edited(call, table, edited)
        approved = digest_of(call, arguments=shown)
        call.check_limits()
        # Time has passed: the checks look again, at the state and the resources as they are.
        yield from undo(call)
        call.renew()
        call.branch.frozen = True
        call.stage = CHECK
        reasons = yield from recheck_policies(call)


def _is_recalled(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Tell whether an earlier result answers: the effect that a person would decide on is done."""
    for hook in plan.executes:
        if hook.recalls is not None:
            answer = hook.recalls(plan.tool, params_copy_for(call, hook), call.context)
            if (yield from settle_for(call, hook, answer)):
                return True
    return False


def check_again(call: ActiveCall, *, may_ask: bool = False) -> Staged:
    """Ask every rule again for a call that is rerun, on the state that other calls have made.

    A person's approval stays valid, unless the person is asked again with the reasons of now.

    Raises:
        CallRejected: With every reason against the call, or when a rule asks that had not asked.
    """
    asked = {each.policy for each in call.decisions if each.asks}
    before = len(call.decisions)
    call.stage = CHECK
    call.branch.frozen = True
    reasons = yield from check_policies(call)
    asks = [each for each in call.decisions[before:] if each.asks and each.policy not in asked]
    if may_ask:
        call.asks = tuple(reasons)
    elif asks:
        reasons = " ".join(for_model(call, [_reason(call, each) for each in asks]))
        why = reasons.removesuffix(".")
        msg = f"{call.name} needs a person's approval now ({why}). Retry it, to have it asked."
        raise CallRejected(Status.DENIED, msg)
    call.branch.begin()


def refuse_endless(call: ActiveCall, rounds: int, why: str = UNSETTLED) -> None:
    """Deny a call about which a person was asked so often that it never comes to an end.

    Raises:
        CallRejected: Saying why.
    """
    if rounds > MAX_QUESTIONS:
        raise CallRejected(Status.DENIED, f"{call.name} {why} This requires human intervention.")


def as_edited(call: ActiveCall, answer: ApprovalAnswer) -> tuple[ToolCall, bytes]:
    """Return the call with an approver's arguments, and these as canonical JSON.

    Raises:
        CallRejected: When they do not fit the tool.
    """
    codec = call.tool.params_codec
    try:
        arguments = codec.encode(codec.decode(as_json(answer.arguments or "{}")))
        # Defaults are filled in, because they may come out differently the next time.
        made = call.call_made
        given = arguments.decode()
        return ToolCall(made.name, given, id=made.id, provider_id=made.provider_id), arguments
    except ToolValidationError as error:
        raise CallRejected(
            Status.INVALID,
            f"A person changed the arguments of {call.name} to ones that do not fit it, so it did "
            f"not run. {str(error).removesuffix(RETRY)}\nRetry it to ask for approval again.",
        ) from error


def parse_edited(call: ActiveCall, table: DispatchTable, edited: ToolCall) -> Staged:
    """Continue the call with the arguments that an approver gave it."""
    given = canonical(call)
    yield from ask_parsers(call, table, edited)
    call.params_shown = None
    call.edited = call.edited or canonical(call) != given


def rules_to_reserve(call: ActiveCall, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules to take a place with; a rule may have freed its place at a rollback."""
    has_place = call.resumption is not None and call.resumption.has_place(digest_of(call))
    return tuple(rule for rule in rules if rule.on_rollback) if has_place else rules


def reserve(call: ActiveCall, rules: tuple[Rule, ...]) -> Staged:
    """Take a place for the call with every rule that counts calls.

    In a stored session they count in one decision, so that a limit holds over all hosts.

    Raises:
        CallRejected: When a rule has no place; the places that other rules took are given back.
    """
    if call.batch is not None and call.batch.card is not None:
        # The questions were answered together; the places are taken in the order of the calls.
        call.batch.card.passed(Milestone.ADMITTED, call.index)
        gate = call.batch.before(Milestone.ADMITTED, call.index)
        yield WaitFor(gate, call.limit_without_timeout())
    journal, counter = (
        call.executor.counting,
        call.executor.resources.get(cast("Any", Counter), None),
    )
    deciding = nullcontext() if journal is None or call.executor.dry_run else journal.moving()
    if journal is not None and (fault := fault_of_counter(counter, journal.records)):
        log.error("%s", fault)
        why = "counted elsewhere than its session is kept. This requires human intervention."
        raise CallRejected(Status.DENIED, f"{call.name} cannot be called: its limits are {why}")
    if journal is None and (counter is None or not counter.waits):
        _admit(call, rules, deciding)
    else:
        yield from off_loop(call, partial(_admit, call, rules, deciding))


def _admit(
    call: ActiveCall, rules: tuple[Rule, ...], deciding: AbstractContextManager[None]
) -> None:
    runtime = call.executor.runtime
    resources = ReservingResources(call.context.resources)
    # Entered within the decision, so that no other call reserves a place that is given back, and
    # around the decision, in case it fails.
    with resources, runtime.admission, deciding, resources:
        _reserve(call, rules, resources)
        call.admitted = True
        runtime.calls[id(call)] = call


def _reserve(call: ActiveCall, rules: tuple[Rule, ...], resources: Any) -> None:
    keeper, session = call.executor.keeper, call.executor.home
    if keeper is None:
        _take_places(call, rules, resources)
        return
    before = session.policy_records
    try:
        with keeper.counting(session, [rule.name for rule in rules]):
            _take_places(call, rules, resources)
    except (ConfigurationError, OSError, ValueError) as error:
        session.policy_records = before
        log_failure(call, log, "What policies remember could not be kept; %s is denied.", call)
        raise CallRejected(
            Status.DENIED,
            f"{call.name} cannot be called now: what its policies remember could not be kept. "
            "This requires human intervention.",
        ) from error


def _take_places(call: ActiveCall, rules: tuple[Rule, ...], resources: Any) -> None:
    session, apart = call.executor.home, _apart(call)
    view = call.branch.reserving(apart)
    if call.places:
        _give_back(call, view)
    before, apart_before = session.policy_records, {**(apart or {})}
    context = _with(call.context, session=view, resources=resources)
    try:
        # In one order on all hosts, or two would wait for one another in a database.
        for rule in sorted(rules, key=lambda rule: rule.name):
            try:
                decision = rule.reserve(call.tool, params_copy_for(call, rule), context=context)  # type: ignore[misc]
            except Exception as error:
                log_failure(
                    call, log, "Policy %s failed to reserve; the call is denied.", rule.name
                )
                raise CallRejected(Status.DENIED, _failed(rule)) from error
            if not isinstance(decision, PolicyDecision) or not decision.allowed:
                reason = decision.reason if isinstance(decision, PolicyDecision) else None
                _note(call, rule, PolicyDecision.deny(reason or _failed(rule)))
                raise CallRejected(Status.DENIED, reason or _failed(rule))  # noqa: TRY301
    except BaseException:
        if apart is None:
            session.policy_records = before
        else:
            apart.clear()
            apart.update(apart_before)
        raise
    old, new = (before, session.policy_records) if apart is None else (apart_before, apart)
    names = [f"{rule.name}{RESERVED}" for rule in rules]
    call.places = {name: (old.get(name), new.get(name)) for name in names}, resources


def reserve_again(call: ActiveCall) -> Staged:
    """Exchange the places of a call for places with the arguments that a person gave it.

    A resumed call keeps its places with rules that do not look at the arguments.
    """
    assert call.plan is not None  # noqa: S101 - looked up before
    had = call.places and call.places[0]
    left = (each for each in call.plan.reserves if each.wants_params or each.name + RESERVED in had)
    if rules := tuple(left):
        call.stage = Stage.RESERVE
        yield from reserve(call, rules)


def _give_back(call: ActiveCall, view: Any) -> None:
    (changed, taken), call.places = call.places, ()
    taken.give_back()
    update: dict[str, PolicyState | None] = {}
    for name, (old, new) in changed.items():
        if new is not None and (now := view.read_record(name)) is not None:
            update[name] = without(now, old or PolicyState(name), new)
    view.write_records(update)


def _apart(call: ActiveCall) -> dict[str, Any] | None:
    """Return the reserved records of a dry run, None for a call that counts on its session."""
    within = call.executor.within
    return within.reserved if call.executor.dry_run and within is not None else None


def tell_failure(call: ActiveCall, rules: tuple[Rule, ...]) -> None:
    """Show the rules the model's text of an admitted call that failed."""
    executor, session = call.executor, call.executor.home
    keeper = executor.keeper
    names = [rule.name for rule in rules]
    try:
        with (
            executor.runtime.admission,
            nullcontext() if keeper is None else keeper.counting(session, names),
        ):
            context = _with(call.context, session=session.fork().reserving(_apart(call)))
            for rule in rules:
                try:
                    params = params_copy_for(call, rule)
                    rule.on_failure(call.tool, params, call.result, context=context)  # type: ignore[misc]
                except Exception:  # noqa: BLE001 - logged without secrets
                    log_failure(call, log, "Policy %s failed to see a failure.", rule.name)
    except (ConfigurationError, OSError, ValueError):
        log_failure(call, log, "What policies remember of the failure of %s is lost.", call)


def _with(context: ToolContext, **changed: Any) -> ToolContext:
    # As `dataclasses.replace` does, in a tenth of the time, because every call passes here.
    other = object.__new__(ToolContext)
    other.__dict__.update(context.__dict__, **changed)
    return other


def recheck_policies(call: ActiveCall) -> Staged:
    """Ask every rule, also those added while a person was asked; see `check_policies`."""
    plan = call.plan
    assert plan is not None  # noqa: S101 - looked up before
    call.plan = with_rules_of(plan, [call.executor.plan_of(plan.tool)])
    return (yield from check_policies(call))


def check_policies(call: ActiveCall, place: int = 0, decision: Any = None) -> Staged:
    """Ask every rule from a place on; return the reasons to ask a person.

    The first of them may have been asked: then its decision is given.

    Raises:
        CallRejected: With every reason against the call.
    """
    plan = call.plan
    assert plan is not None  # noqa: S101 - looked up before
    denials, asks, is_allowed = list[str](), list[str](), False
    for rule in plan.checks[place:]:
        if decision is None:
            decision = _ask_rule(call, plan, rule)
        answer, decision = decision, None
        if answer is not None and answer.__class__ is not PolicyDecision:
            try:
                answer = yield from settle(call, answer, call.limit_without_timeout())
            except DeadlineExceededError:
                raise
            except Exception:  # noqa: BLE001 - logged without secrets
                answer = _deny_for_failure(call, rule)
        if answer is None or (answer.__class__ is PolicyDecision and _plain(answer)):
            is_allowed |= answer is not None and answer.reason is not None
            continue
        if rule is DENIED_BY_DEFAULT and (is_allowed or asks):
            continue
        _take_objection(call, rule, answer, denials, asks)
    if denials:
        raise CallRejected(Status.DENIED, "\n".join(dict.fromkeys(denials)))
    if plan.confirms:
        asks.append(f"{call.name} requires confirmation.")
    return list(dict.fromkeys(asks)) if asks else asks


def _take_objection(
    call: ActiveCall, rule: Rule, answer: Any, denials: list[str], asks: list[str]
) -> None:
    if not isinstance(answer, PolicyDecision):
        found = type(answer).__qualname__
        log.error("Policy %s answered %s, not a PolicyDecision.", rule.name, found)
        answer = PolicyDecision.deny(_failed(rule))
    decision = _note(call, rule, answer)
    (asks if answer.allowed else denials).append(answer.reason or _reason(call, decision))


def _reason(call: ActiveCall, decision: PolicyDecision) -> str:
    does = "asks" if decision.allowed else f"does not allow {call.name}"
    return decision.reason or f"Policy {decision.policy} {does}."


def check_changes(call: ActiveCall, plan: ToolPlan) -> Staged:
    """Ask the rules about the files that the call has changed; return whether any of them asks.

    Raises:
        CallRejected: With every reason against the changes.
    """
    # Of an earlier attempt, which changed other files.
    former = [each for each in call.decisions if each.paths]
    call.decisions = tuple(each for each in call.decisions if each not in former)
    denials, asks = list[str](), list[str]()
    call.stage = Stage.VALIDATE
    call.branch.frozen = True
    for part in call.scope.participants():
        # Faster than to ask whether it is an instance of the protocol.
        if hasattr(branch := getattr(part, "branch", None), "file_changes"):
            yield from _check_part(call, plan, cast("SupportsFileChanges", branch), denials, asks)
    call.branch.frozen = False
    if denials:
        raise CallRejected(Status.DENIED, "\n".join(dict.fromkeys(denials)))
    stale = {mask(call, each.reason or "") for each in former}
    before = [each for each in call.asks if mask(call, each) not in stale]
    call.asks = tuple(dict.fromkeys([*asks, *before]))
    return bool(asks)


def _check_part(
    call: ActiveCall,
    plan: ToolPlan,
    branch: SupportsFileChanges,
    denials: list[str],
    asks: list[str],
) -> Staged:
    if not branch.changed:
        return
    changes = yield from off_loop(call, branch.file_changes)
    own = (Rule(each.name, check_changes=each.check_changes) for each in branch.policies)
    for rule in (*own, *plan.change_checks) if changes else ():
        question: Any = rule.check_changes
        ask = partial(question, plan.tool, changes, context=call.context)
        try:
            answer = yield from settle(call, (yield from off_loop(call, ask)))
        except (ConflictError, DeadlineExceededError):
            raise
        except Exception:  # noqa: BLE001 - logged without secrets
            answer = _deny_for_failure(call, rule)
        if answer is not None and not (isinstance(answer, PolicyDecision) and _plain(answer)):
            _take_objection(call, rule, answer, denials, asks)
            if call.decisions[-1].paths:
                branch.show_first(call.decisions[-1].paths)


def _ask_rule(call: ActiveCall, plan: ToolPlan, rule: Rule) -> Any:
    """Return a rule's decision, None or ALLOW if it allows the call, or an awaitable."""
    # A rule of the plan's checks has one.
    question: Any = rule.check
    started = perf_counter() if call.on_loop else 0.0
    try:
        params = call.params if plan.shares_params else params_copy_for(call, rule)
        return question(plan.tool, params, context=call.context)
    except DeadlineExceededError:
        raise
    except Exception:  # noqa: BLE001 - logged without secrets
        return _deny_for_failure(call, rule)
    finally:
        if started and perf_counter() - started > SLOW:
            tell_of_blocking(rule, started)


def _deny_for_failure(call: ActiveCall, rule: Rule) -> PolicyDecision:
    call.check_limits()
    log_failure(call, log, "Policy %s failed to check; the call is denied.", rule.name)
    return PolicyDecision.deny(_failed(rule))


def params_copy_for(call: ActiveCall, viewer: Implementation | Rule) -> Any:
    """Return the params as policies and plugins see them: one copy for all, where they can change.

    A viewer that has changed the copy keeps it, and the next one gets another.
    """
    plan = call.plan
    assert plan is not None  # noqa: S101 - looked up before
    if plan.shares_params:
        return call.params
    if not viewer.wants_params:
        return None
    codec = plan.tool.params_codec
    if call.params_shown is None or not _is_unchanged(call, codec):
        call.params_shown = codec.copy(call.arguments)
    return call.params_shown


def _is_unchanged(call: ActiveCall, codec: ValueCodec) -> bool:
    try:
        return codec.encode(call.params_shown) == call.arguments
    except (ValueError, TypeError, AttributeError, RecursionError):
        # A value that a viewer has put there need not fit.
        return False


def _plain(decision: PolicyDecision) -> bool:
    return decision.allowed and not decision.asks


def _note(call: ActiveCall, rule: Rule, decision: PolicyDecision) -> PolicyDecision:
    reason = None if decision.reason is None else mask(call, decision.reason)
    said = replace(decision, reason=reason, policy=rule.name)
    call.decisions = (*call.decisions, said)
    return said


def _failed(rule: Rule) -> str:
    return (
        f"The policy {rule.name} could not decide, so the call is denied. This requires "
        "human intervention."
    )


# --- On result


def tell_result(call: ActiveCall, plan: ToolPlan) -> Staged | None:
    """Notify the policies of the success; return the steps that still wait, if any."""
    for place, rule in enumerate(plan.on_results):
        if (answer := _tell(call, plan, rule)) is not None:
            return _tell_rest(call, plan, place, answer)
    return None


def _tell(call: ActiveCall, plan: ToolPlan, rule: Rule) -> Any:
    params = call.params if plan.shares_params else params_copy_for(call, rule)
    tell: Any = rule.on_result
    started = perf_counter() if call.on_loop else 0.0
    try:
        return tell(plan.tool, params, call.result, context=call.context)
    except Exception as error:
        add_origin_note(error, rule.title, "on_result")
        raise
    finally:
        if started and perf_counter() - started > SLOW:
            tell_of_blocking(rule, started)


def _tell_rest(call: ActiveCall, plan: ToolPlan, place: int, answer: Any) -> Staged:
    for rule in plan.on_results[place:]:
        if answer is None:
            answer = _tell(call, plan, rule)
        try:
            yield from settle(call, answer)
        except Exception as error:
            add_origin_note(error, rule.title, "on_result")
            raise
        answer = None
