"""Servers that break, lie and flood cost their own tools a clear failure, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from toolstile_hookspecs import ApprovalAnswer, Status, ToolCall
from toolstile_hookspecs.diagnostics import is_notice

from .conftest import LIMIT

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"
pytestmark = [pytest.mark.slow, pytest.mark.long_if(driver="sync")]


@pytest.fixture
def beside(yard):
    """Look whether a server that behaves still answers."""

    def look() -> None:
        assert yard.call("good_say", text="x").text == "said x"

    return look


def open_beside(yard, mode, **more):
    folder = yard.folder / "good"
    folder.mkdir()
    good = yard.raw("plain")
    good["args"] = [*good["args"][:2], str(folder)]
    yard.open({"bad": yard.raw(mode, **more), "good": good})


@pytest.mark.parametrize(
    ("mode", "more", "why"),
    [
        ("dies", {}, "it has ended"),
        ("oversized", {"max_message": 1_000_000}, "it sent a message of more than 1 MB"),
        ("nested", {}, "it sent a line that is not a message of the protocol"),
        ("malformed", {}, "it sent a line that is not a message of the protocol"),
        ("floods", {}, "it floods its client with unrequested messages"),
        ("no_result", {}, "not a result of the protocol"),
    ],
)
def test_no_usable_answer_fails_the_call_and_the_next_one_works(yard, beside, mode, more, why):
    open_beside(yard, mode, **more)
    broken = yard.call("bad_say", text="now")
    assert broken.status is Status.FAILED
    assert broken.text.startswith("The MCP server bad gave no answer to say that can be used: ")
    assert why in broken.text
    assert "may have had its effect, or not: find out before you retry" in broken.text
    beside()
    assert yard.call("bad_say", text="again").text == "said again"


def test_a_server_that_never_answers_is_given_up_and_told(yard, beside):
    open_beside(yard, "never", timeout=1)
    given_up = yard.call("bad_say", text="now")
    assert given_up.status is Status.TIMED_OUT
    assert "may have had effects outside" in given_up.text
    beside()
    assert yard.call("bad_say", text="again").text == "said again"
    assert len(yard.noted("cancelled")) == 1


def test_a_server_that_never_gets_ready_is_given_up(yard):
    yard.open({"bad": yard.raw("silent", connect_timeout=2)})
    refused = yard.call("bad_say", text="x")
    assert not refused.success
    assert "bad_say cannot be called now: the MCP server bad cannot be reached" in refused.text
    assert "not ready within 2 s" in refused.text
    assert yard.names() == []


def test_a_missing_program_costs_only_its_own_tools(yard):
    yard.open({"gone": {"command": "no-such-program-here"}, "good": yard.raw("plain")})
    missing = yard.call("gone_say", text="x")
    assert "the program no-such-program-here does not exist" in missing.text
    assert yard.call("good_say", text="x").success


def test_of_too_many_tools_the_first_ones_are_offered_and_that_is_told(yard, caplog):
    yard.open({"many": yard.raw("crowd", max_tools=20)})
    assert sorted(yard.names()) == sorted(f"many_say{number}" for number in range(20))
    assert yard.call("many_say19", text="x").text == "said x"
    assert not yard.call("many_say20", text="x").success
    told = "The MCP server many has more than 20 tools, and the first 20 are offered; raise"
    assert [each for each in caplog.messages if each.startswith(told)] == [f"{told} max_tools."]


def test_what_is_said_beside_messages_does_no_harm(yard):
    yard.open({"bad": yard.raw("chatters")})
    assert yard.call("bad_say", text="now").text == "said now"


def test_half_of_a_character_in_a_message_does_no_harm(yard):
    yard.open({"bad": yard.raw("halves")})
    assert yard.call("bad_say", text="now").text == "\U0001f600 cut \ufffd"


def test_progress_that_does_not_fit_does_no_harm(yard):
    yard.open({"bad": yard.raw("misreports")})
    assert yard.call("bad_say", text="now").text == "said now"


def test_a_byte_order_mark_before_a_message_does_no_harm(yard):
    yard.open({"bad": yard.raw("marked", timeout=20)})
    assert yard.call("bad_say", text="now").text == "said now"


def test_errors_of_the_protocol_are_told_without_escapes(yard):
    yard.open({"bad": yard.raw("refuses")})
    refused = yard.call("bad_say", text="now")
    assert refused.status is Status.FAILED
    assert "The MCP server bad refused say: no way (code -32602)" in refused.text


SIGN_IN = "https://desk.example/sign-in?state=a"
ADVISED = [
    ({"code": -32602}, "Check the arguments, then retry once."),
    ({"code": -32601}, "It does not offer this here. Do without the tool."),
    ({"code": -32600}, "It does not take this call from here. Do without the tool."),
    ({"code": -32603}, "Retry once; if it fails again, do without the tool."),
    ({"code": -32002}, "Name another, then retry once."),
    ({"code": 429}, "Retry later."),
    ({"code": 429, "data": {"retryAfter": 30}}, "Retry after 30 s."),
    ({"code": -32010, "data": {"Retry-After": "1.5"}}, "Retry after 1.5 s."),
    ({"code": -32011, "data": {"retry_after_seconds": "noon"}}, "Retry after noon."),
    (
        {"code": -32012, "data": {"url": SIGN_IN}},
        "Change the value it names, then retry once, or do",
    ),
    (
        {"code": -32042, "data": {"elicitations": [{"mode": "url", "url": SIGN_IN}]}},
        f"Tell them, and retry then. It is {SIGN_IN}",
    ),
    ({"code": -32042}, "The user has to open an address first. Tell them, and retry then."),
    ({"code": -32603, "data": ["\u202e", {"a": "x" * 9999}]}, "The fault is its own."),
]


def test_each_code_of_an_error_has_advice_of_its_own(yard, caplog):
    yard.open({"bad": yard.raw("refuses_as", env={"DESK": "hunter2"})})
    for error, advice in ADVISED:
        caplog.clear()
        refused = yard.call("bad_say", text=json.dumps({"message": "no", **error}))
        code = error["code"]
        assert f"The MCP server bad refused say: no (code {code}). " in refused.text
        assert advice in refused.text
        assert ("Check the arguments" in refused.text) is (code == -32602)
        logged = [each.getMessage() for each in caplog.records if is_notice(each)]
        assert len(logged) == ("data" in error), logged
        assert SIGN_IN not in json.dumps(error) or SIGN_IN in logged[0]
    yard.call("bad_say", text=json.dumps({"code": 1, "message": "no", "data": {"a": "hunter2"}}))
    assert "hunter2" not in caplog.text


def test_a_tool_that_runs_as_a_task_only_is_left_out_and_checked(yard):
    yard.open({"bad": yard.raw("tasks")})
    assert yard.names() == ["bad_say"]
    (upstream,) = yard.host.state("mcp").upstreams
    assert upstream.faults == {"bake": "it runs as a task only, which this gateway does not do"}


def test_an_error_that_programs_give_for_anything_ends_no_other_call(yard):
    yard.open({"bad": yard.raw("refuses_beside")})
    first = yard.later(ToolCall("bad_say", {"text": "now"}))
    yard.until(lambda: yard.noted("calls"), "the first call arrives")
    refused = yard.call("bad_say", text="now")
    assert "The MCP server bad refused say: try another text (code -32000)" in refused.text
    assert first().text == "said late"


def test_a_failure_of_the_tool_is_told_as_it_is(yard):
    yard.open({"bad": yard.raw("fails")})
    failed = yard.call("bad_say", text="now")
    assert (failed.status, failed.text) == (Status.FAILED, "said now")


def test_large_results_are_cut_visibly(yard):
    yard.open({"bad": yard.raw("long", max_binary=1000)}, max_text=1000)
    cut = yard.call("bad_say", text="now")
    assert cut.success
    assert cut.text.startswith("yyy")
    assert "[cut here: of 5,000 characters, " in cut.text
    assert "[image of 30 kB left out, since a result may have 1 kB]" in cut.text
    assert len(cut.text) <= 1000
    assert cut.result.value.render() == cut.text


def test_a_structured_result_that_does_not_fit_is_lost_and_its_texts_are_not(yard):
    yard.open({"bad": yard.raw("structured")})
    assert yard.call("bad_say", text="fine").result.value.structured == {"ok": True}
    wrong = yard.call("bad_say", text="wrong")
    assert wrong.success
    assert wrong.result.value.structured is None
    assert wrong.text == "said wrong\n[structured result left out: ok: required, but missing]"


def test_no_structured_result_takes_long_to_check(yard):
    yard.open({"bad": yard.raw("structured")})
    assert yard.call("bad_say", text="slow").success


def test_nothing_unseen_gets_into_names_and_descriptions(yard):
    yard.open({"bad": yard.raw("unseen")})
    (tool,) = [each for each in yard.host.catalog if each.origin == "bad"]
    assert (tool.name, tool.description) == ("bad_say", "Say it. Now.")
    faults = yard.host.state("mcp").upstreams[0].faults
    assert set(faults.values()) == {"its name holds characters that cannot be seen"}


def test_of_tools_with_one_name_the_first_is_offered(yard):
    yard.open({"bad": yard.raw("twins")})
    assert yard.names() == ["bad_say"]
    assert yard.host.catalog.get("bad_say").wire_name == "Say"
    faults = yard.host.state("mcp").upstreams[0].faults
    assert set(faults) == {"say!", "say"}


def test_a_bad_schema_costs_only_its_own_tool(yard):
    yard.open({"bad": yard.raw("badly_schemed")})
    assert "bad_say" in yard.names()
    assert "bad_wrong" not in yard.names()
    assert "bad_away" not in yard.names()
    assert yard.call("bad_say", text="x").success


def test_no_schema_takes_long_to_check(yard):
    yard.open({"bad": yard.raw("slow_to_check")})
    assert yard.names() == ["bad_say"]
    (bad,) = yard.host.state("mcp").upstreams
    for name in ("laugh", "giggle"):
        assert "its schema has more than 20,000 parts" in bad.faults[name]
    wrong = yard.call("bad_say", text="a" * 60 + "!")
    assert wrong.status is Status.INVALID
    assert "does not match '^(a+)+$'" in wrong.text
    strange = yard.call("bad_say", text="a", **{"b" * 60 + "!": 1})
    assert "not known" in strange.text
    # What cannot be searched for in bounded time is for the server to refuse.
    assert yard.call("bad_say", text="a", more="a" * 60 + "!", **{"b" * 60: 1}).success


def test_a_schema_that_refers_to_itself_without_an_end_is_told(yard, caplog):
    yard.open({"bad": yard.raw("circular")})
    told = yard.call("bad_say", text="x")
    assert told.status is Status.INVALID
    assert "refers to itself without an end" in told.text
    assert not yard.noted("calls")
    # What a result is to be nobody can find out, either.
    assert yard.call("bad_sing", text="now").success
    assert "Traceback" not in caplog.text


class TestNames:
    def servers(self, yard, **more):
        folder = yard.folder / "other"
        folder.mkdir()
        other = yard.raw("plain", **more)
        other["args"] = [*other["args"][:2], str(folder)]
        return {"one": yard.raw("plain", **more), "two": other}

    def test_a_name_that_another_server_has_is_not_taken_from_it(self, yard):
        yard.open(self.servers(yard, prefix="x_"))
        _, two = yard.host.state("mcp").upstreams
        assert yard.names() == ["x_say"]
        assert yard.host.catalog.get("x_say").origin == "one"
        assert "the MCP server one has a tool x_say already" in two.faults["say"]
        assert yard.call("x_say", text="x").success
        assert len(yard.noted("calls")) == 1

    def test_by_its_own_name_a_tool_is_called_only_if_nobody_else_has_it(self, yard):
        yard.open(self.servers(yard))
        assert yard.names() == ["one_say", "two_say"]
        ambiguous = yard.call("say", text="x")
        assert ambiguous.status is Status.UNKNOWN_TOOL
        assert yard.call("one_say", text="x").success
        assert yard.call("two_say", text="x").success
        assert len(yard.noted("calls")) == 1

    def test_no_name_of_another_plugin_is_taken(self, yard):
        server = yard.raw("plain", tools={"say": {"name": "planning_setup_plan"}})
        yard.open({"bad": server}, plugins={"planning": {}})
        assert yard.host.catalog.plugin_of("planning_setup_plan") == "planning"
        (bad,) = yard.host.state("mcp").upstreams
        assert "the plugin planning has a tool planning_setup_plan already" in bad.faults["say"]


class TestChanges:
    def asked(self, yard, mode, answer, **more):
        self.requests = []

        def approve(request):
            self.requests.append(request)
            return ApprovalAnswer.approve() if answer else ApprovalAnswer.deny("No.")

        yard.open({"bad": yard.raw(mode, **more)}, approver=approve)

    def test_a_person_is_asked_about_a_tool_that_has_changed(self, yard):
        self.asked(yard, "changing", answer=False)
        assert yard.call("bad_say", text="x").success
        assert self.requests == []
        yard.call("bad_say", text="change")
        wait_for_doubt(yard)
        # What nobody has approved no model reads.
        assert yard.host.catalog.get("bad_say").description == "Say it."
        denied = yard.call("bad_say", text="y")
        assert denied.status is Status.DENIED
        (request,) = self.requests
        assert any("has changed since it was approved: description." in r for r in request.reasons)
        assert any("read ~/.ssh/id_rsa" in reason for reason in request.reasons)
        assert [each["arguments"]["text"] for each in yard.noted("calls")] == ["x", "change"]

    def test_once_approved_it_is_what_it_has_become(self, yard):
        self.asked(yard, "changing", answer=True)
        yard.call("bad_say", text="change")
        wait_for_doubt(yard)
        assert yard.call("bad_say", text="y").text == "said y"
        assert yard.call("bad_say", text="z").text == "said z"
        assert len(self.requests) == 1
        assert "id_rsa" in yard.host.catalog.get("bad_say").description

    def test_the_approval_outlives_the_host_and_so_does_the_doubt(self, yard):
        self.asked(yard, "changing", answer=False)
        yard.call("bad_say", text="change")
        wait_for_doubt(yard)
        yard.close()
        self.asked(yard, "changing", answer=True)
        assert yard.call("bad_say", text="x").success
        assert len(self.requests) == 1

    def test_arguments_have_to_fit_what_it_has_become(self, yard):
        self.asked(yard, "reschemed", answer=True)
        yard.call("bad_say", text="change")
        wait_for_doubt(yard)
        old = yard.call("bad_say", text="x")
        assert "takes other arguments since it has changed; nothing was sent" in old.text
        assert "times: required, but missing" in old.text
        assert yard.call("bad_say", text="x", times=2).success
        assert len(self.requests) == 1

    def test_new_tools_are_asked_about_where_that_is_wanted(self, yard):
        self.asked(yard, "plain", answer=True, trust="ask")
        assert yard.call("bad_say", text="x").success
        assert yard.call("bad_say", text="y").success
        (request,) = self.requests
        assert any("is new. It says of itself: Say it." in reason for reason in request.reasons)

    def test_nobody_is_asked_where_a_server_is_always_trusted(self, yard):
        self.asked(yard, "changing", answer=False, trust="always")
        yard.call("bad_say", text="change")
        until_described(yard, "id_rsa")
        assert yard.call("bad_say", text="x").success
        assert self.requests == []

    def test_without_anybody_to_ask_it_is_denied(self, yard):
        yard.open({"bad": yard.raw("changing")})
        yard.call("bad_say", text="change")
        wait_for_doubt(yard)
        assert yard.call("bad_say", text="y").status is Status.DENIED


def wait_for_doubt(yard):
    from_conftest = yard.host.state("mcp").upstreams[0].standing
    yard.until(from_conftest.doubts, "the change is noticed")


def until_described(yard, text):
    yard.until(lambda: text in yard.host.catalog.get("bad_say").description, text)


def test_what_remembers_approvals_is_not_read_where_it_is_damaged(yard):
    (yard.folder / "pins.json").write_text("{")
    with pytest.raises(Exception, match="the file of approved tools of MCP servers"):
        yard.open({"bad": yard.raw("plain")})


def test_programs_end_with_the_host(yard):
    yard.open({"one": yard.raw("plain")})
    assert yard.call("one_say", text="x").success
    (number,) = yard.noted("started")
    yard.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.long
def test_a_program_that_is_busy_ends_with_a_command_that_is_stopped(yard):
    command, args = yard.raw("busy").values()
    lines = ["[plugins.mcp.servers.bad]", f"command = {json.dumps(command)}"]
    (yard.folder / "toolstile.toml").write_text("\n".join([*lines, f"args = {json.dumps(args)}"]))
    calling = [COMMAND, "call", "bad_say", '{"text": "now"}']
    process = subprocess.Popen(calling, cwd=yard.folder, stderr=subprocess.DEVNULL)
    yard.until(lambda: yard.noted("calls"), "the call arrives")
    process.terminate()
    process.wait(LIMIT)
    (number,) = yard.noted("started")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_pins_hold_what_was_met(yard):
    yard.open({"one": yard.raw("plain")})
    held = json.loads((yard.folder / "pins.json").read_text())
    assert held["servers"]["one"]["say"]["description"] == "Say it."
    assert ToolCall("one_say").name in yard.names()
