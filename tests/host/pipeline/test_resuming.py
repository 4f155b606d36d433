"""A call that waits for approval is resumed with a token: everything is passed and checked anew."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from toolstile import Host, Session, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    MarkdownSection,
    Outcome,
    PolicyDecision,
    Prompt,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.codecs import as_json
from toolstile_plugins.policies import QuotaPolicy

KEY = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Sent:
    """The message that was sent, and its receiver."""

    to: str
    amount: int


@tool(requires_confirmation=True)
def send(to: str, amount: int, *, context: ToolContext) -> str:
    """Send money."""
    context.session[Sent].append(Sent(to, amount))
    return f"sent {amount} to {to}"


@tool(contained=True, category="write", requires_confirmation=True)
def draft(to: str, amount: int, *, context: ToolContext) -> str:
    """Write down what to send, after what was written before."""
    count = len(context.session[Sent].all())
    context.session[Sent].append(Sent(to, amount + count))
    return f"{count + 1} written"


@dataclass
class Policy:
    """A policy that decides as it is told, and counts how often it was asked."""

    decide: Callable[[Any], PolicyDecision | None] = lambda _: None
    name: str = "told"
    checks: int = 0

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self.checks += 1
        return self.decide(params) or PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None


@dataclass
class Later:
    """An approver who has not decided yet."""

    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer.pending(f"ticket-{len(self.asked)}")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


@pytest.fixture
def later() -> Later:
    return Later()


def pending(yard: Any, name: str = "send", **others: Any) -> Outcome:
    outcome: Outcome = yard.call(name, **{"to": "Ada", "amount": 5, **others})
    assert outcome.status is Status.PENDING
    return outcome


def sent(yard: Any) -> list[Sent]:
    return list(yard.session[Sent].all())


def assert_refused(yard: Any, outcome: Outcome, told: str) -> None:
    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert told in outcome.text
    assert "Nothing has run." in outcome.text
    assert outcome.approval_token is None
    assert outcome.event.attributes["toolstile.approval"] == "refused"
    assert sent(yard) == []
    assert yard.events[-1] is outcome.event


class Parsing:
    """Parses as the host does."""

    @hookimpl
    def toolstile_parse(self, tool: Any, call: ToolCall) -> Any:
        return tool.params_codec.decode(as_json(call.arguments))


@pytest.mark.parametrize("plugins", [(), (Parsing(),)], ids=["the host", "a plugin"])
def test_a_pending_call_keeps_the_defaults_that_were_shown(
    yard: Any, later: Later, plugins: tuple[object, ...]
) -> None:
    @dataclass(frozen=True)
    class Mail:
        to: str
        number: str = field(default_factory=lambda: uuid4().hex)

    @tool(requires_confirmation=True)
    def mails(params: Mail) -> str:
        """Send a mail."""
        return f"{params.to} {params.number}"

    yard.open(mails, approver=later, plugins=plugins)
    waits = yard.call("mails", to="Ada")
    outcome = yard.resume(waits, answer=True)

    (request,) = later.asked
    assert outcome.text == f"Ada {request.params.number}"


@pytest.mark.parametrize("answer", [True, ApprovalAnswer.approve()])
def test_a_pending_call_runs_once_it_is_approved(yard: Any, later: Later, answer: Any) -> None:
    policy = Policy()
    yard.open(send, approver=later, policies=(policy,))
    waits = pending(yard)
    assert (policy.checks, sent(yard)) == (1, [])
    outcome = yard.resume(waits, answer)

    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "sent 5 to Ada")
    assert sent(yard) == [Sent("Ada", 5)]
    assert outcome.event.attributes["toolstile.approval"] == "approved"
    assert outcome.approval_token is None
    assert policy.checks == 3
    assert len(later.asked) == 1
    assert [each.status for each in yard.events] == [Status.PENDING, Status.SUCCEEDED]


def test_the_event_tells_the_ticket_of_the_approver(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    outcome = pending(yard)
    attributes = outcome.event.attributes
    assert attributes["toolstile.approval_ticket"] == outcome.approval_ticket == "ticket-1"
    assert attributes["toolstile.approval_token"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (False, "A person did not approve send."),
        (ApprovalAnswer.deny("too much"), "A person did not approve send: too much."),
        (ApprovalAnswer.unanswered("Ada is away"), "Ada is away. It cannot run here"),
    ],
)
def test_a_pending_call_is_denied(yard: Any, later: Later, answer: Any, told: str) -> None:
    yard.open(send, approver=later)
    outcome = yard.resume(pending(yard), answer)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert told in outcome.text
    assert sent(yard) == []


def test_what_is_no_answer_is_refused_and_the_token_still_holds(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)

    with pytest.raises(TypeError, match="answered str"):
        yard.resume(waits, "yes")
    assert yard.resume(waits, True).text == "sent 5 to Ada"


def test_exactly_the_edited_params_run(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    answer = ApprovalAnswer.edit({"to": "Eve", "amount": 1})
    outcome = yard.resume(pending(yard), answer)

    assert outcome.text == "sent 1 to Eve"
    assert sent(yard) == [Sent("Eve", 1)]
    assert len(later.asked) == 1


def test_edited_params_are_checked(yard: Any, later: Later) -> None:
    limit = Policy(lambda each: PolicyDecision.deny("At most 10.") if each.amount > 10 else None)
    yard.open(send, approver=later, policies=(limit,))
    answer = ApprovalAnswer.edit({"to": "Eve", "amount": 11})
    outcome = yard.resume(pending(yard), answer)

    assert outcome.status is Status.DENIED
    assert "At most 10." in outcome.text
    assert sent(yard) == []


def test_an_answer_may_be_put_off_again(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    first = pending(yard)
    second = yard.resume(first, ApprovalAnswer.pending("tomorrow"))

    assert second.status is Status.PENDING
    assert second.event.attributes["toolstile.approval_ticket"] == "tomorrow"
    assert second.approval_token != first.approval_token
    assert yard.resume(second, True).success


def test_what_a_policy_denies_by_now_is_denied(yard: Any, later: Later) -> None:
    shut: list[bool] = []
    closed = Policy(lambda _: PolicyDecision.deny("The bank has closed.") if shut else None)
    yard.open(send, approver=later, policies=(closed,))
    waits = pending(yard)
    shut.append(True)
    outcome = yard.resume(waits, True)

    assert (outcome.status, outcome.text) == (Status.DENIED, "The bank has closed.")
    assert_refused(yard, yard.resume(waits, True), "used before")


def test_with_other_params_the_approver_is_asked_again(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    other = ToolCall("send", {"to": "Ada", "amount": 500})
    outcome = yard.resume(waits, True, call=other)

    assert outcome.status is Status.PENDING
    assert later.asked[-1].params.amount == 500
    assert sent(yard) == []
    assert yard.resume(outcome, True).text == "sent 500 to Ada"


def test_with_other_params_and_nobody_to_ask_it_is_denied(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    with yard.host.executor(session=yard.session, prompt=yard.tools.prompt) as alone:
        other = ToolCall("send", {"to": "Ada", "amount": 500})
        outcome = yard.resume(waits, True, call=other, tools=alone)
    assert outcome.status is Status.DENIED
    assert "no one is available to approve it" in outcome.text
    assert sent(yard) == []


def test_params_written_otherwise_are_the_same(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    same = ToolCall("send", ' {"amount": 5,\n"to": "Ada"}')
    assert yard.resume(pending(yard), True, call=same).success


def test_whoever_resumes_need_not_be_able_to_ask(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    with yard.host.executor(session=yard.session, prompt=yard.tools.prompt) as alone:
        assert yard.resume(waits, True, tools=alone).success


def test_a_refusal_holds_also_where_nothing_asks_any_more(yard: Any, later: Later) -> None:
    asks = [True]
    policy = Policy(lambda _: PolicyDecision.ask("Really?") if asks else None)

    @tool
    def note(to: str, amount: int, *, context: ToolContext) -> None:
        """Note it."""
        context.session[Sent].append(Sent(to, amount))

    yard.open(note, approver=later, policies=(policy,))
    no, edit, yes = (pending(yard, "note") for _ in range(3))
    asks.clear()

    assert yard.resume(no, False).status is Status.DENIED
    assert sent(yard) == []
    assert yard.resume(edit, ApprovalAnswer.edit({"to": "Eve", "amount": 1})).success
    assert sent(yard) == [Sent("Eve", 1)]
    assert yard.resume(yes, True).success


def test_a_token_is_used_up(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    assert yard.resume(waits, False).status is Status.DENIED
    assert_refused(yard, yard.resume(waits, True), "used before: it is valid for one call")


def test_a_token_expires(yard: Any, later: Later) -> None:
    clock = Clock()
    options = {"clock": clock, "settings": Settings(approval_expiry=60)}
    yard.open(send, approver=later, host_options=options)
    waits = pending(yard)
    clock.time += timedelta(seconds=60)
    assert_refused(
        yard, yard.resume(waits, True), "too late: it could be given until 2026-01-01T00:01:00"
    )


@pytest.mark.parametrize("token", ["", "1..", "made-up", "1.e30=.00", "\udcff.\n"])
def test_a_made_up_token_is_refused(yard: Any, later: Later, token: str) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    assert_refused(
        yard, yard.resume(waits, True, token=token), "was altered, or this host did not make it"
    )
    assert yard.resume(waits, True).success


def test_a_call_that_was_not_pending_is_not_resumed(yard: Any) -> None:
    yard.open(send, approver=lambda request: False)
    denied = yard.call("send", to="Ada", amount=5)

    assert denied.approval_token is None
    assert_refused(yard, yard.resume(denied, True), "no token: only a call that is pending has one")


def test_an_altered_token_is_refused(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    token = waits.approval_token
    assert token is not None
    altered = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert_refused(
        yard, yard.resume(waits, True, token=altered), "was altered, or this host did not make it"
    )


def test_a_token_of_another_host_is_refused_with_what_makes_hosts_take_it(
    yard: Any, later: Later
) -> None:
    yard.open(send, approver=later)
    elsewhere = pending(yard).approval_token
    yard.open(send, approver=later)
    waits = pending(yard)
    refused = yard.resume(waits, True, token=elsewhere)
    assert_refused(yard, refused, "this host did not make it")
    advice = refused.event.attributes["toolstile.for_operator"]
    assert "need the same approval_key and approval_spent" in advice
    assert yard.resume(waits, True).success


def test_a_token_of_another_session_is_refused(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    other = Session(id="other")
    with yard.host.executor(session=other, prompt=yard.tools.prompt) as foreign:
        outcome = yard.resume(waits, True, tools=foreign)
    assert (outcome.status, list(other[Sent].all())) == (Status.DENIED, [])
    assert "belongs to another session" in outcome.text
    assert yard.resume(waits, True).success


def test_a_token_of_another_user_is_refused(yard: Any, later: Later) -> None:
    yard.open(send, approver=later, user_id="ada")
    waits = pending(yard)
    options = {"session": yard.session, "prompt": yard.tools.prompt, "approver": later}
    for user_id in ("eve", None):
        with yard.host.executor(**options, user_id=user_id) as foreign:
            outcome = yard.resume(waits, True, tools=foreign)
        assert outcome.status is Status.DENIED
        assert "belongs to another user" in outcome.text
    assert sent(yard) == []
    assert yard.resume(waits, True).success


def test_a_token_of_another_tool_is_refused(yard: Any, later: Later) -> None:
    yard.open(send, draft, approver=later)
    waits = pending(yard, "draft")
    other = ToolCall("send", {"to": "Ada", "amount": 5})
    assert_refused(yard, yard.resume(waits, True, call=other), "belongs to another tool")
    assert yard.resume(waits, True).success


def test_a_token_holds_for_a_tool_by_its_wire_name(yard: Any, later: Later) -> None:
    @tool(wire_name="Send/Money", requires_confirmation=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    yard.open(pay, approver=later)
    waits = yard.call("Send/Money", amount=5)
    assert yard.resume(waits, True, call=ToolCall("pay", {"amount": 5})).text == "paid 5"


def test_a_dry_run_approves_nothing_for_good(yard: Any, later: Later) -> None:
    yard.open(draft, approver=later)
    options = {"session": yard.session, "prompt": yard.tools.prompt, "approver": later}
    with yard.host.executor(**options, dry_run=True) as rehearsing:
        call = ToolCall("draft", {"to": "Ada", "amount": 5})
        waits = rehearsing.dispatch(call)
        assert_refused(yard, yard.resume(waits, True), "belongs to another session")
        assert yard.resume(waits, True, tools=rehearsing).success
    assert sent(yard) == []


def test_invalid_params_do_not_use_a_token_up(yard: Any, later: Later) -> None:
    yard.open(send, approver=later)
    waits = pending(yard)
    wrong = ToolCall("send", {"to": "Ada"})
    assert yard.resume(waits, True, call=wrong).status is Status.INVALID
    assert yard.resume(waits, True).success


def test_of_many_who_resume_at_once_one_does(make_yard: Any, later: Later) -> None:
    yard = make_yard("sync")
    yard.open(send, approver=later)
    waits = pending(yard)
    start = threading.Barrier(8)
    outcomes: list[Outcome] = []

    def resume() -> None:
        start.wait(30)
        outcomes.append(yard.resume(waits, True))

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    statuses = [each.status for each in outcomes]
    assert sorted(statuses) == [*[Status.DENIED] * 7, Status.SUCCEEDED]
    assert sent(yard) == [Sent("Ada", 5)]


def test_of_many_tasks_that_resume_one_does(make_yard: Any, later: Later) -> None:
    yard = make_yard("async")
    yard.open(send, approver=later)
    waits = pending(yard)

    async def scenario() -> list[Outcome]:
        resumed = (yard.tools.aresume(waits.call, waits.approval_token, True) for _ in range(8))
        return list(await asyncio.gather(*resumed))

    statuses = [each.status for each in asyncio.run(scenario())]
    assert sorted(statuses) == [*[Status.DENIED] * 7, Status.SUCCEEDED]
    assert sent(yard) == [Sent("Ada", 5)]


def test_hosts_that_share_a_key_resume_each_others_calls_once(
    yard: Any, later: Later, tmp_path: Path
) -> None:
    settings = Settings(approval_key=KEY, approval_spent=tmp_path / "spent.db")
    prompt = Prompt.of("t", "t", (MarkdownSection(key="t", title="T", tools=[send]),))
    yard.open(send, approver=later, host_options={"settings": settings})
    waits = pending(yard)
    session = Session(id=yard.session.id)
    with (
        Host(discover=False, settings=settings) as host,
        host.executor(session=session, prompt=prompt) as elsewhere,
    ):
        assert yard.resume(waits, True, tools=elsewhere).success
    assert list(session[Sent].all()) == [Sent("Ada", 5)]
    assert_refused(yard, yard.resume(waits, True), "used before")


def test_where_a_used_token_cannot_be_noted_the_call_is_denied(
    yard: Any, later: Later, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spent = tmp_path / "spent.db"
    spent.mkdir()
    settings = Settings(approval_key=KEY, approval_spent=spent)
    yard.open(send, approver=later, host_options={"settings": settings})
    with caplog.at_level(logging.ERROR, "toolstile.policies"):
        outcome = yard.resume(pending(yard), True)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "requires human intervention" in outcome.text
    assert str(spent) not in outcome.text
    assert str(spent) in caplog.text
    assert sent(yard) == []


def test_a_resumed_call_is_parsed_anew(yard: Any, later: Later) -> None:
    bonus: list[int] = []

    class Plugin:
        @hookimpl
        def toolstile_parse(self, tool: Any, call: ToolCall) -> Any:
            params = tool.parse(call.arguments)
            return tool.parse({"to": params.to, "amount": params.amount + sum(bonus)})

    yard.open(send, approver=later, plugins=(Plugin(),))
    waits = pending(yard)
    bonus.append(1)
    outcome = yard.resume(waits, True)

    assert outcome.status is Status.PENDING
    assert later.asked[-1].params.amount == 6


def test_secrets_of_the_params_are_in_no_token(yard: Any, later: Later) -> None:
    @tool(requires_confirmation=True)
    def login(password: SecretStr) -> None:
        """Log in."""

    yard.open(login, approver=later)
    waits = yard.call("login", password="hunter2")
    assert later.asked[0].digest not in waits.approval_token
    assert yard.resume(waits, True).success


def test_a_nested_call_gets_no_token(yard: Any, later: Later, nesting: Any) -> None:
    told: list[Outcome] = []
    outer = nesting("send", told, is_async=yard.driver == "async", to="Ada", amount=5)
    yard.open(send, outer, approver=later)
    yard.call("outer")
    assert told[0].status is Status.DENIED
    assert told[0].approval_token is None


class TestWhereTheDiffIsApproved:
    @pytest.fixture(autouse=True)
    def opened(self, yard: Any, later: Later) -> None:
        settings = Settings(approve_diff=True)
        yard.open(draft, approver=later, host_options={"settings": settings})

    def test_it_runs_again_and_is_kept(self, yard: Any, later: Later) -> None:
        waits = pending(yard, "draft")
        assert (later.asked[0].diff is not None, sent(yard)) == (True, [])
        outcome = yard.resume(waits, True)

        assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "1 written")
        assert sent(yard) == [Sent("Ada", 5)]
        assert len(later.asked) == 1

    def test_another_diff_is_asked_about_again(self, yard: Any, later: Later) -> None:
        waits = pending(yard, "draft")
        yard.session[Sent].append(Sent("Eve", 1))
        again = yard.resume(waits, True)

        assert again.status is Status.PENDING
        assert later.asked[0].diff != later.asked[1].diff
        assert sent(yard) == [Sent("Eve", 1)]
        assert yard.resume(again, True).success
        assert sent(yard) == [Sent("Eve", 1), Sent("Ada", 6)]

    def test_a_refusal_keeps_nothing(self, yard: Any) -> None:
        outcome = yard.resume(pending(yard, "draft"), ApprovalAnswer.deny("no"))
        assert outcome.status is Status.DENIED
        assert "A person did not approve draft: no. Nothing of it is kept." in outcome.text
        assert sent(yard) == []

    def test_an_edit_is_shown_again(self, yard: Any, later: Later) -> None:
        waits = pending(yard, "draft")
        again = yard.resume(waits, ApprovalAnswer.edit({"to": "Eve", "amount": 1}))

        assert again.status is Status.PENDING
        assert "amount=1" in str(later.asked[-1].diff)
        edited = ToolCall("draft", again.event.arguments)
        assert yard.resume(again, True, call=edited).success
        assert sent(yard) == [Sent("Eve", 1)]

    def test_whoever_resumes_need_not_be_able_to_ask(self, yard: Any) -> None:
        waits = pending(yard, "draft")
        with yard.host.executor(session=yard.session, prompt=yard.tools.prompt) as alone:
            assert yard.resume(waits, True, tools=alone).success


class TestWhereTheDiffIsApprovedAndCallsAreCounted:
    @pytest.fixture(autouse=True)
    def opened(self, yard: Any, later: Later) -> None:
        settings = Settings(approve_diff=True)
        counting = (QuotaPolicy(max_calls=1),)
        yard.open(draft, approver=later, policies=counting, host_options={"settings": settings})

    def test_a_resumed_call_has_the_place_that_it_took(self, yard: Any) -> None:
        assert yard.resume(pending(yard, "draft"), True).success
        assert sent(yard) == [Sent("Ada", 5)]
        assert "1 of 1 calls are used" in yard.call("draft", to="Ada", amount=5).text

    def test_it_keeps_its_place_while_the_answer_is_put_off(self, yard: Any) -> None:
        again = yard.resume(pending(yard, "draft"), ApprovalAnswer.pending())
        assert again.status is Status.PENDING
        assert yard.resume(again, True).success

    def test_it_keeps_its_place_when_it_is_edited(self, yard: Any) -> None:
        edit = ApprovalAnswer.edit({"to": "Eve", "amount": 1})
        again = yard.resume(pending(yard, "draft"), edit)
        edited = ToolCall("draft", again.event.arguments)
        assert yard.resume(again, True, call=edited).success
        assert sent(yard) == [Sent("Eve", 1)]

    def test_with_other_params_it_has_none(self, yard: Any) -> None:
        waits = pending(yard, "draft")
        other = yard.resume(waits, True, call=ToolCall("draft", {"to": "Eve", "amount": 5}))
        assert "1 of 1 calls are used" in other.text
        assert sent(yard) == []

    def test_a_place_is_good_for_one_call(self, yard: Any) -> None:
        waits = pending(yard, "draft")
        assert yard.resume(waits, True).success
        assert not yard.resume(waits, True).success
        assert sent(yard) == [Sent("Ada", 5)]
