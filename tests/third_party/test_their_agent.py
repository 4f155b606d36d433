"""A stranger's agent keeps its tools and its loop; its calls pass all stages."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path

import pytest

from toolstile import ApprovalAnswer, Host, Session, Settings, ToolCall
from toolstile_hookspecs import PolicyDecision, Status, ToolInvoked, hookimpl

sys.path.insert(0, str(Path(__file__).parent))
from their_agent import Governed, Run, TheirTool, foreign_tools

MAIL = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "pin": {"type": "string", "format": "password"}},
    "required": ["to"],
    "additionalProperties": False,
}


async def _send(run, arguments):
    run.log.append(f"{run.user} to {arguments['to']}")
    await asyncio.sleep(0)
    if arguments["to"] == "nobody":
        raise RuntimeError("there is no such person")
    return {"sent": arguments["to"]}


async def _hang(run, arguments):
    run.log.append("begun")
    try:
        await asyncio.sleep(60)
    finally:
        run.log.append("given up")


THEIRS = [
    TheirTool("SendMail", "Send a mail.", MAIL, _send),
    TheirTool("Hang", "Hang.", {"type": "object"}, _hang),
]


class NoBob:
    @hookimpl
    def toolstile_check(self, tool, params):
        return PolicyDecision.deny("Bob gets no mail.") if params.get("to") == "bob" else None


def host_of(**options):
    return Host(discover=False, tools=foreign_tools(THEIRS), plugins=[NoBob()], **options)


def mail(to, *, made_with=None, **others):
    return ToolCall("SendMail", {"to": to, **others}, **(made_with or {}))


def turn(tools, run, *calls):
    return asyncio.run(Governed(THEIRS, tools).turn(run, calls))


def test_it_imports_the_contract_alone():
    tree = ast.parse(Path(__file__).with_name("their_agent.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name.startswith("toolstile")} == {"toolstile_hookspecs"}


def test_a_turn_is_one_batch_in_which_each_call_runs_within_their_run():
    run = Run("ada")
    with host_of() as host, host.executor() as tools:
        found = turn(tools, run, mail("eve"), mail("bob"), mail("nobody"), mail("kim", cc=1))
    assert [each.status for each in found] == [
        Status.SUCCEEDED,
        Status.DENIED,
        Status.ERROR,
        Status.INVALID,
    ]
    assert found[0].result.value == {"sent": "eve"}
    assert found[1].text == "Bob gets no mail."
    assert "there is no such person" in found[2].text
    assert run.log == ["ada to eve", "ada to nobody"]


def test_two_runs_in_one_session_do_not_meet():
    runs = [Run("ada"), Run("eve")]
    with host_of() as host, host.executor() as tools:

        async def both():
            agent = Governed(THEIRS, tools)
            await asyncio.gather(*(agent.turn(each, [mail("kim")] * 3) for each in runs))

        asyncio.run(both())
    assert [each.log for each in runs] == [["ada to kim"] * 3, ["eve to kim"] * 3]


def test_a_call_waits_for_a_person_and_goes_on_in_another_host(tmp_path):
    settings = Settings(
        approval_key="0123456789abcdef0123456789abcdef",
        approval_spent=tmp_path / "spent",
        tools={"sendmail": {"requires_confirmation": True}},
    )
    asked = []

    def later(request):
        asked.append(request)
        return ApprovalAnswer.pending()

    options = {"settings": settings, "approver": later}
    with host_of(**options) as host, host.executor(session_id="one") as tools:
        (waits,) = turn(tools, Run("ada"), mail("eve", made_with={"id": "call-1"}))
    assert waits.status is Status.PENDING
    saved = json.dumps({"to": "eve", "token": waits.approval_token})

    session, given = Session(id="one"), json.loads(saved)
    with host_of(**options) as host, host.executor(session=session) as tools:
        call = mail(given["to"], made_with={"id": "call-1"})
        closed = tools.resume(call, given["token"], answer=True)
        assert "none was. Nothing has run" in closed.text
        run = Run("ada again")
        agent = Governed(THEIRS, tools)
        done = asyncio.run(agent.go_on(run, call, given["token"]))
        again = asyncio.run(agent.go_on(run, call, given["token"]))
    assert (done.success, run.log) == (True, ["ada again to eve"])
    assert "used before" in again.text


def test_no_event_tells_of_what_ran_it():
    with host_of() as host, host.executor() as tools:
        run = Run("MARK")
        (found,) = turn(tools, run, mail("eve", pin="secret-pin"))
        (event,) = tools.session[ToolInvoked].all()
    told = f"{found.call} {event} {vars(event)}"
    assert "within" not in told
    assert "MARK" not in told
    assert "secret-pin" not in f"{event} {found.text}"


def test_a_record_of_it_is_replayed_without_what_ran_it(tmp_path):
    file, run, found = str(tmp_path / "calls.jsonl"), Run("ada"), []
    for key in ("file", "replay"):
        settings = Settings(plugins={"record": {key: file}})
        offered = foreign_tools(THEIRS)
        with Host(discover=["record"], tools=offered, settings=settings) as host:  # noqa: SIM117 - too long
            with host.executor(session_id="one") as tools:
                if key == "file":
                    found += turn(tools, run, mail("eve"))
                else:
                    found.append(tools.dispatch(mail("eve")))
    assert [each.text for each in found] == ['{"sent":"eve"}'] * 2
    assert run.log == ["ada to eve"]


def test_a_call_that_takes_too_long_is_given_up():
    run = Run("ada")
    settings = Settings(tools={"hang": {"timeout": 0.05}})
    with host_of(settings=settings) as host, host.executor() as tools:
        (found,) = turn(tools, run, ToolCall("Hang"))
    assert found.status is Status.TIMED_OUT
    assert run.log == ["begun", "given up"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_of_it_is_undone_so_no_dry_run_has_it(dry_run):
    run = Run("ada")
    with host_of() as host, host.executor(dry_run=dry_run) as tools:
        (found,) = turn(tools, run, mail("eve"))
    assert (found.status is Status.DENIED) is dry_run
    assert run.log == ([] if dry_run else ["ada to eve"])
