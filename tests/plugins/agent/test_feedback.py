"""Feedback providers speak after a batch of calls, and never stop one."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Session, Settings, tool
from toolstile.testing import FakeClock, ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    Deadline,
    DefinitionError,
    Filesystem,
    IdempotencyConfig,
    PolicyDecision,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    hookimpl,
)
from toolstile_hookspecs.agents.guidance import (
    Feedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    GuidanceContext,
    GuidedOutcome,
    Observation,
    Severity,
)
from toolstile_hookspecs.agents.messages import Message
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    Guidance,
    RunState,
    StaticFeedback,
    TicketAnswer,
    acollect_feedback,
    collect_feedback,
)
from toolstile_plugins.agent.providers.base import Evaluation
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.recorder import Recorder
from toolstile_plugins.record.replayer import Replayer
from toolstile_plugins.vfs import VirtualFilesystem


@dataclass(frozen=True)
class Note:
    text: str


@tool(category="read")
def look(what: str = "it") -> str:
    """Look at a thing."""
    return f"saw {what}"


@tool(category="read")
def fail() -> ToolResult[None]:
    """Fail."""
    return ToolResult.error("It did not work. Try another, then retry.")


@tool(category="read")
def around(*, context: ToolContext) -> str:
    """Look by another call."""
    return context.call("look").text


@tool(category="write", contained=True)
def write(path: str, *, context: ToolContext) -> str:
    """Write a file."""
    assert context.filesystem is not None
    context.filesystem.write(path, "x")
    return "written"


@tool(requires_confirmation=True)
def send() -> str:
    """Send it."""
    return "sent"


@tool
def wait(*, context: ToolContext) -> str:
    """Let the clock go on by a minute."""
    assert isinstance(context.clock, FakeClock)
    context.clock.advance(60)
    return "waited"


TOOLS = [look, fail, around, write, send, wait]
CALL = [("look", {})]


@dataclass
class Provider:
    """Says how many calls there were, and keeps the contexts."""

    name: str = "counter"
    ready: bool = True
    seen: list[GuidanceContext] = field(default_factory=list)

    def should_run(self, context: GuidanceContext) -> bool:
        return self.ready

    def provide(self, context: GuidanceContext) -> Feedback | None:
        self.seen.append(context)
        return Feedback(f"{context.tool_call_count} calls")


class AsyncProvider(Provider):
    async def should_run(self, context: GuidanceContext) -> bool:  # type: ignore[override]
        return self.ready

    async def provide(self, context: GuidanceContext) -> Feedback | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return Provider.provide(self, context)


def every(n: int, provider: Any = None) -> FeedbackProviderConfig:
    return FeedbackProviderConfig(provider or Provider(), FeedbackTrigger(every_n_calls=n))


def prompt_of(*configs: FeedbackProviderConfig, key: str = "p", sections: Any = ()) -> Prompt:
    section = MarkdownSection(key="s", title="S", tools=TOOLS)
    return Prompt(PromptTemplate("demo", key, [section, *sections], feedback_providers=configs))


def told(model: ScriptedModel) -> list[str]:
    """Return what the model read of its calls, all but the last."""
    last = model.requests[-1]
    return [answer.text for message in last.messages for answer in message.answers]


def given_in(session: Any) -> list[tuple[str, int]]:
    return [(each.provider_name, each.call_index) for each in session[Feedback].all()]


def run_of(prompt: Prompt, *script: Any, session: Any = None, **options: Any) -> Any:
    """Run a script; return the model and the session."""
    model = ScriptedModel(*script, "Done.")
    with Host(discover=False, **options) as host:
        _, session = Agent[str](prompt, adapter=model, host=host).execute("Go", session=session)
    return model, session


# --- The declaration


def test_a_trigger_that_never_fires_is_refused() -> None:
    with pytest.raises(DefinitionError, match="never fires"):
        FeedbackTrigger()
    for wrong in ({"every_n_calls": 0}, {"every_n_seconds": -1.0}):
        with pytest.raises(DefinitionError, match="more than 0"):
            FeedbackTrigger(**wrong)  # type: ignore[arg-type]


def test_names_are_unique_and_each_provider_has_a_trigger() -> None:
    with pytest.raises(DefinitionError, match="two feedback providers have the name counter"):
        run_of(prompt_of(every(1), every(2)), "never")
    with pytest.raises(DefinitionError, match="FeedbackProviderConfig"):
        run_of(prompt_of(Provider()), "never")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="feedback_providers is not several"):
        PromptTemplate("demo", "p", feedback_providers=Provider())  # type: ignore[arg-type]


def test_sections_add_providers_while_they_are_enabled() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Guided(MarkdownSection[Any]):
        feedback_providers: Any = ()

    on = Guided(key="g", title="G", feedback_providers=[every(1)])
    off = Guided(
        key="o",
        title="O",
        feedback_providers=[every(1, Provider("off"))],
        enabled=lambda _: False,
    )
    _, session = run_of(prompt_of(sections=[on, off]), CALL)
    assert given_in(session) == [("counter", 1)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"summary": 5}, "summary is 5"),
        ({"summary": "a", "suggestions": "Write now."}, "suggestions is 'Write now.'"),
        ({"summary": "a", "observations": Observation("pace", "slow")}, "observations is "),
    ],
)
def test_a_text_is_not_taken_for_several(given: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        Feedback(**given)


def test_a_block_holds_summary_observations_and_suggestions_and_cannot_be_closed_within() -> None:
    said = Feedback(
        "Slow </feedback> down <Feedback x>",
        (Observation("time", "late", "12:01"), Observation("files", "none")),
        ("Stop.", "< / FEEDBACK >"),
        Severity.WARNING,
        provider_name='a"b',
    )
    assert said.render() == (
        '<feedback provider="a&quot;b" severity="warning">\n'
        "Slow &lt;/feedback> down &lt;Feedback x>\n"
        "time: late (12:01)\n"
        "files: none\n"
        "Suggestion: Stop.\n"
        "Suggestion: &lt; / FEEDBACK >\n"
        "</feedback>"
    )
    with pytest.raises(AttributeError):
        said.summary = "other"  # type: ignore[misc]


# --- The moment


@pytest.mark.parametrize("provider", [Provider, AsyncProvider])
@pytest.mark.parametrize("is_async", [False, True])
def test_feedback_follows_the_result_of_the_call_that_triggered_it(
    provider: Any, *, is_async: bool
) -> None:
    model = ScriptedModel([("look", {"what": "a"}), ("look", {"what": "b"})], CALL, "Done.")
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(every(2, provider())), adapter=model, host=host)
        if is_async:
            _, session = asyncio.run(agent.aexecute("Go"))
        else:
            _, session = agent.execute("Go")

    block = '<feedback provider="counter" severity="info">\n2 calls\n</feedback>'
    assert told(model) == ["saw a", f"saw b\n\n{block}", "saw it"]
    events = session[ToolInvoked].all()
    assert "feedback" not in "".join(f"{each.text}{each.envelope()}" for each in events)


def test_failed_and_denied_calls_count_and_nested_ones_do_not() -> None:
    class NoNews:
        @hookimpl
        def toolstile_check(self, params: Any, tool: Any) -> PolicyDecision | None:
            is_news = tool.name == "look" and params.what == "news"
            return PolicyDecision.deny("No news.") if is_news else None

    provider = Provider()
    script = [("fail", {}), ("look", {"what": "news"}), ("unknown", {}), ("around", {})]
    run_of(prompt_of(every(4, provider)), script, plugins=[NoNews()])
    [context] = provider.seen
    assert context.tool_call_count == 4
    assert [each.tool_name for each in context.calls] == ["fail", "look", "unknown", "around"]


def test_all_whose_trigger_holds_are_asked_each_with_a_cadence_of_its_own() -> None:
    quiet = Provider("quiet", ready=False)
    prompt = prompt_of(every(2), every(3, Provider("third")), every(1, quiet))
    _, session = run_of(prompt, *[CALL] * 6)
    assert given_in(session) == [
        ("counter", 2),
        ("third", 3),
        ("counter", 4),
        ("counter", 6),
        ("third", 6),
    ]
    assert quiet.seen == []


def test_all_are_asked_on_the_same_state() -> None:
    @dataclass
    class Writer(Provider):
        def provide(self, context: GuidanceContext) -> Feedback | None:
            told = Provider.provide(self, context)
            self.written = len(context.session[Feedback].all())
            return told

    one, other = Writer("one"), Writer("other")
    run_of(prompt_of(every(1, one), every(1, other)), CALL, CALL)
    assert (one.written, other.written) == (2, 2)
    assert [each.last_feedback for each in other.seen] == [each.last_feedback for each in one.seen]


def test_a_cadence_counts_from_the_providers_own_last_feedback() -> None:
    class Once(Provider):
        def should_run(self, context: GuidanceContext) -> bool:
            return context.tool_call_count >= 3

    _, session = run_of(prompt_of(every(2, Once())), *[CALL] * 6)
    assert given_in(session) == [("counter", 3), ("counter", 5)]


def test_seconds_fire_at_the_first_opportunity_and_then_after_their_time() -> None:
    config = FeedbackProviderConfig(Provider(), FeedbackTrigger(every_n_seconds=90))
    script = [CALL, CALL, [("wait", {})], [("wait", {})], CALL]
    _, session = run_of(prompt_of(config), *script, clock=FakeClock())
    assert given_in(session) == [("counter", 1), ("counter", 4)]


def test_one_part_of_a_trigger_is_enough() -> None:
    trigger = FeedbackTrigger(every_n_calls=3, every_n_seconds=50)
    script = [CALL, CALL, CALL, CALL, [("wait", {})]]
    config = FeedbackProviderConfig(Provider(), trigger)
    _, session = run_of(prompt_of(config), *script, clock=FakeClock())
    assert given_in(session) == [("counter", 1), ("counter", 4), ("counter", 5)]


def test_a_file_fires_once_when_it_is_created_in_the_session(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("there before")
    files = {Filesystem: VirtualFilesystem.on_disk(tmp_path)}
    configs = [
        FeedbackProviderConfig(Provider(name), FeedbackTrigger(on_file_created=file))
        for name, file in [("old", "old.txt"), ("new", "new.txt"), ("outside", "../x")]
    ]
    prompt = prompt_of(*configs)
    script = [CALL, [("write", {"path": "new.txt"})], CALL]
    _, session = run_of(prompt, *script, resources=files)
    assert given_in(session) == [("new", 2)]

    (tmp_path / "new.txt").unlink()
    script = [CALL, [("write", {"path": "new.txt"})]]
    files = {Filesystem: VirtualFilesystem.on_disk(tmp_path)}
    run_of(prompt, *script, session=session, resources=files)
    assert given_in(session) == [("new", 2)]


def test_without_a_workspace_no_file_is_created() -> None:
    config = FeedbackProviderConfig(Provider(), FeedbackTrigger(on_file_created="a.txt"))
    assert given_in(run_of(prompt_of(config), CALL)[1]) == []


# --- The context


def test_a_context_tells_of_its_own_prompts_calls_and_feedback() -> None:
    one, other = Provider(), Provider()
    session = Session()
    run_of(prompt_of(every(1, one), key="one"), CALL, CALL, session=session)
    run_of(prompt_of(every(1, other), key="other"), [("fail", {})], session=session)
    run_of(prompt_of(every(1, one), key="one"), CALL, session=session)

    assert [each.tool_call_count for each in one.seen] == [1, 2, 3]
    [seen] = other.seen
    assert seen.tool_call_count == 1
    assert seen.last_feedback is None
    third = one.seen[2]
    assert (third.prompt.key, third.deadline) == ("one", None)
    assert third.last_feedback is not None
    assert third.last_feedback.call_index == 2
    assert third.last_feedback_for("counter") is third.last_feedback
    assert (third.calls_since("counter"), third.calls_since("nobody")) == (1, 3)


def test_recent_calls_are_oldest_first_and_none_for_no_number() -> None:
    provider = Provider()
    script = [[("look", {"what": what}) for what in "abc"]]
    run_of(prompt_of(every(1, provider)), *script)
    [context] = provider.seen
    assert [each.text for each in context.recent_tool_calls(2)] == ["saw b", "saw c"]
    assert len(context.recent_tool_calls(9)) == 3
    assert [*context.recent_tool_calls(0), *context.recent_tool_calls(-1)] == []
    assert context.filesystem is None
    assert context.budget_tracker is None


def test_a_provider_cannot_change_the_session() -> None:
    class Writer(Provider):
        def provide(self, context: GuidanceContext) -> Feedback:
            context.session[Note].append(Note("from the provider"))
            return Feedback("written")

    _, session = run_of(prompt_of(every(1, Writer())), CALL)
    assert list(session[Note].all()) == []
    assert given_in(session) == [("counter", 1)]


def test_given_feedback_survives_a_reset_of_the_state_and_the_cadence_goes_on() -> None:
    session = Session()
    run_of(prompt_of(every(2)), CALL, CALL, session=session)
    session.reset()
    run_of(prompt_of(every(2)), CALL, CALL, session=session)
    assert given_in(session) == [("counter", 2), ("counter", 2)]


def test_feedback_is_published_with_its_moment() -> None:
    heard: list[Feedback] = []
    session = Session()
    session.dispatcher.subscribe(Feedback, heard.append)
    clock = FakeClock()
    run_of(prompt_of(every(1)), CALL, session=session, clock=clock)
    [given] = heard
    assert (given.prompt, given.timestamp) == ("demo:p", clock.now())


def test_feedback_names_the_call_whose_result_it_follows() -> None:
    # The event of the call is published before, so that it cannot hold what comes after it.
    script = [("look", {"what": "a"}), ("fail", {}), ("send", {})]
    options: Any = {"approver": lambda _: ApprovalAnswer.pending("t")}
    _, session = run_of(prompt_of(every(1)), script, **options)
    [given] = session[Feedback].all()
    answers = {each.call_id: each.text for each in session[Message].all()[2].answers}
    assert given.render() in answers.pop(given.call_id)
    assert [event.tool_name for event in session[ToolInvoked].all() if event.call_id in answers]
    assert "feedback" not in "".join(answers.values())


# --- Faults


class Raising(Provider):
    def provide(self, context: GuidanceContext) -> Feedback:
        raise RuntimeError("no words")


class Silent(Provider):
    def provide(self, context: GuidanceContext) -> None:
        return None


class Wrong(Provider):
    def provide(self, context: GuidanceContext) -> Any:
        return "words"


@pytest.mark.parametrize("class_", [Raising, Silent, Wrong])
def test_a_provider_that_gives_no_feedback_is_left_out(
    class_: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "toolstile.agent"):
        model, session = run_of(prompt_of(every(1, class_("odd")), every(1)), CALL)
    assert given_in(session) == [("counter", 1)]
    assert told(model)[0].startswith('saw it\n\n<feedback provider="counter"')
    assert ("odd" in caplog.text) is (class_ is not Silent)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_provider_that_takes_too_long_is_asked_no_more(
    monkeypatch: pytest.MonkeyPatch, *, is_async: bool, is_coroutine: bool
) -> None:
    monkeypatch.setattr("toolstile_plugins.agent.guidance.prompt_guidance.FEEDBACK_SECONDS", 0.2)
    never, asked = threading.Event(), []

    class Slow(Provider):
        def provide(self, context: GuidanceContext) -> Any:
            asked.append(context.tool_call_count)
            never.wait()

    class SlowAsync(Provider):
        async def provide(self, context: GuidanceContext) -> Any:  # type: ignore[override]
            asked.append(context.tool_call_count)
            await asyncio.sleep(3600)

    slow = (SlowAsync if is_coroutine else Slow)("slow")
    model = ScriptedModel(CALL, CALL, "Done.")
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(every(1, slow), every(1)), adapter=model, host=host)
        _, session = asyncio.run(agent.aexecute("Go")) if is_async else agent.execute("Go")
    never.set()
    assert asked == [1]
    assert given_in(session) == [("counter", 1), ("counter", 2)]


# --- Pauses, dry runs, replays


def test_a_call_that_waits_counts_when_it_has_ended_in_another_process() -> None:
    prompt = prompt_of(every(2))
    model = ScriptedModel([("look", {}), ("send", {})], "Sent.")
    config = AgentConfig(slices=[Note])
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host:
        agent = Agent[str](prompt, adapter=model, host=host, config=config)
        result, session = agent.execute("Go")
        assert given_in(session) == []
        state = RunState.from_json(result.state.to_json())  # type: ignore[union-attr]
        answers = {
            "t": TicketAnswer(result.waiting[0].approval_token or "", ApprovalAnswer.approve())
        }
        _, session = agent.resume(state, answers)
    assert given_in(session) == [("counter", 2)]
    assert told(model)[-1].startswith("sent\n\n<feedback")


def test_a_stored_session_goes_on_with_what_was_given_and_counted(tmp_path: Path) -> None:
    settings = Settings.model_validate({"plugins": {"sessions": {"path": str(tmp_path / "s.db")}}})
    seen = Provider()
    for _ in range(3):
        model = ScriptedModel(CALL, "Done.")
        with Host(settings=settings, discover=["sessions"]) as host:
            agent = Agent[str](prompt_of(every(2, seen)), adapter=model, host=host)
            _, session = agent.execute("Go", session_id="s")
            given = given_in(session)
    assert given == [("counter", 2)]
    assert [each.tool_call_count for each in seen.seen] == [2]


def test_what_interrupts_a_provider_leaves_the_results_of_the_calls() -> None:
    class Interrupted(Provider):
        def provide(self, context: GuidanceContext) -> Feedback:
            raise KeyboardInterrupt

    session, model = Session(), ScriptedModel(CALL, "Done.")
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(every(1, Interrupted())), adapter=model, host=host)
        with pytest.raises(KeyboardInterrupt):
            agent.execute("Go", session=session)
        assert agent.execute(None, session=session)[0].text == "Done."
    assert told(model) == ["saw it"]


def test_a_dry_run_gives_no_feedback() -> None:
    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt_of(every(1)), dry_run=True) as tools,
    ):
        outcome = tools.dispatch(ToolCall("look"))
        assert Guidance(tools).with_feedback([outcome]) == [outcome]


def test_a_replay_gives_no_feedback_and_compares_none(tmp_path: Path) -> None:
    prompt = prompt_of(every(1))
    with Host(discover=False) as host:
        recorder = Recorder(RecordFile(tmp_path / "r.jsonl"), host.clock)
        host.register(recorder)
        model = ScriptedModel(CALL, "Done.")
        _, session = Agent[str](prompt, adapter=model, host=host).execute("Go")
        recorder.close()
    assert given_in(session) == [("counter", 1)]
    assert "feedback" not in (tmp_path / "r.jsonl").read_text()

    replayer = Replayer(Recording.load(tmp_path / "r.jsonl"))
    model, session = run_of(prompt, CALL, plugins=[replayer], approver=replayer.approve)
    assert [each.replayed for each in session[ToolInvoked].all()] == [True]
    assert (given_in(session), told(model)) == ([], ["saw it"])


def test_feedback_stays_out_of_the_ledger_and_a_replayed_call_repeats_none(tmp_path: Path) -> None:
    @tool(category="side_effect", idempotency=IdempotencyConfig(scope="global"))
    def pay() -> str:
        """Pay."""
        return "paid"

    section = MarkdownSection(key="pay", title="Pay", tools=[pay])
    settings = Settings.model_validate({"plugins": {"ledger": {"path": str(tmp_path / "l.db")}}})
    found: list[Any] = []
    for ready in (True, False):
        prompt = prompt_of(every(1, Provider(ready=ready)), sections=[section])
        model = ScriptedModel([("pay", {})], "Done.")
        with Host(settings=settings, discover=["ledger"]) as host:
            _, session = Agent[str](prompt, adapter=model, host=host).execute("Go")
        [event] = session[ToolInvoked].all()
        found.append((event.replayed, given_in(session), "<feedback" in told(model)[0]))
    assert found == [(False, [("counter", 1)], True), (True, [], False)]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"paid" in stored
    assert b"feedback" not in stored


# --- Without the loop


def test_feedback_is_part_of_the_outcomes_and_never_of_their_events() -> None:
    with Host(discover=False) as host, host.executor(prompt=prompt_of(every(2))) as tools:
        guidance = Guidance(tools, host)
        first = guidance.with_feedback([tools.dispatch(ToolCall("look"))])
        assert not isinstance(first[0], GuidedOutcome)
        outcome = tools.dispatch(ToolCall("look"))
        [guided] = asyncio.run(guidance.awith_feedback([outcome]))
    assert isinstance(guided, GuidedOutcome)
    assert [each.summary for each in guided.feedback] == ["2 calls"]
    assert guided.feedback == tuple(tools.session[Feedback].all())
    assert (guided.event, guided.text, guided.data) == (outcome.event, "saw it", outcome.data)
    assert guided.envelope() == outcome.envelope()


def test_the_last_call_that_has_ended_has_the_feedback() -> None:
    with (
        Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host,
        host.executor(prompt=prompt_of(every(1))) as tools,
    ):
        outcomes = tools.dispatch_all([ToolCall("look"), ToolCall("send")])
        guided = Guidance(tools, host).with_feedback([*outcomes, KeyError("left the call")])
    assert [isinstance(each, GuidedOutcome) for each in guided] == [True, False, False]
    assert guided[1] is outcomes[1]


def test_feedback_after_calls_past_the_host_is_counted_in_the_session() -> None:
    session, seen = Session(), Provider()
    prompt = prompt_of(every(2, seen))
    deadline = Deadline.after(60)
    assert collect_feedback(prompt, session, deadline) == []
    [given] = collect_feedback(prompt, session, deadline)
    assert (given.summary, given.call_index) == ("2 calls", 2)
    assert asyncio.run(acollect_feedback(prompt, session)) == []
    assert [each.call_index for each in asyncio.run(acollect_feedback(prompt, session))] == [4]
    assert [each.deadline for each in seen.seen] == [deadline, None]
    assert given_in(session) == [("counter", 2), ("counter", 4)]


def test_a_step_needs_no_executor_for_a_prompt_with_feedback() -> None:
    class Model(Evaluation, ScriptedModel): ...

    config = FeedbackProviderConfig(Provider(), FeedbackTrigger(on_file_created="a.txt"))
    turn = Model("Hello.").step(prompt_of(config), session=Session(), said="Hi")
    assert turn.text == "Hello."


def test_a_static_provider_says_the_same_each_time() -> None:
    model, _ = run_of(prompt_of(every(1, StaticFeedback("Be brief."))), CALL, CALL)
    assert [text.count("Be brief.") for text in told(model)] == [1, 1]
