"""The loop: ask the model, carry out its calls, and return the results to it, until it ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from toolstile_hookspecs import (
    ConfigurationError,
    DeadlineExceededError,
    Outcome,
    PromptEvaluationError,
    StateError,
    Status,
    ToolInvoked,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, StopReason, Turn
from toolstile_plugins.agent.budget import BudgetExceeded
from toolstile_plugins.agent.conversation import answer_of
from toolstile_plugins.agent.effects import Carry, Consult, Loop
from toolstile_plugins.agent.output import OutputError
from toolstile_plugins.agent.result import Phase, RunFailed, RunResult, was_carried_out
from toolstile_plugins.agent.run import Overtaken, Run
from toolstile_plugins.dialects.parse import opened

_CUT_OFF = (
    "The reply was cut off before this call was whole, so nothing has run. Make it again, and be "
    "brief."
)
_GO_ON = "Your task is not complete yet: finish it, then answer again."
_INTERRUPTED = (
    "The run was interrupted before this call had ended, and its changes are rolled back. Make "
    "the call again only if it is still wanted."
)
_GONE_ON = (
    "This run of {run} cannot be resumed: the session {session} does not have its calls, or has "
    "continued with another request. Resume it in the session in which it waits."
)
_PAUSE = Consult(partial(time.sleep, 0.5), 5.0)
"""The pause before a look at the work of another process."""
_EMPTY = "Your reply was empty. Give your answer, or call a tool."

_ENDS = {
    StopReason.MAX_TOKENS: "the model's reply was cut off at its longest; raise max_tokens",
    StopReason.REFUSED: "the model, or a filter of its provider, refused",
}


def converse(run: Run) -> Loop[RunResult[Any]]:
    """Continue the conversation of a session until the model has ended; return the result.

    Calls that have no result yet come first: calls that waited for a person and now have an
    answer, and calls of a run whose process died. The ledger prevents a second execution.
    """
    try:
        return (yield from _converse(run))
    except Overtaken:
        yield _PAUSE
        run.conversation.answer([])
        left = run.conversation.open_calls()
        run.look(left)
        if any(call.id not in run.waits for call in left):
            raise  # the other process carries them out
        return (yield from _converse(run))


def _converse(run: Run) -> Loop[RunResult[Any]]:
    if (ended := (yield from _start(run))) is not None:
        return ended
    while True:
        turn = yield from _reply(run)
        if (cause := _ENDS.get(turn.stop_reason)) is not None:
            # Because a conversation has a result for each call, calls of a cut reply get one, too.
            made = turn.tool_calls
            cut = [CallAnswer(call.id, call.name, _CUT_OFF, is_error=True) for call in made]
            run.conversation.answer(cut)
            msg = f"{run.name} ended without an answer: {cause}."
            raise RunFailed(msg, turn.stop_reason, Phase.RESPONSE)
        if turn.tool_calls:
            yield from _carry(run, turn.tool_calls)
            if run.conversation.open_calls():
                return (yield from run.pending())
        elif turn.stop_reason is StopReason.INCOMPLETE:
            continue  # the provider paused, and continues with the next request
        elif (finished := (yield from _accept(run, turn))) is not None:
            return finished


def _start(run: Run) -> Loop[RunResult[Any] | None]:
    """Finish the open calls and add the user's message; return the result if the run ends here."""
    while True:
        left, answers = run.conversation.open_calls(), run.answers
        run.look(left)
        if answers and not left and not run.conversation.is_at(answers):
            raise StateError(_GONE_ON.format(run=run.name, session=run.tools.session.id))
        ready = [call for call in left if call.id not in answers or answers[call.id] is not None]
        if ready:
            yield from _carry(run, ready)
        if run.conversation.open_calls():
            run.say()
            return (yield from run.pending())
        run.note = ""  # the questions, if there were any, have their answers
        is_added, reply = run.say(), run.conversation.last_reply()
        if run.conversation.open_calls():
            continue  # another process was first, and the model has replied to it
        if not is_added and reply is not None:  # the request was answered before
            run.text = reply.text
            return (yield from _accept(run, Turn(reply)))
        return None


def _accept(run: Run, turn: Turn) -> Loop[RunResult[Any] | None]:
    """Return the result if the model's answer is accepted, else None after a message to it."""
    run.check(Phase.RESPONSE)
    try:
        if not turn.text.strip():
            msg = f"{run.name}: the model's answer is empty."
            raise OutputError(msg, _EMPTY, turn.text)  # noqa: TRY301 - corrected as below
        output = None if run.output is None else run.output.read(turn.text)
    except OutputError as error:
        run.corrections += 1
        if run.corrections > run.config.output_retries:
            raise
        run.conversation.add(Message.user(error.for_model))
        return None
    verdict = yield from run.guidance.completion(output, turn.text, turn.stop_reason)
    run.check(Phase.RESPONSE)
    if verdict.complete:
        return run.result(StopReason.END, output)
    if run.guidance.refusals >= run.config.max_refusals:
        msg = f"{run.name} ended before its task was complete: {verdict.feedback}"
        raise RunFailed(msg, StopReason.INCOMPLETE, Phase.RESPONSE)
    run.conversation.add(Message.user(f"{verdict.feedback} {_GO_ON}"))
    return None


