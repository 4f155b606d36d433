"""A recorded call comes out as it did, no handler runs, and the session is what it was."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import Field, SecretStr

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Interrupt,
    MarkdownSection,
    Outcome,
    PromptEvaluationError,
    Secret,
    Status,
    SystemClock,
    ToolCall,
    ToolContext,
    ToolInvoked,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)
from toolstile_plugins.record import (
    Recorder,
    RecordError,
    RecordFile,
    Recording,
    Replayer,
    replayer as replaying,
)
from toolstile_plugins.record.replayer import is_of

CALLS: list[tuple[str, Any]] = [
    ("add", {"a": 1}),
    ("notes", {}),
    ("note", {"text": "a"}),
    ("twice", {"text": "b"}),
    ("notes", {}),
    ("ad", {"a": 1}),
    ("add", '{"a": "1"}'),
    ("echo", {"text": "forbidden"}),
    ("echo", {"text": "\ud800 日本"}),
    ("fail", {"how": "broken"}),
    ("fetch", {}),
    ("note", {"text": "c"}),
    ("notes", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_a_session_comes_out_as_it_did_and_no_handler_runs(desk, path, strict):
    recorded, state = desk.record(path, *CALLS)
    with desk.replaying(path, strict=strict) as (tools, replay):
        replayed = [tools.dispatch(ToolCall(*each)) for each in CALLS]
        assert desk.state_of(tools) == state
    assert list(map(desk.outcome_of, replayed)) == list(map(desk.outcome_of, recorded))
    assert [each.text for each in replayed] == [each.text for each in recorded]
    assert [each.result.value for each in replayed[:5]] == [
        each.result.value for each in recorded[:5]
    ]
    assert desk.ran == []
    assert replay.unused == []


def test_what_is_answered_is_marked_as_replayed(desk, path):
    desk.record(path, ("add", {"a": 1}))
    with desk.replaying(path) as (tools, _):
        assert desk.call(tools, "add", a=1).event.replayed


def test_calls_are_found_by_name_and_arguments_in_any_order(desk, path):
    desk.record(path, ("add", {"a": 1}), ("echo", {"text": "x"}))
    with desk.replaying(path) as (tools, replay):
        assert desk.call(tools, "echo", text="x").text == "x"
        assert [each.tool for each in replay.unused] == ["add"]
        assert desk.call(tools, "add", b=1, a=1).text == "2"


def test_equal_calls_are_answered_in_the_recorded_order(desk, path):
    desk.record(path, ("notes", {}), ("note", {"text": "a"}), ("notes", {}))
    with desk.replaying(path) as (tools, _):
        assert desk.call(tools, "notes").result.value == ["0 in all"]
        assert desk.call(tools, "notes").result.value == ["1 in all", "a"]


@pytest.mark.parametrize(
    ("strict", "made", "told"),
    [
        (False, ("add", {"a": 2}), 'No call of add with these arguments is in the record: {"a":2'),
        (False, ("add", {"a": 1}), "has answered already"),
        (True, ("echo", {"text": "x"}), "The record ends before this call of echo."),
    ],
)
def test_a_call_that_is_not_in_the_record_fails_and_says_so(desk, path, strict, made, told):
    desk.record(path, ("add", {"a": 1}))
    with desk.replaying(path, strict=strict) as (tools, _):
        desk.call(tools, "add", a=1)
        outcome = tools.dispatch(ToolCall(*made))
    assert outcome.status is Status.FAILED
    assert told in outcome.text
    assert desk.ran == []


def test_a_strict_replay_answers_no_call_with_what_came_of_other_arguments(desk, path):
    desk.record(path, ("add", {"a": 1}))
    with desk.replaying(path, strict=True) as (tools, _):
        assert desk.call(tools, "add", a=2).text.startswith(
            "The next call of the record (line 2) is add "
        )
        assert desk.call(tools, "add", a=1).text == "2"


def test_a_strict_replay_names_the_call_that_comes_next(desk, path):
    desk.record(path, ("add", {"a": 1}), ("echo", {"text": "x"}))
    with desk.replaying(path, strict=True) as (tools, _):
        outcome = desk.call(tools, "echo", text="x")
        assert outcome.text.startswith('The next call of the record (line 2) is add {"a":1,"b":1}')
        assert desk.call(tools, "add", a=1).success


@pytest.mark.parametrize(
    ("how", "kind", "status"),
    [
        ("late", PromptEvaluationError, Status.DEADLINE),
        ("over", PromptEvaluationError, Status.RAISED),
        ("pause", Interrupt, Status.RAISED),
        ("open", VisibilityExpansionRequired, Status.RAISED),
    ],
)
def test_what_left_dispatch_leaves_it_again(desk, path, how, kind, status):
    with desk.recording(path) as tools, pytest.raises(kind) as then:
        desk.call(tools, "fail", how=how)
    events: list[Any] = []
    with desk.replaying(path) as (tools, _):
        tools.session.dispatcher.subscribe(ToolInvoked, events.append)
        with pytest.raises(kind) as now:
            desk.call(tools, "fail", how=how)
    assert str(now.value) == str(then.value)
    assert events[0].status is status
    assert desk.ran == []


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_what_stopped_the_recording_does_not_stop_the_replay(desk, path, how):
    with desk.recording(path) as tools, pytest.raises(KeyboardInterrupt):
        desk.call(tools, "fail", how=how)
    assert desk.lines_of(path)[0]["error"]["type"] == "KeyboardInterrupt"
    with desk.replaying(path) as (tools, _):
        told = desk.call(tools, "fail", how=how).text
    assert told == "fail was interrupted: its process was asked to stop."


@pytest.mark.parametrize(
    "answer",
    [
        ApprovalAnswer.approve(),
        ApprovalAnswer.deny("Too much."),
        ApprovalAnswer.edit({"to": "Eve", "amount": 1}),
        ApprovalAnswer.pending("t"),
    ],
    ids=lambda answer: answer.answer.value,
)
def test_people_say_what_they_said_then(desk, path, answer):
    recorded, _ = desk.record(path, ("send", {"to": "Ada", "amount": 5}), approver=lambda _: answer)
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "send", to="Ada", amount=5)
    assert desk.outcome_of(outcome) == desk.outcome_of(recorded[0])
    assert outcome.status is recorded[0].status
    assert desk.ran == []


@pytest.mark.parametrize(
    "answer",
    [True, ApprovalAnswer.deny("Too much."), ApprovalAnswer.edit({"to": "Eve", "amount": 1})],
)
def test_a_call_that_was_resumed_comes_out_as_it_did(desk, path, answer):
    call = ToolCall("send", {"to": "Ada", "amount": 5}, id="c1")
    with desk.recording(path, approver=lambda _: ApprovalAnswer.pending("t")) as tools:
        waits = tools.dispatch(call)
        recorded = [waits, tools.resume(call, waits.approval_token, answer)]
    assert waits.status is Status.PENDING
    with desk.replaying(path) as (tools, replay):
        outcomes = [tools.dispatch(call) for _ in recorded]
        assert replay.unused == []
    assert [desk.outcome_of(each) for each in outcomes] == [*map(desk.outcome_of, recorded)]
    assert desk.ran == []


@tool(contained=True, requires_confirmation=True)
def jot(text: str, *, context: ToolContext) -> str:
    """Keep a note, once a person has seen what comes of it."""
    jotted.append(text)
    context.session[str].append(text)
    return f"{len(context.session[str].all())} in all"


jotted: list[str] = []


class Jotter:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="jotter", title="Jotter", tools=[jot])]


@contextmanager
def jotting(*plugins: Any, shown: Any = True, asks: bool = True, **options: Any) -> Iterator[Any]:
    jotted.clear()
    settings = Settings(approve_diff=shown)
    jotter = Jotter() if asks else Unasking()
    everything = {"plugins": [jotter, *plugins], "settings": settings, **options}
    with Host(discover=False, **everything) as host, host.executor() as tools:
        yield tools


class Unasking:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        freely = replace(jot, requires_confirmation=False)
        return [MarkdownSection(key="jotter", title="Jotter", tools=[freely])]


def edit_once(request: Any) -> Any:
    return request.params.text == "edited" or ApprovalAnswer.edit({"text": "edited"})


def edit_and(answer: Any) -> Any:
    return lambda request: answer if edit_once(request) is True else edit_once(request)


def deny(_: Any) -> Any:
    return ApprovalAnswer.deny("Too much.")


SHOWN = {
    "approved": lambda _: True,
    "edited": edit_once,
    "edited, then denied": edit_and(ApprovalAnswer.deny("Too much.")),
    "edited, then pending": edit_and(ApprovalAnswer.pending()),
    "pending": lambda _: ApprovalAnswer.pending(),
    "denied": deny,
    "unanswered": lambda _: ApprovalAnswer.unanswered("Nobody is awake."),
}


def jot_down(path: Any, approver: Any) -> list[Outcome]:
    """Record two calls about which a person is asked who is shown what they come to."""
    recorder = Recorder(RecordFile(path), SystemClock())
    with jotting(recorder, approver=approver) as tools:
        made = [tools.dispatch(ToolCall("jot", {"text": text}, id=text)) for text in "ab"]
    recorder.close()
    return made


@pytest.mark.parametrize("approver", SHOWN.values(), ids=SHOWN)
def test_people_who_were_shown_a_diff_say_what_they_said_then(desk, path, approver):
    recorded = jot_down(path, approver)
    replay = Replayer(Recording.load(path))
    with jotting(replay, approver=replay.approve) as tools:
        replayed = [tools.dispatch(ToolCall("jot", {"text": text}, id=text)) for text in "ab"]
    assert [*map(desk.outcome_of, replayed)] == [*map(desk.outcome_of, recorded)]
    assert [each.status for each in replayed] == [each.status for each in recorded]
    assert (jotted, replay.unused) == ([], [])


@pytest.mark.parametrize("approver", [lambda _: True, edit_once], ids=["approved", "edited"])
def test_what_was_approved_with_a_diff_replays_without_one(desk, path, approver):
    recorded = jot_down(path, approver)
    replay = Replayer(Recording.load(path))
    with jotting(replay, shown=False, approver=replay.approve) as tools:
        replayed = [tools.dispatch(ToolCall("jot", {"text": text}, id=text)) for text in "ab"]
    assert [*map(desk.outcome_of, replayed)] == [*map(desk.outcome_of, recorded)]


@pytest.mark.parametrize("answer", [True, ApprovalAnswer.edit({"text": "edited"})])
def test_a_call_that_was_resumed_with_its_diff_comes_out_as_it_did(desk, path, answer):
    call = ToolCall("jot", {"text": "a"}, id="c1")
    recorder = Recorder(RecordFile(path), SystemClock())
    with jotting(recorder, approver=lambda _: ApprovalAnswer.pending()) as tools:
        waits = tools.dispatch(call)
        recorded = [waits, tools.resume(call, waits.approval_token, answer)]
    recorder.close()
    replay = Replayer(Recording.load(path))
    with jotting(replay, approver=replay.approve) as tools:
        replayed = [tools.dispatch(call) for _ in recorded]
    assert [*map(desk.outcome_of, replayed)] == [*map(desk.outcome_of, recorded)]


@pytest.mark.parametrize(
    ("approver", "told"),
    [(edit_once, "A person changed the arguments of jot then"), (deny, "A person did not")],
    ids=["edited", "denied"],
)
def test_where_nobody_is_asked_any_more_nothing_stands_for_a_result(path, approver, told):
    jot_down(path, approver)
    replay = Replayer(Recording.load(path))
    with jotting(replay, asks=False, approver=replay.approve) as tools:
        outcome = tools.dispatch(ToolCall("jot", {"text": "a"}, id="a"))
        assert not outcome.success
        assert outcome.text.startswith(told)
        assert tools.session[str].all() == ()


def test_a_token_that_did_not_hold_approves_nothing(desk, path):
    call = ToolCall("send", {"to": "Ada", "amount": 5}, id="c1")
    with desk.recording(path, approver=lambda _: ApprovalAnswer.pending("t")) as tools:
        assert "this host did not make it" in tools.resume(call, "made up", True).text
    with desk.replaying(path) as (tools, _):
        outcome = tools.dispatch(call)
    assert outcome.status is Status.DENIED
    assert "The approval that came did not hold." in outcome.text
    assert desk.ran == []


def test_people_say_of_each_call_what_they_said_of_its_arguments(desk, path):
    def answered(request: Any) -> ApprovalAnswer:
        if request.params.amount > 5:
            return ApprovalAnswer.deny("Too much.")
        return ApprovalAnswer.approve()

    made = [("send", {"to": "Ada", "amount": amount}) for amount in (5, 7)]
    recorded, _ = desk.record(path, *made, approver=answered)
    with desk.replaying(path) as (tools, _):
        replayed = [tools.dispatch(ToolCall(*each)) for each in reversed(made)]
    assert [each.text for each in reversed(replayed)] == [each.text for each in recorded]


def test_nobody_approves_what_was_not_recorded(desk, path):
    desk.record(path, ("add", {"a": 1}), ("echo", {"text": "forbidden"}))
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "send", to="Ada", amount=5)
    assert "The record has no answer to this." in outcome.text


class Denying:
    def __init__(self) -> None:
        self.on = True

    @hookimpl
    def toolstile_check(self, tool: Any) -> Any:
        from toolstile_hookspecs import PolicyDecision

        return PolicyDecision.deny("Not now. Retry later.") if self.on else None


def test_what_was_refused_then_and_is_not_now_comes_out_as_it_did(desk, path):
    with Host(discover=False, plugins=[desk.Desk(), Denying()]) as host:
        recorder = Recorder(RecordFile(path), host.clock)
        host.register(recorder)
        with host.executor() as tools:
            denied = tools.dispatch(ToolCall("add", {"a": 1}, id="c1"))
        recorder.close()
    with desk.replaying(path) as (tools, _):
        replayed = tools.dispatch(ToolCall("add", {"a": 1}, id="c1"))
    assert desk.outcome_of(replayed) == desk.outcome_of(denied)


@pytest.mark.parametrize("plugins", [([Denying()], []), ([], [Denying()])])
def test_what_one_session_was_refused_another_of_the_same_ids_is_not(desk, path, plugins):
    wish = ("add", {"a": 1}, "c1")
    for each in plugins:
        desk.record(path, wish, plugins=each)
    with desk.replaying(path) as (tools, replay):
        for said in reversed(Recording.load(path).calls):
            replay.session = said.session
            assert tools.dispatch(ToolCall(*wish)).text == said.read


def test_of_two_same_calls_at_the_same_time_one_is_refused_again(desk, path, monkeypatch):
    with Host(discover=False, plugins=[desk.Desk(), Denying()]) as host:
        recorder = Recorder(RecordFile(path), host.clock)
        host.register(recorder)
        with host.executor() as tools:
            denied = tools.dispatch(ToolCall("add", {"a": 1}, id="c1"))
        recorder.close()
    both = threading.Barrier(2)

    def meeting(*told: Any) -> bool:
        # As many as are let in here at a time meet; one that is alone goes on by itself.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return is_of(*told)

    monkeypatch.setattr(replaying, "is_of", meeting)
    with desk.replaying(path) as (tools, _), ThreadPoolExecutor(2) as pool:
        call = ToolCall("add", {"a": 1}, id="c1")
        texts = {each.text for each in pool.map(tools.dispatch, [call, call])}
    assert denied.text in texts
    assert any("No call of add with these arguments is in the record" in each for each in texts)


def test_calls_of_one_id_come_out_in_the_recorded_order(desk, path):
    call = ToolCall("send", {"to": "Ada", "amount": 5}, id="call-1")
    recorded = []
    for answer in (True, ApprovalAnswer.deny("Too much."), True):
        with desk.recording(path, approver=lambda _, answer=answer: answer) as tools:
            recorded.append(tools.dispatch(call))
    with desk.replaying(path) as (tools, _):
        replayed = [tools.dispatch(call) for _ in recorded]
    assert [*map(desk.outcome_of, replayed)] == [*map(desk.outcome_of, recorded)]


def test_faults_of_one_id_come_out_in_the_recorded_order(desk, path):
    calls = [
        ToolCall("log_in", {"user": user, "password": password}, id="c1")
        for user, password in ((1, "***"), ("***", 2))
    ]
    with desk.recording(path) as tools:
        recorded = [tools.dispatch(each) for each in calls]
    masked = ToolCall("log_in", {"user": "***", "password": "***"}, id="c1")
    with desk.replaying(path) as (tools, _):
        replayed = [tools.dispatch(masked) for _ in recorded]
    assert [*map(desk.outcome_of, replayed)] == [*map(desk.outcome_of, recorded)]


def test_only_some_tools_are_answered_for_and_others_run(desk, path):
    desk.record(path, ("twice", {"text": "a"}), ("note", {"text": "a"}), ("add", {"a": 1}))
    with desk.replaying(path, only={"note"}) as (tools, replay):
        assert len(replay.unused) == 3
        outcome = desk.call(tools, "twice", text="a")
        assert outcome.text == "Noted 'a'.\nnote: a; Noted 'a'.\nnote: a"
        assert desk.call(tools, "note", text="a").success
        assert desk.call(tools, "add", a=40).text == "41"
        assert not desk.call(tools, "note", text="z").success
        assert tools.session[desk.Count].latest() == desk.Count(3)
    assert desk.ran == ["twice", "add"]


def test_calls_within_one_that_is_answered_are_not_answered_for(desk, path):
    desk.record(path, ("twice", {"text": "a"}), ("note", {"text": "a"}))
    with desk.replaying(path) as (tools, replay):
        assert len(replay.unused) == 2
        assert desk.call(tools, "twice", text="a").success
        assert len(tools.session[desk.Note].all()) == 2


def test_the_model_reads_what_it_read_then_though_nobody_would_put_it_so_now(desk, path):
    class Loud:
        @hookimpl
        def toolstile_render(self, result):
            return f"{result.value}!"

    desk.record(path, ("echo", {"text": "hello"}), plugins=[Loud()])
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "echo", text="hello")
    assert (outcome.text, outcome.result.value) == ("hello!", "hello")


def test_secrets_are_compared_masked(desk, path):
    desk.record(path, ("log_in", {"user": "ada", "password": "hunter2"}))
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "log_in", user="ada", password="another")
    assert outcome.text == "ada is in with ***"


@tool
def look_up(key: str) -> dict[str, SecretStr]:
    """Give what is kept under a key."""
    return {"kept": SecretStr(key)}


@tool
def greet(user: str, number: int, password: SecretStr) -> str:
    """Greet."""
    return f"hello {number}"


class Secretive:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="secretive", title="Secretive", tools=[look_up, greet])]


def secretly_replayed(desk: Any, path: Any, wish: tuple[str, Any], auth: Any, strict: bool) -> Any:
    """Record a call with credentials, and make it again with others."""
    with desk.recording(path, plugins=[Secretive()], auth=Secret("t0ken-4711")) as tools:
        tools.dispatch(ToolCall(*wish))
    replay = Replayer(Recording.load(path), strict=strict)
    with (
        Host(discover=False, plugins=[desk.Desk(), Secretive(), replay]) as host,
        host.executor(auth=auth) as tools,
    ):
        return tools.dispatch(ToolCall(*wish)), replay.unused


NAMED = ("echo", {"text": "with t0ken-4711"})
OWN = ("greet", {"user": "hunter2", "number": 1234, "password": "hunter2"})
ELSEWHERE = ("greet", {"user": "ada", "number": 1234, "password": "1234"})


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("wish", "auth"),
    [(NAMED, Secret("t0ken-4711")), (OWN, None), (ELSEWHERE, None)],
    ids=["credentials", "own", "number"],
)
def test_secrets_that_the_call_has_again_keep_it_from_nothing(desk, path, wish, auth, strict):
    outcome, unused = secretly_replayed(desk, path, wish, auth, strict)
    assert outcome.success
    assert unused == []


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("wish", [NAMED, ("look_up", {"key": "hunter2"})])
def test_a_call_whose_arguments_hold_a_secret_of_another_place_is_not_found(
    desk, path, wish, strict
):
    outcome, unused = secretly_replayed(desk, path, wish, None, strict)
    assert "cannot be answered" in outcome.text
    assert [each.params for each in unused] != [wish[1]]


def test_what_only_looks_like_a_mask_stands_for_nothing(desk, path):
    desk.record(path, ("echo", {"text": "with ***"}))
    with desk.replaying(path) as (tools, _):
        assert "is in the record" in desk.call(tools, "echo", text="with hunter2").text
        assert desk.call(tools, "echo", text="with ***").success


class Guarded:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        @tool(requires_confirmation=True)
        def enter(password: SecretStr) -> str:
            """Go in."""
            return f"in with {password.get_secret_value()}"

        return [MarkdownSection(key="door", title="Door", tools=[enter])]


def test_what_a_person_edited_is_not_replayed_with_a_mask_in_place_of_its_secret(desk, path):
    edit = ApprovalAnswer.edit({"password": "hunter2"})
    with desk.recording(path, plugins=[Guarded()], approver=lambda _: edit) as tools:
        desk.call(tools, "enter", password="another")
    assert b"hunter2" not in path.read_bytes()
    replay = Replayer(Recording.load(path))
    plugins = [Guarded(), replay]
    with (
        Host(discover=False, plugins=plugins, approver=replay.approve) as host,
        host.executor() as tools,
    ):
        outcome = desk.call(tools, "enter", password="another")
    assert outcome.status is Status.DENIED
    assert "hold secrets, which the record masks" in outcome.text


def test_a_value_that_does_not_fit_any_more_is_told(desk, path):
    desk.record(path, ("note", {"text": "a"}))
    [line] = [each for each in path.read_text().splitlines() if '"call"' in each]
    content = json.loads(line)
    for name in ("n", "prev", "hash"):
        del content[name]
    content["envelope"]["data"] = {"words": "a"}
    path.unlink()
    file = RecordFile(path)
    file.append(json.dumps(content))
    file.close()
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "note", text="a")
    assert "The recorded result of note does not fit it any more (" in outcome.text
    advice = outcome.event.attributes["toolstile.for_operator"]
    assert advice == f"It stands in {path}, line 1."
    assert ".)" not in outcome.text
    assert "record it again" in outcome.text


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_batch_is_answered_in_its_order(desk, path, driver, strict):
    def made(tools):
        calls = [ToolCall("add", {"a": n}) for n in range(10)]
        if driver == "sync":
            return tools.dispatch_all(calls)
        return asyncio.run(tools.adispatch_all(calls))

    with desk.recording(path) as tools:
        recorded = made(tools)
    with desk.replaying(path, strict=strict) as (tools, _):
        replayed = made(tools)
    assert list(map(desk.outcome_of, replayed)) == list(map(desk.outcome_of, recorded))
    assert desk.ran == []


def test_a_replay_can_be_recorded(desk, path, tmp_path):
    desk.record(path, *CALLS)
    again = tmp_path / "again.jsonl"
    with Host(discover=False, plugins=[desk.Desk(), Replayer(Recording.load(path))]) as host:
        recorder = Recorder(RecordFile(again), host.clock)
        host.register(recorder)
        with host.executor() as tools:
            envelopes = [tools.dispatch(ToolCall(*each)).envelope() for each in CALLS]
        recorder.close()
    assert [line["envelope"] for line in desk.lines_of(again)] == envelopes
    first = [each for each in Recording.load(path).calls if each.parent is None]
    second = [*Recording.load(again).calls]
    assert [each.read for each in second] == [each.read for each in first]
    assert [json.loads(each.changes or "[]") for each in second] == [
        json.loads(each.changes or "[]") for each in first
    ]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["changed", "torn", "empty", "other"])
def test_only_a_record_that_is_as_it_was_written_is_loaded(desk, path, damage):
    desk.record(path, ("add", {"a": 1}), ("add", {"a": 2}))
    content = path.read_bytes()
    if damage == "torn":
        lines = content.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2]) + lines[2][:-5])
        loaded = Recording.load(path)
        assert (len(loaded.calls), loaded.torn) == (1, True)
        return
    path.write_bytes(
        {"changed": content.replace(b'"a":2', b'"a":3'), "empty": b"", "other": b"{}\n"}[damage]
    )
    told = {
        "changed": "line 3: it differs from the written line",
        "empty": "is empty",
        "other": "is not a record: no line of it is part of one",
    }
    with pytest.raises(RecordError, match=told[damage]):
        Recording.load(path)


def test_what_did_not_fit_is_refused_with_the_same_faults_though_the_record_masks_it(desk, path):
    with desk.recording(path) as tools:
        wish = ToolCall("log_in", {"user": 7, "password": "hunter2"}, id="c1")
        recorded = tools.dispatch(wish)
    [numbered] = Recording.load(path).calls
    assert numbered.arguments == {"user": "***", "password": "***"}
    with desk.replaying(path) as (tools, _):
        replayed = tools.dispatch(ToolCall("log_in", numbered.arguments, id="c1"))
    assert desk.outcome_of(replayed) == desk.outcome_of(recorded)
    assert recorded.status is replayed.status is Status.INVALID


MASKED = '{"user": "***", "password": "***"}'


@pytest.mark.parametrize(
    ("name", "given", "again"),
    [
        ("log_in", MASKED, True),
        ("log_in", MASKED.encode(), True),
        ("add", MASKED, False),
        ("log_in", {"user": 8, "password": "swordfish"}, False),
        ("log_in", '{"user": ', False),
        ("log_in", "[" * 100_000, False),
    ],
)
def test_only_the_very_call_that_did_not_fit_is_refused_for_that(desk, path, name, given, again):
    [refused], _ = desk.record(path, ("log_in", {"user": 7}, "c1"))
    [recorded] = Recording.load(path).calls
    recorded.arguments.update(json.loads(MASKED))
    replay = Replayer(Recording(path, (recorded,)))
    with Host(discover=False, plugins=[desk.Desk(), replay]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall(name, given, "c1"))
    assert (outcome.status, outcome.text == refused.text) == (Status.INVALID, again)


def test_that_what_a_call_did_to_the_session_is_lost_is_told_as_it_is_replayed(desk, path, caplog):
    desk.record(path, ("add", {"a": 1}, "c1"))
    [recorded] = Recording.load(path).calls
    without = recorded.model_copy(update={"changes_lost": "No JSON."})
    replay = Replayer(Recording(path, (without,)))
    with Host(discover=False, plugins=[desk.Desk(), replay]) as host, host.executor() as tools:
        assert desk.call(tools, "add", a=1).success
    assert f"{path}, line 2: its changes of the session are lost: No JSON." in caplog.text


def test_a_value_that_was_kept_from_the_model_is_kept_from_it_again(desk, path):
    desk.record(path, ("fetch", {}))
    with desk.replaying(path) as (tools, _):
        result = desk.call(tools, "fetch").result
    assert (result.exclude_value_from_context, result.value) == (True, None)


def test_each_call_is_held_against_those_of_its_own_id_alone(desk, path, monkeypatch):
    wishes = [
        *[("add", {"a": number}, f"a{number}") for number in range(20)],
        *[("add", {"b": number}, f"b{number}") for number in range(20)],
        *[("echo", {"text": "forbidden"}, f"c{number}") for number in range(20)],
        *[("send", {"to": "Ada", "amount": number}, f"d{number}") for number in range(20)],
    ]
    desk.record(path, *wishes, approver=lambda _: ApprovalAnswer.approve())
    looked_at: list[Any] = []
    of_session = Replayer._of_session

    def counted(replay: Replayer, calls: Any) -> Any:
        calls = list(calls)
        looked_at.extend(calls)
        return of_session(replay, calls)

    monkeypatch.setattr(Replayer, "_of_session", counted)
    with desk.replaying(path) as (tools, _):
        for wish in wishes:
            tools.dispatch(ToolCall(*wish))
    assert len(looked_at) < 3 * len(wishes)


def test_where_nobody_was_there_to_ask_the_call_comes_to_the_same(desk, path):
    with desk.recording(path) as tools:
        wish = ToolCall("send", {"to": "Ada", "amount": 5}, id="c1")
        recorded = tools.dispatch(wish)
    with desk.replaying(path) as (tools, _):
        assert desk.outcome_of(tools.dispatch(wish)) == desk.outcome_of(recorded)
    assert desk.ran == []


def test_where_nobody_answered_the_reason_is_the_same(desk, path):
    answer = ApprovalAnswer.unanswered("The desk is closed.")
    recorded, _ = desk.record(path, ("send", {"to": "Ada", "amount": 5}), approver=lambda _: answer)
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "send", to="Ada", amount=5)
    assert desk.outcome_of(outcome) == desk.outcome_of(recorded[0])
    assert "The desk is closed." in outcome.text


@tool
def open_ticket(
    title: str, number: Annotated[str, Field(default_factory=lambda: uuid4().hex)]
) -> str:
    """Open a ticket, under a number that is another one whenever it is left out."""
    return f"{title} is {number}"


class Tickets:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="tickets", title="Tickets", tools=[open_ticket])]


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_made_up_anew_keeps_no_call_from_being_found(desk, path, strict):
    wishes: list[dict[str, Any]] = [{"title": "a"}, {"title": "a"}, {"title": "a", "number": "7"}]
    with desk.recording(path, plugins=[Tickets()]) as tools:
        recorded = [desk.call(tools, "open_ticket", **each).text for each in wishes]
    for line, text in zip(desk.lines_of(path), recorded, strict=True):
        assert text == f"a is {line['params']['number']}"
    replay = Replayer(Recording.load(path), strict=strict)
    with Host(discover=False, plugins=[Tickets(), replay]) as host, host.executor() as tools:
        assert [desk.call(tools, "open_ticket", **each).text for each in wishes] == recorded
        assert not desk.call(tools, "open_ticket", title="a").success


def rewritten(path: Any, **said: Any) -> None:
    [line] = [each for each in path.read_text().splitlines() if '"call"' in each]
    content = {name: each for name, each in json.loads(line).items() if name not in SEALED}
    path.unlink()
    file = RecordFile(path)
    file.append(json.dumps({**content, **said}))
    file.close()


SEALED = ("n", "prev", "hash")


@pytest.mark.parametrize("envelope", [{}, {"tool": None, "data": 3}])
def test_a_line_whose_envelope_says_of_no_tool_is_told(desk, path, envelope):
    desk.record(path, ("add", {"a": 1}))
    rewritten(path, envelope=envelope)
    with pytest.raises(RecordError, match=r"line 1: .*call\.envelope: names no tool"):
        Recording.load(path)


def test_a_line_that_lacks_its_value_is_told(desk, path):
    desk.record(path, ("add", {"a": 1}))
    rewritten(path, envelope={"tool": "add"}, value="wire")
    with desk.replaying(path) as (tools, _):
        outcome = desk.call(tools, "add", a=1)
        assert "The recorded result of add does not fit it any more" in outcome.text


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ("1.2.3", "1.2.9", False),
        ("1.2.3", "1.3.0", True),
        ("1.2.3", "2.0.0", True),
        (None, "1.0.0", True),
        (None, None, False),
    ],
)
def test_a_replay_tells_once_of_a_tool_of_another_version(path, caplog, then, now, told):
    def lookup(version: str | None) -> Any:
        @tool(name="look", version=version)
        def look() -> str:
            """Look."""
            return "seen"

        return look

    recorder = Recorder(RecordFile(path), SystemClock())
    with Host(discover=False, tools=[lookup(then)], plugins=[recorder]) as host:
        with host.executor() as tools:
            assert all(tools.dispatch(ToolCall("look")).success for _ in range(2))
        recorder.close()
    replayer = Replayer(Recording.load(path))
    with (
        Host(discover=False, tools=[lookup(now)], plugins=[replayer]) as host,
        host.executor() as tools,
    ):
        assert [tools.dispatch(ToolCall("look")).text for _ in range(2)] == ["seen", "seen"]
    notices = [text for text in caplog.messages if "recorded in version" in text]
    assert len(notices) == told
    if told:
        assert (
            f"look was recorded in version {then or '(none)'}, and its version is {now}"
            in notices[0]
        )
