"""A run that waits is resumed once, in its own session, and ends as any other run does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    PromptEvaluationError,
    StateError,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.agents.messages import Message, StopReason
from toolstile_plugins.agent import Agent, Phase, RunFailed, RunResult, RunState, TicketAnswer


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send the notes."""
    return f"sent to {to}"


@tool(requires_confirmation=True)
def stop_all() -> str:
    """End the evaluation."""
    raise PromptEvaluationError("It cannot go on.")


@tool(requires_confirmation=True)
def more() -> str:
    """Ask for the archive."""
    raise VisibilityExpansionRequired(("archive",))


SECTION = MarkdownSection(key="d", title="Desk", tools=[send, stop_all, more])
PROMPT = Prompt.of("demo", "desk", [SECTION])
SENT = ("send", {"to": "Ada"})


@contextmanager
def waiting(*calls: Any, **given: Any) -> Generator[tuple[Agent[str], RunResult[str], Any]]:
    """Give an agent, the result of its run, whose calls wait, and their session."""
    model = ScriptedModel([*calls], "Done.", "Later.")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending()) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result, session = agent.execute("Go", **given)
        assert result.stop_reason is StopReason.PENDING
        yield agent, result, session


def answers(result: RunResult[str]) -> dict[str, TicketAnswer]:
    return {
        each.call.id: TicketAnswer(each.approval_token or "", ApprovalAnswer.approve())
        for each in result.waiting
    }


def answered(session: Any) -> list[str]:
    return [each.text for message in session[Message].all() for each in message.answers]


@pytest.fixture(params=["sync", "async"])
def resume(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def resume(agent: Agent[str], *given: Any, **more: Any) -> Any:
        if request.param == "sync":
            return agent.resume(*given, **more)
        return asyncio.run(agent.aresume(*given, **more))

    return resume


def test_a_session_with_an_id_that_nothing_stores_is_in_the_state(resume: Any) -> None:
    with waiting(SENT, session_id="desk-7") as (agent, asked, _):
        assert asked.state is not None
        state = RunState.from_json(asked.state.to_json())
        result, session = resume(agent, state, answers(asked))

    assert (result.text, result.session_id) == ("Done.", "desk-7")
    assert answered(session) == ["sent to Ada"]


def test_a_call_that_ends_the_evaluation_has_its_result_and_ends_the_run(resume: Any) -> None:
    with (
        waiting(("stop_all", {})) as (agent, asked, session),
        pytest.raises(RunFailed, match="It cannot go on") as failed,
    ):
        resume(agent, asked.state, answers(asked), session=session)

    assert failed.value.phase is Phase.TOOL
    assert len(answered(session)) == 1


def test_a_call_that_opens_sections_does_so_when_it_is_approved(resume: Any) -> None:
    with waiting(("more", {})) as (agent, asked, session):
        result, _ = resume(agent, asked.state, answers(asked), session=session)

    assert result.text == "Done."
    assert answered(session) == ["These sections are open now: archive."]


def test_a_run_that_is_resumed_twice_answers_alike(resume: Any) -> None:
    with waiting(SENT) as (agent, asked, session):
        texts = [
            resume(agent, asked.state, answers(asked), session=session)[0].text for _ in range(2)
        ]

    assert texts == ["Done.", "Done."]
    assert answered(session) == ["sent to Ada"]


def test_a_run_is_not_resumed_after_its_session_has_gone_on(resume: Any) -> None:
    with waiting(SENT) as (agent, asked, session):
        resume(agent, asked.state, answers(asked), session=session)
        assert agent.execute("And then?", session=session)[0].text == "Later."
        with pytest.raises(StateError, match="continued with another request"):
            resume(agent, asked.state, answers(asked), session=session)


def test_a_run_is_not_resumed_in_another_session(resume: Any) -> None:
    with waiting(SENT) as (agent, asked, _):
        assert asked.state is not None
        state = RunState.from_json(
            json.dumps({**json.loads(asked.state.to_json()), "session": None})
        )
        with pytest.raises(StateError, match="does not have its calls"):
            resume(agent, state, answers(asked))


def test_answers_to_other_tickets_are_refused(resume: Any) -> None:
    with waiting(SENT) as (agent, asked, session):
        [(ticket, answer)] = answers(asked).items()
        with pytest.raises(StateError, match=f"waits for answers to {ticket}, .* is t-8"):
            resume(agent, asked.state, {"t-8": answer}, session=session)
        # Answers to earlier questions may be among them.
        both = {"t-8": answer, ticket: answer}
        assert resume(agent, asked.state, both, session=session)[0].text == "Done."


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "invalid JSON"), ("[]", "object"), ('{"run_id": "r"}', "request_id: field required")],
)
def test_text_that_is_no_state_is_refused_in_a_line(text: str, told: str) -> None:
    with pytest.raises(StateError) as refused:
        RunState.from_json(text)

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "input_value" not in str(refused.value)
