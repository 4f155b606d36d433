"""Each call of a model has an id of the host's, whatever ids its provider gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ApprovalAnswer, IdempotencyConfig, ToolInvoked
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn
from toolstile_hookspecs.agents.provider import CallDelta
from toolstile_plugins.agent import Agent, RunState, TicketAnswer

charged: list[int] = []


@tool(idempotency=IdempotencyConfig(scope="call"))
def charge(euros: int) -> str:
    """Charge the card."""
    charged.append(euros)
    return f"receipt {len(charged)}"


@tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="call"))
def refund(euros: int) -> str:
    """Refund a charge."""
    charged.append(-euros)
    return f"refunded {euros}"


TILL = Prompt.of("demo", "till", [MarkdownSection(key="t", title="T", tools=[charge, refund])])


def calling(*calls: tuple[str, str, int]) -> Turn:
    """Return a reply with calls: the provider's id, the tool and the amount of each."""
    made = tuple(CallMade(id_, name, f'{{"euros": {n}}}') for id_, name, n in calls)
    return Turn(Message(Role.ASSISTANT, calls=made), StopReason.TOOL_USE)


FIVE = calling(("call_0", "charge", 5))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Run requests of one session, one after the other, over a model that says a script."""
    charged.clear()
    path = tmp_path / "state.db"
    plugins: Any = {"ledger": {"path": path}, "sessions": {"path": path}}
    settings = Settings(plugins=plugins, approval_key="k" * 40, approval_spent=path)

    def one(agent: Agent[str], asked: str | Callable[[Agent[str]], Any]) -> Any:
        if not isinstance(asked, str):
            return asked(agent)
        if request.param == "sync":
            return agent.execute(asked, session_id="s")
        return asyncio.run(agent.aexecute(asked, session_id="s"))

    def run(model: ScriptedModel, *asked: str | Callable[[Agent[str]], Any]) -> list[Any]:
        with Host(
            discover=["ledger", "sessions"],
            settings=settings,
            approver=lambda request: ApprovalAnswer.pending(f"t-{request.arguments}"),
        ) as host:
            agent = Agent[str](TILL, adapter=model, host=host)
            return [one(agent, each) for each in asked]

    return run


def told(messages: Any) -> list[tuple[str, str]]:
    """Return the ids and the texts of all results."""
    return [(each.call_id, each.text) for message in messages for each in message.answers]


def test_a_provider_that_numbers_each_reply_anew_has_each_call_made(
    run: Callable[..., Any],
) -> None:
    model = ScriptedModel(FIVE, FIVE, "Done.", FIVE, "Done.")
    run(model, "charge 5 twice", "charge 5 once more")
    assert charged == [5, 5, 5]
    sent = told(model.requests[-1].messages)
    assert [text for _, text in sent] == ["receipt 1", "receipt 2", "receipt 3"]
    assert sent[0][0] == "call_0"
    assert len({id_ for id_, _ in sent}) == 3


def test_calls_of_one_reply_that_share_an_id_get_each_its_own_result(
    run: Callable[..., Any],
) -> None:
    model = ScriptedModel(calling(("c", "charge", 1), ("c", "charge", 1), ("", "charge", 3)), "Ok.")
    [(_, session)] = run(model, "go")
    assert sorted(charged) == [1, 1, 3]
    sent = told(model.requests[-1].messages)
    assert len({id_ for id_, _ in sent}) == 3
    assert sorted(text for _, text in sent) == ["receipt 1", "receipt 2", "receipt 3"]
    calls = model.requests[-1].messages[1].calls
    assert [call.id for call in calls] == [id_ for id_, _ in sent]
    # The session, its events and the ledger have the host's ids.
    made = [call.id for message in session[Message].all() for call in message.calls]
    assert made == sorted(made)
    assert all(len(id_) == 32 for id_ in made)
    assert {event.call_id for event in session[ToolInvoked].all()} == {*made}


def test_a_run_that_waits_has_the_hosts_ids_and_answers_with_the_providers(
    run: Callable[..., Any],
) -> None:
    asked = calling(("c", "refund", 1), ("c", "refund", 2))
    model = ScriptedModel(asked, "Refunded.", asked, "Refunded again.")
    kept: list[RunState] = []

    def answered(agent: Agent[str]) -> Any:
        result, _ = agent.execute("refund", session_id="s")
        assert result.state is not None
        state = RunState.from_json(result.state.to_json())
        kept.append(state)
        tokens = {each.call.id: each.approval_token or "" for each in result.waiting}
        answers = {
            each.ticket: TicketAnswer(tokens[each.call.id], ApprovalAnswer.approve())
            for each in state.waiting
        }
        done = agent.resume(state, answers)
        assert agent.resume(state, answers)[0].text == done[0].text
        return done

    run(model, answered, answered)

    assert sorted(charged) == [-2, -2, -1, -1]
    ids = [each.call.id for state in kept for each in state.waiting]
    assert len({*ids}) == 4
    assert {each.call.provider_id for state in kept for each in state.waiting} == {"c"}
    sent = told(model.requests[-1].messages)
    assert len({id_ for id_, _ in sent}) == 4
    assert [text for _, text in sent] == ["refunded 1", "refunded 2"] * 2
    assert sent[0][0] == "c"


def test_a_stream_tells_both_ids(run: Callable[..., Any]) -> None:
    pieces: list[Any] = []

    def streamed(agent: Agent[str]) -> None:
        pieces.extend(agent.stream("go", session_id="s"))

    run(ScriptedModel(FIVE, "Done."), streamed)
    [piece] = [each for each in pieces if isinstance(each, CallDelta)]
    [made] = [each for each in pieces if isinstance(each, CallMade)]
    [ended] = [each for each in pieces if isinstance(each, ToolInvoked)]
    assert (piece.id, made.provider_id, ended.call.provider_id) == ("call_0",) * 3
    assert made.id == ended.call_id
