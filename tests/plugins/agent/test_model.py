"""Runs of any shape agree with a model of what a conversation and its state come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from toolstile import Host, MarkdownSection, Prompt, Visibility, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ApprovalAnswer, ToolContext, ToolResult
from toolstile_hookspecs.agents.messages import Message, Role, StopReason
from toolstile_hookspecs.agents.provider import ModelRequest
from toolstile_plugins.agent import Agent, AgentConfig, RunResult, RunState, TicketAnswer

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Note:
    text: str


@tool(category="write")
def note(text: str, *, context: ToolContext) -> str:
    """Write a note."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(category="write")
def fail(text: str, *, context: ToolContext) -> str:
    """Write a note, and fail."""
    context.session[Note].append(Note(text))
    return ToolResult.error("It failed. Retry.")  # type: ignore[return-value]


@tool(category="write")
def broken(text: str, *, context: ToolContext) -> str:
    """Write a note, and raise."""
    context.session[Note].append(Note(text))
    raise OSError(text)


@tool(requires_confirmation=True)
def confirmed(text: str, *, context: ToolContext) -> str:
    """Write a note that a person has to approve."""
    context.session[Note].append(Note(text))
    return f"confirmed {text}"


@tool(category="write")
def hidden(text: str, *, context: ToolContext) -> str:
    """Write a note, where the section is open."""
    context.session[Note].append(Note(text))
    return f"hidden {text}"


PROMPT = Prompt.of(
    "demo",
    "notes",
    [
        MarkdownSection(key="notes", title="Notes", tools=[note, fail, broken, confirmed]),
        MarkdownSection(
            key="more", title="More", tools=[hidden], visibility=Visibility.SUMMARY, summary="More."
        ),
    ],
)
OPEN = "open_sections"
CALLS = st.sampled_from(["note", "fail", "broken", "confirmed", "hidden", OPEN])
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=3)


@dataclass
class Expected:
    """The conversation and the session, as they have come to be."""

    roles: list[Role] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answered: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, str]] = field(default_factory=list)
    is_open: bool = False

    def copy(self) -> Expected:
        return Expected(
            [*self.roles], [*self.notes], {**self.answered}, [*self.waiting], self.is_open
        )


