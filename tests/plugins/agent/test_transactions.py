"""A run whose calls are one transaction: one decision keeps all of its changes, or none."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, ToolCall, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    RunContext,
    ToolContext,
    TransactionStatus,
    Visibility,
    hookimpl,
)
from toolstile_hookspecs.agents.guidance import TaskCompletionResult
from toolstile_hookspecs.agents.messages import Message, Role, StopReason
from toolstile_plugins.agent import Agent, AgentConfig, RunFailed, RunResult, RunState, TicketAnswer


@dataclass(frozen=True)
class Note:
    text: str


@tool(contained=True)
def note(text: str, *, context: ToolContext) -> str:
    """Add a note."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(contained=True)
def count(*, context: ToolContext) -> int:
    """Count the notes."""
    return len(context.session[Note].all())


@tool(contained=True, requires_confirmation=True)
def sign(*, context: ToolContext) -> str:
    """Sign the notes."""
    context.session[Note].append(Note("signed"))
    return "signed"


SECTION = MarkdownSection(key="n", title="Notes", tools=[note, count, sign])
PROMPT = Prompt.of("demo", "notes", [SECTION])
TWO: Any = [("note", {"text": "a"}), ("note", {"text": "b"})]

UNKEPT = (
    "None of the changes that the calls of the previous run made is kept: the run failed (error). "
    "Everything is as it was before that run. Make the calls again if they are still wanted."
)


class Ends:
    def __init__(self) -> None:
        self.ended: list[Any] = []

    @hookimpl
    def toolstile_transaction(self, event: Any) -> None:
        self.ended.append(event)

    @property
    def statuses(self) -> list[TransactionStatus]:
        return [each.status for each in self.ended]


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def host(ends: Ends) -> Any:
    with Host(discover=False, plugins=[ends]) as host:
        yield host


WAYS = ["execute", "aexecute", "stream", "astream"]


def go(agent: Agent[str], way: str, said: str = "Go", **given: Any) -> RunResult[str]:
    if way == "execute":
        return agent.execute(said, **given)[0]
    if way == "aexecute":
        return asyncio.run(agent.aexecute(said, **given))[0]
    if way == "stream":
        return [*agent.stream(said, **given)][-1]  # type: ignore[return-value]

    async def read() -> Any:
        return [piece async for piece in agent.astream(said, **given)][-1]

    return asyncio.run(read())


def notes(session: Any) -> list[str]:
    return [each.text for each in session[Note].all()]


def users(model: ScriptedModel) -> list[str]:
    """Return the messages of the user in the last request."""
    return [each.text for each in model.requests[-1].messages if each.role is Role.USER]


@pytest.mark.parametrize("way", WAYS)
def test_all_calls_of_a_run_are_kept_at_its_end(host: Any, ends: Ends, way: str) -> None:
    with host.executor(prompt=PROMPT) as tools:
        seen: list[list[str]] = []

        def look(_: Any) -> str:
            seen.append(notes(tools.session))
            return "Done."

        model = ScriptedModel(TWO, look)
        result = go(Agent(PROMPT, adapter=model, host=host), way, executor=tools, transaction=True)
        assert (result.text, seen) == ("Done.", [[]])
        assert notes(tools.session) == ["a", "b"]
    assert ends.statuses == ["committed"]
    assert ends.ended[0].title == "demo:notes"
    assert len(ends.ended[0].calls) == 2


