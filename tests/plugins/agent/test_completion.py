"""Completion checkers may object before an end is accepted; what cannot be checked is refused."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Session, Settings, tool
from toolstile.testing import FakeClock, ScriptedModel
from toolstile_hookspecs import (
    Cancellation,
    Deadline,
    DefinitionError,
    Filesystem,
    IdempotencyConfig,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
)
from toolstile_hookspecs.agents.guidance import GuidanceContext, TaskCompletionResult
from toolstile_hookspecs.agents.messages import Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.services.replay import Recorder
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    Budget,
    CompletionChecked,
    CompositeChecker,
    FileOutputChecker,
    Guidance,
    PlanChecker,
    RunFailed,
    ToolsCalledChecker,
)
from toolstile_plugins.agent.run import CONVERSATION
from toolstile_plugins.planning import Plan, PlanStep
from toolstile_plugins.record.commands import show_table
from toolstile_plugins.record.reader import Reader, Selection, verify
from toolstile_plugins.screen import Screen
from toolstile_plugins.vfs import VirtualFilesystem

OK, MORE = TaskCompletionResult.ok(), TaskCompletionResult.incomplete("A title is missing.")


@dataclass(frozen=True)
class Note:
    text: str


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def fail() -> ToolResult[None]:
    """Fail."""
    return ToolResult.error("It did not work. Try another, then retry.")


@tool
def wait(*, context: ToolContext) -> str:
    """Let the clock go on by a minute."""
    assert isinstance(context.clock, FakeClock)
    context.clock.advance(60)
    return "waited"


@dataclass
class Checker:
    """Gives its verdicts, one after the other, and keeps the contexts."""

    verdicts: list[Any]
    seen: list[GuidanceContext] = field(default_factory=list)

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        self.seen.append(context)
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict  # type: ignore[no-any-return]


class AsyncChecker(Checker):
    async def check(self, context: GuidanceContext) -> TaskCompletionResult:  # type: ignore[override]
        await asyncio.sleep(0)
        return Checker.check(self, context)


def prompt_of(checker: Any, *, output: Any = None, sections: Any = ()) -> Prompt:
    section = MarkdownSection(key="s", title="S", tools=[look, fail, wait])
    template = PromptTemplate(
        "demo", "p", [section, *sections], output=output, task_completion=checker
    )
    return Prompt(template)


def agent_of(host: Host, prompt: Prompt, *script: Any, **config: Any) -> Agent[Any]:
    return Agent(prompt, adapter=ScriptedModel(*script), host=host, config=AgentConfig(**config))


def execute(prompt: Prompt, *script: Any, config: Any = (), host: Any = (), **given: Any) -> Any:
    with Host(discover=False, **dict(host)) as opened:
        return agent_of(opened, prompt, *script, **dict(config)).execute("Go", **given)


def failing(prompt: Prompt, *script: Any, session: Session, **options: Any) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        execute(prompt, *script, session=session, **options)
    return failed.value


def verdicts(session: Any) -> list[tuple[str, str, str | None]]:
    found = session[CompletionChecked].all()
    return [(each.checker, each.verdict, each.feedback) for each in found]


def said(session: Any) -> list[str]:
    return [each.text for each in session[Message].all() if each.role is Role.USER][1:]


# --- The verdict


def test_a_refusal_says_what_is_missing() -> None:
    for feedback in ("", "  "):
        with pytest.raises(DefinitionError, match="name the missing parts"):
            TaskCompletionResult.incomplete(feedback)
    assert TaskCompletionResult.ok("Well done.") == TaskCompletionResult(True, "Well done.")


# --- The loop


@pytest.mark.parametrize("class_", [Checker, AsyncChecker])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_that_stops_too_early_is_told_what_is_missing_and_goes_on(
    class_: Any, *, is_async: bool
) -> None:
    checker = class_([MORE, OK])
    with Host(discover=False) as host:
        agent = agent_of(host, prompt_of(checker), "Done?", "Done.")
        run = asyncio.run(agent.aexecute("Go")) if is_async else agent.execute("Go")
    result, session = run
    assert (result.success, result.text, result.turns) == (True, "Done.", 2)
    assert said(session) == [
        "A title is missing. Your task is not complete yet: finish it, then answer again."
    ]
    assert [(each.text, each.refusals) for each in checker.seen] == [("Done?", 0), ("Done.", 1)]
    assert [each.stop_reason for each in checker.seen] == [StopReason.END] * 2
    name = class_.__name__
    assert verdicts(session) == [
        (name, "incomplete", "A title is missing."),
        (name, "complete", None),
    ]


def test_without_a_checker_the_model_stops_at_will() -> None:
    result, session = execute(prompt_of(None), "Done.")
    assert (result.success, verdicts(session)) == (True, [])


def test_a_structured_output_is_checked_before_it_is_accepted() -> None:
    checker = Checker([MORE, OK])
    prompt = prompt_of(checker, output=Note)
    result, _ = execute(prompt, "no JSON", '{"text": "a"}', '{"text": "b"}')
    assert result.output == Note("b")
    assert [each.tentative_output for each in checker.seen] == [Note("a"), Note("b")]


def test_the_context_has_the_surroundings_of_the_run_and_a_copy_of_its_session() -> None:
    @dataclass
    class Writer(Checker):
        def check(self, context: GuidanceContext) -> TaskCompletionResult:
            context.session[Note].append(Note("from the checker"))
            return super().check(context)

    checker, clock = Writer([OK]), FakeClock()
    deadline = Deadline.after(60, clock=clock)
    prompt = prompt_of(checker)
    _, session = execute(prompt, "Done.", deadline=deadline, host={"clock": clock})
    [context] = checker.seen
    assert (context.clock, context.deadline, context.filesystem) == (clock, deadline, None)
    assert isinstance(context.adapter, ScriptedModel)
    assert list(session[Note].all()) == []


def test_refusals_in_a_row_end_the_run_as_incomplete() -> None:
    session = Session()
    failed = failing(prompt_of(Checker([MORE] * 3)), "1", "2", [("fail", {})], "3", session=session)
    assert failed.stop_reason is StopReason.INCOMPLETE
    assert failed.result is not None
    assert "A title is missing." in (failed.result.error or "")
    assert failed.result.turns == 4
    assert [each[1] for each in verdicts(session)] == ["incomplete"] * 3


def test_a_call_that_succeeds_lets_refusals_begin_anew() -> None:
    checker = Checker([MORE, MORE, OK])
    script = ["1", [("look", {})], "2", "3"]
    result, _ = execute(prompt_of(checker), *script, config={"max_refusals": 2})
    assert result.success
    assert [each.refusals for each in checker.seen] == [0, 0, 1]


def test_sections_add_checkers_and_all_must_pass() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Guided(MarkdownSection[Any]):
        task_completion: Any = None

    first, second, off = Checker([OK, OK]), Checker([MORE, OK]), Checker([])
    sections = [
        Guided(key="g", title="G", task_completion=second),
        Guided(key="o", title="O", task_completion=off, enabled=lambda _: False),
    ]
    result, _ = execute(prompt_of(first, sections=sections), "1", "2")
    assert (result.success, len(first.seen), len(second.seen)) == (True, 2, 2)


def test_a_nested_agent_is_checked_by_its_own_prompt_alone() -> None:
    checker = Checker([OK])

    @tool
    def delegate(*, context: ToolContext) -> str:
        """Let another agent answer."""
        nested = agent_of(host, prompt_of(None), "from below")
        return nested.execute("Go")[0].text

    section = MarkdownSection(key="d", title="D", tools=[delegate])
    prompt = prompt_of(checker, sections=[section])
    with Host(discover=False) as host:
        result, session = agent_of(host, prompt, [("delegate", {})], "Done.").execute("Go")
    assert (result.text, len(checker.seen)) == ("Done.", 1)
    assert session[Message].all()[2].answers[0].text == "from below"


def test_each_check_is_one_event_on_the_session_and_the_bus() -> None:
    clock, heard, published = FakeClock(), list[CompletionChecked](), list[object]()

    @dataclass
    class Thorough(Checker):
        name: str = "thorough"

        def check(self, context: GuidanceContext) -> TaskCompletionResult:
            clock.advance(2)
            return super().check(context)

    class Bus:
        def subscribe(self, event: Any, handler: Any) -> Any: ...

        def publish(self, event: object) -> None:
            published.append(event)

    session = Session()
    session.dispatcher.subscribe(CompletionChecked, heard.append)
    model, prompt = ScriptedModel("1", "2"), prompt_of(Thorough([MORE, OK]))
    with Host(discover=False, clock=clock) as host:
        agent = Agent[str](prompt, adapter=model, host=host, bus=Bus())
        result, _ = agent.execute("Go", session=session)
    assert result.run_context is not None
    told = [
        (each.run_id, each.checker, each.verdict, each.feedback, each.duration) for each in heard
    ]
    run_id = result.run_context.run_id
    assert told == [
        (run_id, "thorough", "incomplete", "A title is missing.", 2.0),
        (run_id, "thorough", "complete", None, 2.0),
    ]
    assert list(session[CompletionChecked].all()) == heard
    assert [each for each in published if isinstance(each, CompletionChecked)] == heard


@pytest.mark.parametrize("reply", ["Done.", None], ids=["checked", "skipped"])
def test_each_check_is_a_line_of_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: Any
) -> None:
    path = tmp_path / "r.jsonl"
    settings = Settings.model_validate({"plugins": {"record": {"file": str(path)}}})
    with Host(settings=settings, discover=["record"]) as host:
        agent = agent_of(host, prompt_of(Checker([MORE, OK])), "1", reply or refused())
        result = agent.run("Go", session_id="s-1")
    assert result.run_context is not None

    reader = Reader(path)
    assert list(reader) == []
    assert {each.session for each in reader.checks} == {"s-1"}
    assert {each.check["run_id"] for each in reader.checks} == {result.run_context.run_id}
    assert {each.check["checker"] for each in reader.checks} == {"Checker"}
    told = [(each.check["verdict"], each.check["feedback"]) for each in reader.checks]
    second = ("complete", None) if reply else ("skipped", "the run ended: refused")
    assert told == [("incomplete", "A title is missing."), second]
    assert (verify(path).faults, verify(path).ended) == ((), True)

    show_table(Screen(), [Reader(path)], Selection())
    assert "checked by Checker: incomplete, A title is missing." in capsys.readouterr().out


def test_a_check_that_cannot_be_recorded_changes_no_verdict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(kind: str, fields: dict[str, Any]) -> None:
        raise OSError(f"No space is left for {kind} {fields}.")

    with Host(discover=False, resources={Recorder: Recorder(full)}) as host:
        agent = agent_of(host, prompt_of(Checker([OK])), "1")
        assert agent.run("Go").success
    assert "check of a task could not be recorded" in caplog.text


# --- No check


def refused() -> Turn:
    return Turn(Message(Role.ASSISTANT, "I will not."), StopReason.REFUSED, Usage(1, 1))


def test_it_is_skipped_and_noted_where_the_model_refused() -> None:
    session = Session()
    failing(prompt_of(Checker([])), refused(), session=session)
    assert verdicts(session) == [("Checker", "skipped", "the run ended: refused")]


def test_it_is_skipped_and_noted_where_deadline_or_budget_are_used_up() -> None:
    session, clock = Session(), FakeClock()

    def late(_: Any) -> str:
        clock.advance(60)
        return "Done."

    options: Any = {"config": {"deadline": 30.0}, "host": {"clock": clock}}
    failing(prompt_of(Checker([])), late, session=session, **options)
    options = {"config": {"budget": Budget(max_total_tokens=100)}}
    failing(prompt_of(Checker([])), "Done.", session=session, **options)
    reasons = [each[1:] for each in verdicts(session)]
    assert reasons == [
        ("skipped", "the run ended: deadline"),
        ("skipped", "the run ended: budget"),
    ]


def test_it_is_skipped_and_noted_where_the_run_was_cancelled() -> None:
    session, stop = Session(), Cancellation()

    def cancelled(_: Any) -> str:
        stop.cancel()
        return "Done."

    failing(prompt_of(Checker([])), cancelled, session=session, cancellation=stop)
    assert verdicts(session) == [("Checker", "skipped", "the run ended: cancelled")]


# --- Faults


@pytest.mark.parametrize("verdict", [RuntimeError("broken"), None, True])
def test_a_checker_that_comes_to_no_verdict_refuses(verdict: Any) -> None:
    session = Session()
    failed = failing(prompt_of(Checker([verdict] * 3)), "1", "2", "3", session=session)
    assert failed.stop_reason is StopReason.INCOMPLETE
    assert "could not be checked" in said(session)[0]
    assert "broken" not in said(session)[0]
    assert [each[1] for each in verdicts(session)] == ["incomplete"] * 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_checker_that_takes_too_long_refuses(
    monkeypatch: pytest.MonkeyPatch, *, is_async: bool
) -> None:
    monkeypatch.setattr("toolstile_plugins.agent.guidance.prompt_guidance.CHECK_SECONDS", 0.1)
    never = threading.Event()

    class Slow:
        name = "slow"

        def check(self, context: GuidanceContext) -> Any:
            never.wait()

    with Host(discover=False) as host:
        agent = agent_of(host, prompt_of(Slow()), "1", max_refusals=1)
        result = asyncio.run(agent.arun("Go")) if is_async else agent.run("Go")
    never.set()
    assert result.stop_reason is StopReason.INCOMPLETE


# --- Built in


def check(checker: Any, *, session: Any = None, **resources: Any) -> TaskCompletionResult:
    options: Any = {"session": session} if session else {}
    with (
        Host(discover=False, **resources) as host,
        host.executor(prompt=prompt_of(checker), **options) as tools,
    ):
        return Guidance(tools, host).check_completion()


def planned(*statuses: Any) -> Session:
    session = Session()
    steps = tuple(PlanStep(n, f"step {n}", status) for n, status in enumerate(statuses, 1))
    session[Plan].seed(Plan("Ship", steps=steps))
    return session


def test_a_plan_is_complete_when_all_its_steps_are_done() -> None:
    assert check(PlanChecker(), session=planned("done", "done")) == OK
    open_ = planned("done", "in_progress", *["pending"] * 4)
    assert check(PlanChecker(), session=open_).feedback == (
        "These steps are open: step 2, step 3, step 4, and 2 more."
    )
    assert check(PlanChecker()) == OK
    assert "plan is missing" in (check(PlanChecker(require_plan=True)).feedback or "")


def test_files_are_complete_when_the_workspace_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    files = {Filesystem: VirtualFilesystem.on_disk(tmp_path)}
    assert check(FileOutputChecker(["a.md"]), resources=files) == OK
    missing = FileOutputChecker(["a.md", "b", "c", "d", "e"])
    assert check(missing, resources=files).feedback == (
        "These files are missing: b, c, d, and 1 more."
    )
    assert not check(FileOutputChecker(["a.md"])).complete
    outside = check(FileOutputChecker(["../a.md"]), resources=files)
    assert outside.feedback == "These files are missing: ../a.md."
    assert check(FileOutputChecker([])) == OK


def test_tools_must_have_succeeded_in_the_session_in_any_process() -> None:
    prompt = prompt_of(ToolsCalledChecker(["look", "fail"]))
    session = Session()
    with Host(discover=False) as host:
        agent = agent_of(host, prompt, [("look", {}), ("fail", {})], "Done?", "?", "?")
        with pytest.raises(RunFailed, match="These tools have not succeeded yet: fail"):
            agent.execute("Go", session=session)
        prompt = prompt_of(ToolsCalledChecker(["look"]))
        again = host.session(session.to_json(), kinds=CONVERSATION)
        assert agent_of(host, prompt, "Done.").execute("Go on", session=again)[0].success


@pytest.mark.parametrize("class_", [Checker, AsyncChecker])
def test_several_checkers_stop_at_the_first_that_decides(class_: Any) -> None:
    other = TaskCompletionResult.incomplete("A date is missing.")
    last = class_([])
    assert check(CompositeChecker([class_([OK]), class_([MORE]), last])) == MORE
    passing = TaskCompletionResult.ok("fine")
    one = CompositeChecker([class_([MORE]), class_([passing]), last], all_must_pass=False)
    assert check(one) == OK
    none = CompositeChecker([class_([MORE]), class_([other])], all_must_pass=False)
    assert check(none).feedback == "A title is missing. A date is missing."
    assert check(CompositeChecker([])) == OK
    assert check(CompositeChecker([], all_must_pass=False)) == OK
    assert last.seen == []


def test_calls_that_a_ledger_answers_do_not_open_the_gate() -> None:
    @tool(category="side_effect", idempotency=IdempotencyConfig("auto"))
    def pay() -> str:
        """Pay."""
        return "paid"

    checker = Checker([MORE, OK])
    prompt = prompt_of(checker, sections=[MarkdownSection(key="p", title="P", tools=[pay])])
    with Host(discover=["ledger"]) as host:
        agent = agent_of(host, prompt, [("pay", {})], [("pay", {})], "1", "2")
        result, session = agent.execute("Go")
    assert [each.replayed for each in session[ToolInvoked].all()] == [False, True]
    assert (result.text, len(checker.seen)) == ("2", 2)


def test_completion_is_checked_without_a_loop_and_not_in_a_dry_run() -> None:
    checker = Checker([MORE])
    with Host(discover=False) as host, host.executor(prompt=prompt_of(checker)) as tools:
        found = asyncio.run(Guidance(tools, host).acheck_completion({"a": 1}, "text"))
    assert (found, checker.seen[0].tentative_output) == (MORE, {"a": 1})

    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt_of(checker), dry_run=True) as tools,
    ):
        guidance = Guidance(tools)
        guidance.with_feedback([tools.dispatch(ToolCall("look"))])
        assert guidance.check_completion() == OK
        assert verdicts(tools.session)[-1][1] == "skipped"


@pytest.mark.parametrize("checker", [Checker, lambda context: OK])
def test_what_is_not_a_checker_is_told_before_the_model_is_asked(checker: Any) -> None:
    prompt = Prompt(PromptTemplate("demo", "p", task_completion=checker))
    model = ScriptedModel()
    with Host(discover=False) as host, pytest.raises(DefinitionError, match="check\\(context\\)"):
        Agent[str](prompt, adapter=model, host=host).execute("Go")

    assert model.requests == []


def test_checkers_in_a_list_must_all_pass() -> None:
    checkers = [Checker([OK, OK]), Checker([MORE, OK])]
    prompt = Prompt(PromptTemplate("demo", "p", task_completion=checkers))
    with Host(discover=False) as host:
        result = Agent[str](prompt, adapter=ScriptedModel("1", "2"), host=host).run("Go")

    assert (result.success, result.turns) == (True, 2)


def test_a_text_in_place_of_several_is_refused() -> None:
    for class_ in (FileOutputChecker, ToolsCalledChecker):
        with pytest.raises(DefinitionError, match=r"takes a list; write \['report.md'\]"):
            class_("report.md")