class Runs(RuleBasedStateMachine):
    """One session, in which requests come, wait, are resumed and taken back."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(discover=False, approver=lambda _: ApprovalAnswer.pending()).open()
        self.script: list[Any] = []
        self.model = ScriptedModel(*[self._next] * 10_000)
        config = AgentConfig(slices=[Note])
        self.agent = Agent[str](PROMPT, adapter=self.model, host=self.host, config=config)
        with self.host.executor(prompt=PROMPT) as tools:
            self.session: Any = tools.session
        self.expected = Expected()
        self.state: RunState | None = None
        self.tokens: dict[str, str] = {}
        self.kept: list[tuple[Any, Expected]] = []
        self.left: list[list[str]] = []
        self.requests = 0

    def teardown(self) -> None:
        self.host.close()

    @precondition(lambda self: self.state is None)
    @rule(turns=TURNS)
    def ask(self, turns: list[list[str]]) -> None:
        self.expected.roles.append(Role.USER)
        self.left = turns
        self._script(turns)
        result, _ = self.agent.execute("Go", session=self.session)
        self._take(result)

    @precondition(lambda self: self.state is not None)
    @rule(
        given=st.lists(st.booleans() | st.none(), min_size=3, max_size=3),
        elsewhere=st.booleans(),
    )
    def resume(self, given: list[bool | None], *, elsewhere: bool) -> None:
        assert self.state is not None
        waiting, answers = self.expected.waiting, dict[str, TicketAnswer]()
        texts: dict[str, str] = {}
        tickets = {each.call.provider_id: each.ticket for each in self.state.waiting}
        for (call_id, text), answer in zip(waiting, given, strict=False):
            if answer is not None:
                answers[tickets[call_id]] = TicketAnswer(self.tokens[call_id], answer)
                texts[call_id] = f"confirmed {text}" if answer else "did not approve"
                if answer:
                    self.expected.notes.append(text)
        state = RunState.from_json(self.state.to_json()) if elsewhere else self.state
        options = {} if elsewhere else {"session": self.session}
        if elsewhere:
            self.kept.clear()  # of another session
        if texts:
            self.expected.roles.append(Role.TOOL)
        self.expected.answered |= texts
        self.expected.waiting = [each for each in waiting if each[0] not in texts]
        result, self.session = self.agent.resume(state, answers, **options)
        self._take(result)

    @precondition(lambda self: self.state is None)
    @rule()
    def keep(self) -> None:
        self.kept.append((self.session.snapshot(), self.expected.copy()))

    @precondition(lambda self: self.state is None and self.kept)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        snapshot, expected = data.draw(st.sampled_from(self.kept))
        self.session.restore(snapshot)
        self.expected = expected.copy()

    @invariant()
    def agrees(self) -> None:
        messages: Sequence[Message] = self.session[Message].all()
        assert [message.role for message in messages] == self.expected.roles
        assert [each.text for each in self.session[Note].all()] == self.expected.notes
        answered = [answer for message in messages for answer in message.answers]
        assert len({answer.call_id for answer in answered}) == len(answered)
        made = {call.id: call.provider_id for message in messages for call in message.calls}
        told = {made[answer.call_id]: answer.text for answer in answered}
        for call_id, text in told.items():
            assert self.expected.answered[call_id] in text
        assert {*made.values()} == {*told, *dict(self.expected.waiting)}

    def _next(self, request: ModelRequest) -> Any:
        answer = self.script.pop(0)
        return answer(request) if callable(answer) else answer

    def _script(self, turns: list[list[str]]) -> None:
        self.script = [self._calls(turn) for turn in turns] + ["Done."]

    def _calls(self, turn: list[str]) -> Any:
        def reply(_: object) -> Any:
            return [
                (name, {"section_keys": ["more"], "reason": "needed"})
                if name == OPEN
                else (name, {"text": f"{name}-{len(self.model.requests)}-{index}"})
                for index, name in enumerate(turn)
            ]

        return reply

    def _take(self, result: RunResult[Any]) -> None:
        """Let the model go through the turns that are left, and compare the end."""
        expected = self.expected
        while self.left and not expected.waiting:
            self._batch(self.left.pop(0))
        if expected.waiting:
            assert result.stop_reason is StopReason.PENDING
            assert result.state is not None
            self.state = result.state
            waiting = [each.call.provider_id for each in self.state.waiting]
            assert waiting == [call_id for call_id, _ in expected.waiting]
            # Another process, which did not ask, does not know a token.
            asked = {each.call.provider_id: each.approval_token for each in result.waiting}
            self.tokens |= {call_id: token for call_id, token in asked.items() if token}
        else:
            expected.roles.append(Role.ASSISTANT)
            self.requests += 1
            self.state = None
            assert result.text == "Done."
            assert result.success

    def _batch(self, turn: list[str]) -> None:
        expected, was_open = self.expected, self.expected.is_open
        expected.roles.append(Role.ASSISTANT)
        self.requests += 1
        answered = dict[str, str]()
        for index, name in enumerate(turn):
            text, call_id = f"{name}-{self.requests}-{index}", f"call_{self.requests}_{index + 1}"
            match name:
                case "confirmed":
                    expected.waiting.append((call_id, text))
                case "note":
                    expected.notes.append(text)
                    answered[call_id] = f"noted {text}"
                case "hidden" if was_open:
                    expected.notes.append(text)
                    answered[call_id] = f"hidden {text}"
                case "open_sections" if not was_open:
                    answered[call_id] = "open already" if expected.is_open else "open now"
                    expected.is_open = True
                case "fail" | "broken":
                    answered[call_id] = "failed" if name == "fail" else text
                case _:
                    answered[call_id] = name
        if answered:
            expected.roles.append(Role.TOOL)
        expected.answered |= answered


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


class TestManyRuns(Runs.TestCase):  # type: ignore[misc, name-defined]
    pytestmark = pytest.mark.long
    settings = settings(max_examples=600, stateful_step_count=30, deadline=None)