def _reply(run: Run) -> Loop[Turn]:
    try:
        turn: Turn = yield run.ask()
    except DeadlineExceededError as error:
        raise RunFailed(str(error), StopReason.DEADLINE, Phase.RESPONSE) from error
    except (RunFailed, ConfigurationError):
        raise
    except Exception as error:
        # The deadline is the timeout of the request, and ends its retries.
        run.check(Phase.RESPONSE, error)
        # A fault of the provider, or an error that its adapter does not classify.
        raise RunFailed(
            f"{run.name} got no reply from {run.adapter.name}: {error}", phase=Phase.RESPONSE
        ) from error
    turn = run.replied(turn)
    run.check(Phase.RESPONSE)
    return turn


def _carry(run: Run, calls: Sequence[CallMade]) -> Loop[None]:
    """Carry out calls as one batch; calls that wait for a person stay open."""
    run.check(Phase.TOOL)
    run.beat()
    try:
        outcomes = yield from _outcomes(run, calls)
    except Exception:
        raise
    except BaseException:  # Ctrl-C, or the end of the task: the next run does not repeat them
        newest = {event.call_id: event for event in run.tools.session[ToolInvoked].all()}
        run.conversation.answer(
            [
                answer_of(call, Outcome(newest[call.id]))
                if call.id in newest
                else CallAnswer(call.id, call.name, _INTERRUPTED, is_error=True)
                for call in calls
            ]
        )
        raise
    run.beat()
    run.count_expansions(outcomes)
    answers: list[CallAnswer] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, Outcome) and outcome.status is Status.PENDING:
            run.wait_for(outcome)
        elif isinstance(outcome, VisibilityExpansionRequired):
            answers.append(CallAnswer(call.id, call.name, opened(run.calls, outcome)))
        else:
            answers.append(answer_of(call, outcome))
    try:
        for said in (yield from run.guidance.feedback(outcomes)):
            answers = [
                replace(each, text=f"{each.text}\n\n{said.render()}")
                if each.call_id == said.call_id
                else each
                for each in answers
            ]
    finally:  # an interruption does not lose the results of calls that have run
        run.settle(answers)
    _raise_first(outcomes)


def _outcomes(run: Run, calls: Sequence[CallMade]) -> Loop[list[Outcome | BaseException]]:
    """Return the outcomes in call order: answered calls one by one, all others as one batch.

    The calls of a transaction are resumed as one batch, and only if all have their answers.
    """
    tools, outcomes = run.calls, dict[str, Outcome | BaseException]()
    given = [replace(call.as_call(), cancellation=run.cancellation) for call in calls]
    answers = {id_: each for id_, each in run.answers.items() if each is not None}
    kin = {id_: each.changes.together for id_, each in answers.items() if each.changes}
    alone = {id_ for id_ in answers if not kin.get(id_)}
    resumed = {
        id_: (each.token, each.answer, each.changes)
        for id_, each in answers.items()
        if id_ not in alone and answers.keys() >= {*kin[id_]}
    }
    new = [call for call in given if call.id not in alone and call.id not in resumed]
    for batch in (new, [call for call in given if call.id in resumed]):
        carried = yield Carry(
            partial(tools.dispatch_all, batch, resumed=resumed),
            partial(tools.adispatch_all, batch, resumed=resumed),
        )
        outcomes.update(zip((call.id for call in batch), carried, strict=True))
    for call in given:
        if call.id in alone:
            answer = answers[call.id]
            resume, changes = (call, answer.token, answer.answer), answer.changes
            try:
                outcome: Outcome = yield Carry(
                    partial(tools.resume, *resume, changes=changes),
                    partial(tools.aresume, *resume, changes=changes),
                )
                if was_carried_out(outcome):
                    again = partial(tools.dispatch, call), partial(tools.adispatch, call)
                    outcome = yield Carry(*again)
                outcomes[call.id] = outcome
            except (PromptEvaluationError, VisibilityExpansionRequired) as raised:
                outcomes[call.id] = raised  # in its place, as in a batch
    return [outcomes[call.id] for call in given]


def _raise_first(outcomes: Sequence[Outcome | BaseException]) -> None:
    for outcome in outcomes:
        match outcome:
            case Outcome() | VisibilityExpansionRequired():
                continue
            case PromptEvaluationError() if isinstance(outcome.__cause__, DeadlineExceededError):
                raise RunFailed(str(outcome), StopReason.DEADLINE, Phase.TOOL) from outcome
            case BudgetExceeded():
                raise RunFailed(str(outcome), StopReason.BUDGET, Phase.BUDGET) from outcome
            case PromptEvaluationError():
                raise RunFailed(str(outcome), StopReason.ERROR, Phase.TOOL) from outcome
            case _:
                raise outcome