@pytest.mark.parametrize("way", WAYS)
def test_after_an_exception_nothing_is_kept_and_the_next_turn_says_so(
    host: Any, ends: Ends, way: str
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("the provider's own secret")

    model = ScriptedModel(TWO, broken, "What now?")
    agent = Agent[str](PROMPT, adapter=model, host=host)
    with host.executor(prompt=PROMPT) as tools:
        with pytest.raises(RunFailed):
            go(agent, way, executor=tools, transaction=True)
        assert notes(tools.session) == []
        assert [each.text for each in tools.session[Message].all() if each.role is Role.USER] == [
            "Go"
        ]
        go(agent, way, "And now?", executor=tools)
    assert ends.statuses == ["rolled_back"]
    assert users(model) == [
        "Go",
        UNKEPT,
        "And now?",
    ]
    assert any(each.answers for each in model.requests[-1].messages)


def test_the_notice_is_told_once(host: Any) -> None:
    model = ScriptedModel(TWO, "", "First.", "Second.")
    agent = Agent[str](PROMPT, adapter=model, host=host, config=AgentConfig(output_retries=0))
    with host.executor(prompt=PROMPT) as tools:
        assert not agent.run("Go", executor=tools, transaction=True).success
        for said in ("One", "Two"):
            agent.run(said, executor=tools, transaction=True)
        assert sum("is kept" in text for text in users(model)) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_conflict_at_the_end_fails_the_run_and_is_named(host: Any, ends: Ends, way: str) -> None:
    with host.executor(prompt=PROMPT) as tools:

        def meanwhile(_: Any) -> str:
            tools.dispatch(ToolCall("note", {"text": "other"}))
            return "Done."

        model = ScriptedModel([("count", {}), *TWO], meanwhile, "I see.")
        agent = Agent[str](PROMPT, adapter=model, host=host)
        with pytest.raises(RunFailed, match="count") as failed:
            go(agent, way, executor=tools, transaction=True)
        assert failed.value.result is not None
        assert failed.value.result.stop_reason is StopReason.ERROR
        assert notes(tools.session) == ["other"]
        go(agent, way, "Again", executor=tools)
    assert ends.statuses == ["conflict"]
    [_, told, _] = users(model)
    assert told.startswith("None of the changes")
    assert "count" in told


def test_run_returns_the_result_of_a_run_that_was_not_kept(host: Any) -> None:
    with host.executor(prompt=PROMPT) as tools:

        def meanwhile(_: Any) -> str:
            tools.dispatch(ToolCall("note", {"text": "other"}))
            return "Done."

        agent = Agent[str](
            PROMPT, adapter=ScriptedModel([("count", {}), *TWO], meanwhile), host=host
        )
        result = agent.run("Go", executor=tools, transaction=True)
    assert not result.success
    assert "count" in (result.error or "")
    assert result.text == "Done."


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interruption_rolls_it_back(host: Any, ends: Ends, is_async: bool) -> None:
    def interrupted(_: Any) -> str:
        raise asyncio.CancelledError if is_async else KeyboardInterrupt

    agent = Agent[str](PROMPT, adapter=ScriptedModel(TWO, interrupted), host=host)
    with host.executor(prompt=PROMPT) as tools:
        with pytest.raises((asyncio.CancelledError, KeyboardInterrupt)):
            go(agent, "aexecute" if is_async else "execute", executor=tools, transaction=True)
        assert notes(tools.session) == []
    assert [(each.status, each.reason) for each in ends.ended] == [
        ("rolled_back", "the run was interrupted.")
    ]


def test_a_request_that_was_not_kept_can_be_sent_again(host: Any) -> None:
    with host.executor(prompt=PROMPT) as tools:

        def meanwhile(_: Any) -> str:
            tools.dispatch(ToolCall("note", {"text": "other"}))
            return "Done."

        model = ScriptedModel([("count", {}), *TWO], meanwhile, TWO, "Done again.")
        agent = Agent[str](PROMPT, adapter=model, host=host)
        given: dict[str, Any] = {
            "executor": tools,
            "transaction": True,
            "run_context": RunContext(request_id="r1"),
        }
        assert not agent.run("Go", **given).success
        assert agent.run("Go", **given).text == "Done again."
        assert notes(tools.session) == ["other", "a", "b"]


def test_prompt_checks_and_the_last_step_see_the_changes_of_its_calls(host: Any) -> None:
    seen: list[Any] = []

    class Checks:
        def check(self, context: Any) -> TaskCompletionResult:
            seen.append(notes(context.session))
            return TaskCompletionResult.ok()

    class Desk(Agent[str]):
        def finalize(self, prompt: Any, session: Any, result: Any) -> Any:
            seen.append(notes(session))

    model = ScriptedModel(TWO, "Done.")

    def shows(session: Any) -> bool:
        return len(session[Note].all()) == 2

    late = MarkdownSection(key="late", title="Late", template="Both are there.", enabled=shows)
    prompt = Prompt.of("demo", "notes", [SECTION, late])
    with host.executor(prompt=prompt) as tools:
        other = host.executor(prompt=prompt, session=tools.session)
        agent = Desk(prompt, adapter=model, host=host, config=AgentConfig(task_completion=Checks()))
        assert agent.run("Go", executor=tools, transaction=True).success
        other.close()
        assert notes(tools.session) == ["a", "b"]
    assert seen == [["a", "b"], ["a", "b"]]
    assert ["Both are there." in each.system for each in model.requests] == [False, True]


def test_a_section_that_the_model_opens_stays_open(host: Any) -> None:
    hidden = MarkdownSection(
        key="more", title="More", tools=[count], visibility=Visibility.SUMMARY, summary="Counts."
    )
    prompt = Prompt.of(
        "demo", "notes", [MarkdownSection(key="n", title="Notes", tools=[note]), hidden]
    )
    opens: Any = [("open_sections", {"section_keys": ["more"], "reason": "to count"})]
    model = ScriptedModel(TWO, opens, [("count", {})], "Done.")
    with host.executor(prompt=prompt) as tools:
        result = Agent[str](prompt, adapter=model, host=host).run(
            "Go", executor=tools, transaction=True
        )
        assert result.success, result.error
        assert notes(tools.session) == ["a", "b"]
    answers = [each.text for message in model.requests[-1].messages for each in message.answers]
    assert answers[-1] == "2"


# --- Stored sessions


def stored(folder: Path, **more: Any) -> Any:
    path = folder / "toolstile.toml"
    path.write_text(f'[plugins.sessions]\npath = "{folder / "sessions.db"}"\n', encoding="utf-8")
    return Host(config=path, block=["ledger"], **more)


def test_the_next_turn_in_a_stored_session_says_that_nothing_was_kept(tmp_path: Path) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError

    with stored(tmp_path) as host:
        agent = Agent[str](PROMPT, adapter=ScriptedModel(TWO, broken), host=host)
        assert not agent.run("Go", session_id="s", transaction=True).success
    with stored(tmp_path) as host:
        model = ScriptedModel([("count", {})], "None.")
        result, session = Agent[str](PROMPT, adapter=model, host=host).execute(
            "How many?", session_id="s", transaction=True
        )
        assert result.text == "None."
        assert notes(session) == []
    [_, told, _] = users(model)
    assert "the run failed (error)" in told


def test_after_a_crash_the_next_turn_says_that_the_end_is_unknown(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def killed(_: Any) -> Any:
        raise Killed

    with stored(tmp_path) as host:
        agent = Agent[str](PROMPT, adapter=ScriptedModel(TWO, killed), host=host)
        with pytest.raises(Killed):
            agent.execute("Go", session_id="s", transaction=True)
    with stored(tmp_path) as host:
        model = ScriptedModel("Hm.")
        Agent[str](PROMPT, adapter=model, host=host).execute("And?", session_id="s")
    assert users(model)[1].startswith("The previous run was interrupted, and it is unknown")


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_answer_that_comes_later_resumes_it_in_another_transaction(
    tmp_path: Path, ends: Ends, is_stored: bool
) -> None:
    given: dict[str, Any] = {"session_id": "s"} if is_stored else {}

    def later(_: Any) -> ApprovalAnswer:
        return ApprovalAnswer.pending()

    asks: dict[str, Any] = {"plugins": [ends], "approver": later}
    with stored(tmp_path, **asks) as host:
        model = ScriptedModel([TWO[0]], [("sign", {})])
        agent = Agent[str](PROMPT, adapter=model, host=host)
        asked, session = agent.execute("Go", transaction=True, **given)
        assert asked.stop_reason is StopReason.PENDING
        assert asked.state is not None
        assert notes(session) == []
        state = RunState.from_json(asked.state.to_json())
        answers = {
            each.call.id: TicketAnswer(each.approval_token or "", ApprovalAnswer.approve())
            for each in asked.waiting
        }
        model = ScriptedModel([TWO[0]], "Done.")
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result, session = agent.resume(state, answers, transaction=True, **given)
        assert result.text == "Done."
        assert notes(session) == ["signed", "a"]
    assert [(each.status, each.reason) for each in ends.ended] == [
        ("rolled_back", "a call waits for a person, which a transaction cannot."),
        ("committed", ""),
    ]
    assert [text for text in users(model) if "a call waits for a person" in text]
