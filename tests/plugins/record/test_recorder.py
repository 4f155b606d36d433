"""Every call has its line, whatever became of it, and no secret is in any."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    Cancellation,
    MarkdownSection,
    PolicyDecision,
    PromptEvaluationError,
    Secret,
    ToolCall,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)
from toolstile_plugins.record import Recorder, RecordError, RecordFile, Recording, verify
from toolstile_plugins.record.reader import Lost


def test_a_success_is_recorded_with_params_value_and_envelope(desk, path):
    with desk.recording(path) as tools:
        outcome = tools.dispatch(ToolCall("add", '{"a": 1}', id="c1"))
    [line] = desk.lines_of(path)
    assert line["id"] == "c1"
    assert line["session"] == tools.session.id
    assert (line["arguments"], line["params"]) == ({"a": 1}, {"a": 1, "b": 1})
    assert (line["status"], line["stage"]) == ("succeeded", "telemetry")
    assert line["envelope"] == outcome.envelope() == {**line["envelope"], "data": 2}
    assert datetime.fromisoformat(line["at"]) == outcome.event.timestamp
    assert line["seconds"] == outcome.event.duration
    assert line["handler_seconds"] == outcome.event.handler_duration


def test_what_the_model_read_is_recorded_where_the_envelope_says_it_otherwise(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "note", text="a")
        desk.call(tools, "echo", text="b")
    noted, echoed = Recording.load(path).calls
    assert noted.read == "Noted 'a'.\nnote: a"
    assert noted.message == "Noted 'a'."
    assert noted.envelope["data"] == {"text": "a"}
    assert (echoed.read, echoed.text) == ("b", None)


@pytest.mark.parametrize(
    ("wish", "status", "stage"),
    [
        (("ad", {"a": 1}), "unknown_tool", "lookup"),
        (("add", {"a": "1"}), "invalid", "parse"),
        (("add", '{"a": '), "invalid", "parse"),
        (("echo", {"text": "forbidden"}), "denied", "check"),
        (("send", {"to": "Ada", "amount": 5}), "denied", "approve"),
        (("fail", {"how": "broken"}), "error", "execute"),
    ],
)
def test_a_failure_is_recorded_with_where_it_ended_and_why(desk, path, wish, status, stage):
    with desk.recording(path) as tools:
        outcome = tools.dispatch(ToolCall(*wish))
    [line] = desk.lines_of(path)
    assert (line["status"], line["stage"]) == (status, stage)
    assert line["envelope"]["error"] == outcome.text
    assert ("params" in line) == (stage not in {"lookup", "parse"})
    assert line["error"]["text"] in {outcome.text.replace(" for add:", ":"), "broken"}


@pytest.mark.parametrize(
    ("how", "kind", "status"),
    [
        ("late", PromptEvaluationError, "deadline"),
        ("over", PromptEvaluationError, "raised"),
        ("open", VisibilityExpansionRequired, "raised"),
        ("stop", KeyboardInterrupt, "raised"),
    ],
)
def test_what_leaves_dispatch_is_recorded_too(desk, path, how, kind, status):
    with desk.recording(path) as tools, pytest.raises(kind):
        desk.call(tools, "fail", how=how)
    [line] = desk.lines_of(path)
    assert line["status"] == status
    assert line["error"]["type"] in {kind.__name__, "DeadlineExceededError"}


def test_a_cancelled_call_is_recorded(desk, path):
    cancellation = Cancellation()
    cancellation.cancel()
    with desk.recording(path) as tools:
        tools.dispatch(ToolCall("add", {"a": 1}, cancellation=cancellation))
    assert desk.lines_of(path)[0]["status"] == "cancelled"


def test_decisions_and_approvals_are_recorded_with_their_reasons(desk, path):
    answers = [ApprovalAnswer.approve(), ApprovalAnswer.deny("Too much."), {"to": "Eve"}]
    answers[2] = ApprovalAnswer.edit({"to": "Eve", "amount": 1})
    with desk.recording(path, approver=lambda request: answers.pop(0)) as tools:
        for _ in range(3):
            desk.call(tools, "send", to="Ada", amount=5)
        desk.call(tools, "echo", text="forbidden")
    approved, denied, edited, refused = desk.lines_of(path)
    assert approved["approval"] == {"answer": "approved", "reason": None}
    assert denied["approval"] == {"answer": "denied", "reason": "Too much."}
    assert edited["approval"]["answer"] == "edited"
    assert edited["arguments"] == {"to": "Ada", "amount": 5}
    assert edited["params"] == {"to": "Eve", "amount": 1}
    [decision] = refused["decisions"]
    assert decision["verdict"] == "deny"
    assert decision["reason"] == "Nobody may say that. Say something else."
    assert decision["policy"]


def test_the_token_of_a_pending_approval_is_not_recorded(desk, path):
    with desk.recording(path, approver=lambda request: ApprovalAnswer.pending()) as tools:
        token = desk.call(tools, "send", to="Ada", amount=5).approval_token
    assert desk.lines_of(path)[0]["status"] == "pending"
    assert token.encode() not in path.read_bytes()


class SupportsNotes:
    @hookimpl
    def toolstile_execute(self, context: Any) -> None:
        context.set_attribute("ledger.state", "claimed")
        context.set_attribute("other.thing", object())


def test_facts_of_other_plugins_are_recorded(desk, path):
    with Host(discover=False, plugins=[SupportsNotes()]) as host:
        host.register(desk.Desk())
        recorder = Recorder(RecordFile(path), host.clock)
        host.register(recorder)
        with host.executor() as tools:
            desk.call(tools, "add", a=1)
        recorder.close()
    assert desk.lines_of(path)[0]["attributes"] == {
        "ledger.state": "claimed",
        "other.thing": "a object",
    }


def test_nested_calls_have_lines_of_their_own_before_their_callers(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "twice", text="a")
    first, second, outer = desk.lines_of(path)
    assert [first["parent"], second["parent"]] == [outer["id"]] * 2
    assert first["pending_parent"] is True
    assert "parent" not in outer
    assert [each["do"] for each in json.loads(outer["changes"])] == ["seed", "dispatch"] * 2


def test_what_a_call_did_to_the_session_is_recorded(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "note", text="a")
        desk.call(tools, "notes")
    noted, listed = desk.lines_of(path)
    count, event = json.loads(noted["changes"])
    assert (event["do"], event["items"]) == ("dispatch", [{"text": "a"}])
    assert (count["do"], count["items"]) == ("seed", [{"number": 1}])
    assert "changes" not in listed


def test_the_calls_of_a_batch_are_recorded_in_their_order(desk, path):
    with desk.recording(path) as tools:
        tools.dispatch_all([ToolCall("add", {"a": n}, id=f"c{n}") for n in range(20)])
        asyncio.run(tools.adispatch_all([ToolCall("add", {"a": n}, id=f"d{n}") for n in range(20)]))
    ids = [line["id"] for line in desk.lines_of(path)]
    assert sorted(ids[:20]) == sorted(f"c{n}" for n in range(20))
    assert sorted(ids[20:]) == sorted(f"d{n}" for n in range(20))


def test_an_excluded_value_is_not_recorded(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "fetch")
    [line] = desk.lines_of(path)
    assert (line["value"], line["envelope"]["data"]) == ("kept", "Fetched.")
    assert b"not for the model" not in path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["\ud800 alone", "two\nlines\r\u2028\x00\x1b[31m", "日本語 🦆", "x" * 3_000_000]
)
def test_any_text_is_recorded_as_it_is(desk, path, text):
    with desk.recording(path) as tools:
        outcome = tools.dispatch(ToolCall("echo", {"text": text}))
    [numbered] = Recording.load(path).calls
    assert numbered.read == outcome.text
    assert path.read_bytes().isascii() or not text.isascii()


def test_a_value_that_is_nested_deeply_keeps_no_other_call_from_being_read(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "echo", text="before")
        outcome = desk.call(tools, "nest", depth=220)
    [before, nested] = Recording.load(path).calls
    assert before.read == "before"
    assert nested.envelope == outcome.envelope()
    assert verify(path).faults == ()


@pytest.mark.parametrize("name", ["ada", "eve"])
def test_no_secret_of_a_value_is_in_the_record(desk, path, name):
    with desk.recording(path) as tools:
        desk.call(tools, "badge", name=name, loudly=True)
    assert b"very-secret" not in path.read_bytes()
    [line] = desk.lines_of(path)
    if name == "ada":
        assert line["message"] == "The key is ***."
        assert line["envelope"]["data"] == {"name": "ada", "key": "***"}
    else:
        assert line["envelope"]["error"] == "Internal error in badge: no *** for eve"


def test_no_secret_is_in_the_record(desk, path):
    secret = "hunter2-very-secret"
    with desk.recording(path, auth=Secret("b3arer-very-secret")) as tools:
        desk.call(tools, "log_in", user="ada", password=secret)
        desk.call(tools, "log_in", user="eve", password=secret)
        desk.call(tools, "log_in", user="ada", passphrase=secret)
        desk.call(tools, "log_in", user=7, password=secret)
        desk.call(tools, "log_inn", user="ada", password=secret)
        tools.dispatch(ToolCall("log_in", f'{{"password": "{secret}"'))
        desk.call(tools, "echo", text="with b3arer-very-secret")
    content = path.read_bytes()
    assert b"very-secret" not in content
    first, *_, unknown, broken, told = desk.lines_of(path)
    assert first["params"] == first["arguments"] == {"user": "ada", "password": "***"}
    assert first["envelope"]["data"] == "ada is in with ***"
    assert unknown["arguments"] == {"user": "***", "password": "***"}
    assert broken["arguments"] == "***"
    assert told["params"] == {"text": "with ***"}


def test_a_secret_is_masked_where_it_is_given_though_its_text_is_in_all_others(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "log_in", user="ada", password="a")
    [line] = desk.lines_of(path)
    assert line["params"] == line["arguments"] == {"user": "ada", "password": "***"}


def test_a_call_by_the_name_that_the_tool_has_at_home_says_so(desk, path):
    class Home:
        @hookimpl
        def toolstile_sections(self):
            @tool(wire_name="lookUp")
            def look_up(word: str) -> str:
                """Look a word up."""
                return word

            return [MarkdownSection(key="home", title="Home", tools=[look_up])]

    with desk.recording(path, plugins=[Home()]) as tools:
        assert desk.call(tools, "lookUp", word="a").success
        assert desk.call(tools, "look_up", word="b").success
    by_its_own, by_ours = Recording.load(path).calls
    assert (by_its_own.tool, by_its_own.name) == ("look_up", "lookUp")
    assert (by_ours.tool, by_ours.name) == ("look_up", None)


def test_no_secret_is_in_what_a_call_did_to_the_session(desk, path):
    with desk.recording(path, auth=Secret("b3arer-very-secret")) as tools:
        desk.call(tools, "note", text="with b3arer-very-secret")
    [line] = desk.lines_of(path)
    assert json.loads(line["changes"])[1]["items"] == [{"text": "with ***"}]


def test_arguments_of_another_form_are_masked_where_the_tool_has_secrets(desk, path):
    class Form:
        @hookimpl
        def toolstile_parse(self, tool, call):
            return tool.params_codec.decode(json.dumps(dict(parse_qsl(call.arguments))).encode())

    with desk.recording(path, plugins=[Form()]) as tools:
        tools.dispatch(ToolCall("log_in", "user=ada&password=hunter2-very-secret"))
    [line] = desk.lines_of(path)
    assert line["status"] == "succeeded"
    assert line["arguments"] == "***"


def test_arguments_on_many_lines_have_one_line(desk, path):
    with desk.recording(path) as tools:
        tools.dispatch(ToolCall("add", '{\n  "a": 1\n}'))
    assert verify(path).faults == ()
    [line] = desk.lines_of(path)
    assert line["arguments"] == {"a": 1}


def test_a_record_says_when_runs_began_and_ended(desk, path):
    for _ in range(2):
        with desk.recording(path) as tools:
            desk.call(tools, "add", a=1)
    kinds = [json.loads(line)["kind"] for line in path.read_bytes().splitlines()]
    assert kinds == ["begin", "call", "end"] * 2
    began = datetime.fromisoformat(json.loads(path.read_bytes().splitlines()[0])["at"])
    assert began.tzinfo is not None
    assert began <= datetime.now(UTC)
    checked = verify(path)
    assert (checked.lines, checked.calls, checked.ended, checked.faults) == (6, 2, True, ())


def test_what_was_cut_off_is_told_in_the_next_run(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "add", a=1)
    path.write_bytes(path.read_bytes()[:-10])
    with desk.recording(path) as tools:
        desk.call(tools, "add", a=2)
    begins = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert "torn" not in begins[0]
    assert begins[2]["kind"] == "begin"
    assert begins[2]["torn"] > 0
    assert verify(path).faults == ()


class Failing:
    """A record file whose disk is full for a while."""

    torn = 0

    def __init__(self, file: RecordFile) -> None:
        self.file = file
        self.full = False
        self.refusal: Exception = OSError(28, "No space left on device")

    def append(self, content: str) -> None:
        if self.full:
            raise self.refusal
        self.file.append(content)

    def close(self) -> None:
        self.file.close()


def test_calls_that_cannot_be_recorded_run_and_are_counted(desk, path, caplog):

    with Host(discover=False, plugins=[desk.Desk()]) as host:
        file: Any = Failing(RecordFile(path))
        recorder = Recorder(file, host.clock)
        host.register(recorder)
        with host.executor() as tools:
            desk.call(tools, "add", a=1)
            file.full = True
            assert desk.call(tools, "add", a=2).text == "3"
            assert desk.call(tools, "add", a=3).text == "4"
            file.full = False
            desk.call(tools, "add", a=4)
            desk.call(tools, "add", a=5)
            file.full = True
            desk.call(tools, "add", a=6)
            file.full = False
        assert "not complete" not in caplog.text
        recorder.close()
    assert (
        "The record is not complete: 1 call at its end could not be written: No space left on "
        "device. See that it can be written before the next run."
    ) in caplog.text
    assert [each.lost for each in Recording.load(path).calls] == [0, 2, 0]
    checked = verify(path)
    assert (checked.faults, checked.ended) == ((), True)
    assert checked.lost == Recording.load(path).lost == (Lost(line=3, calls=2), Lost(5, 1))


def test_a_run_none_of_whose_calls_could_be_recorded_says_so_at_its_end(desk, path):
    with Host(discover=False, plugins=[desk.Desk()]) as host:
        file: Any = Failing(RecordFile(path))
        recorder = Recorder(file, host.clock)
        host.register(recorder)
        file.full = True
        with host.executor() as tools:
            desk.call(tools, "add", a=1)
        file.full = False
        recorder.close()
    assert verify(path).lost == (Lost(line=2, calls=1),)


@pytest.mark.parametrize("stop", [None, KeyboardInterrupt])
def test_what_is_lost_is_told_by_one_line_alone(desk, path, monkeypatch, stop):
    with Host(discover=False, plugins=[desk.Desk()]) as host:
        file: Any = Failing(RecordFile(path))
        recorder = Recorder(file, host.clock)
        host.register(recorder)

        def meanwhile(content: str) -> None:
            monkeypatch.undo()
            if stop is not None:
                raise stop
            call(2)
            file.append(content)

        def call(number: int) -> None:
            with host.executor() as tools:
                desk.call(tools, "add", a=number)

        call(0)
        file.full = True
        call(1)
        file.full = False
        monkeypatch.setattr(file, "append", meanwhile)
        with pytest.raises(KeyboardInterrupt) if stop else nullcontext():
            call(1)
        call(3)
        recorder.close()
    assert [each.calls for each in verify(path).lost] == [1]


def test_a_run_without_a_call_leaves_no_record(desk, path):
    with desk.recording(path):
        assert path.exists()
    assert not path.exists()


def test_a_run_whose_first_calls_come_at_once_begins_once(desk, path, monkeypatch):
    gate = threading.Barrier(4, timeout=10)
    begin = Recorder._begin

    def begin_together(recorder):
        gate.wait()
        begin(recorder)

    monkeypatch.setattr(Recorder, "_begin", begin_together)
    with Host(discover=False, plugins=[desk.Desk()]) as host:

        def run(number: int) -> None:
            with host.executor() as tools:
                desk.call(tools, "add", a=number)

        recorder = Recorder(RecordFile(path), host.clock)
        host.register(recorder)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(run, range(4)))
        recorder.close()
    kinds = [json.loads(line)["kind"] for line in path.read_bytes().splitlines()]
    assert kinds == ["begin", *["call"] * 4, "end"]


def test_an_end_that_cannot_be_written_is_told_and_ends_all_the_same(path, caplog):
    with Host(discover=False) as host:
        file: Any = Failing(RecordFile(path))
        recorder = Recorder(file, host.clock)
        recorder._begin()
        file.full, file.refusal = True, RecordError("It is another's.")
        recorder.close()
    assert "The end of the record could not be written: It is another's." in caplog.text


class Revealing:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="r", title="R", tools=[reveal])]


@tool
def reveal(text: str) -> None:
    """Ask for a section."""
    raise VisibilityExpansionRequired(("manual",), f"to read {text}")


def test_the_caller_s_secrets_are_in_nothing_that_people_handlers_and_faults_say(desk, path):
    def approver(request):
        return ApprovalAnswer.deny(f"Nothing for {request.params.to}.")

    told = {"auth": Secret("hunter2"), "plugins": [Revealing()], "approver": approver}
    with desk.recording(path, **told) as tools:
        desk.call(tools, "send", to="hunter2", amount=1)
        with pytest.raises(VisibilityExpansionRequired):
            desk.call(tools, "reveal", text="hunter2")
        desk.call(tools, "echo", text="a", more="hunter2")
        tools.dispatch(ToolCall("echo", '{"text": "hunter2"'))
    assert b"hunter2" not in path.read_bytes()
    denied, opened, *faulty = desk.lines_of(path)
    assert denied["approval"] == {"answer": "denied", "reason": "Nothing for ***."}
    assert opened["error"]["text"] == "to read ***"
    assert [each["arguments"] for each in faulty] == [
        '{"text":"a","more":"***"}',
        '{"text": "***"',
    ]


class TellingAll:
    @hookimpl
    def toolstile_check(self, params: Any, context: Any) -> PolicyDecision | None:
        context.set_attribute("telling.all", f"asked for {params.text}")
        return PolicyDecision.deny(f"Nobody says {params.text}. Say something else.")


def test_the_caller_s_secrets_are_in_no_argument_reason_or_fact(desk, path):
    given = '{"text": "hunter2"}'
    with desk.recording(path, auth=Secret("hunter2"), plugins=[TellingAll()]) as tools:
        tools.dispatch(ToolCall("echo", given))
    (line,) = desk.lines_of(path)
    assert "hunter2" not in json.dumps(line)
    assert line["arguments"] == {"text": "***"}
    assert line["attributes"]["telling.all"] == "asked for ***"


def test_the_record_of_a_stopped_call_says_who_stopped_it_and_why(path, desk):
    with desk.recording(path) as tools:
        tools._host.stop("Wrong prices.", by="ann")
        desk.call(tools, "add", a=1, b=2)
    (line,) = desk.lines_of(path)
    assert line["status"] == "denied"
    assert line["attributes"]["toolstile.for_operator"].startswith("Stopped: all calls, by ann at ")
    assert "Wrong prices." in line["envelope"]["error"]
