"""A call that a policy or a tool wants confirmed waits for a person's decision."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from toolstile import Host, Settings
from toolstile.pipeline.event import MAX_ARGUMENTS
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    Deadline,
    PolicyDecision,
    PromptEvaluationError,
    Stage,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

Decide = Callable[[Any], PolicyDecision | None]


@dataclass(frozen=True)
class Sent:
    """The message that was sent, and its receiver."""

    to: str
    amount: int


@tool(requires_confirmation=True)
def send(to: str, amount: int, *, context: ToolContext) -> ToolResult[None]:
    """Send money."""
    context.session[Sent].append(Sent(to, amount))
    return ToolResult.ok(message=f"sent {amount} to {to}")


@dataclass
class Policy:
    """A policy that decides as it is told."""

    name: str
    decide: Decide

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return self.decide(params) or PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None


class Approver:
    """Answers each request in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class AsyncApprover(Approver):
    """Answers after waiting."""

    async def __call__(self, request: ApprovalRequest) -> Any:
        await asyncio.sleep(0.001)
        return super().__call__(request)


NEEDED = "send needs a person's approval (send requires confirmation)"


def sent(yard: Any) -> list[Sent]:
    return list(yard.session[Sent].all())


def test_with_nobody_to_ask_the_call_is_denied(yard: Any) -> None:
    yard.open(send)
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "(send requires confirmation), and no one is available to approve it." in outcome.text
    assert "no one is available to approve it" in outcome.text
    assert sent(yard) == []
    assert not outcome.event.rolled_back


@pytest.mark.parametrize("kind", [Approver, AsyncApprover])
@pytest.mark.parametrize("answer", [True, ApprovalAnswer.approve()])
def test_what_is_approved_runs(yard: Any, kind: type[Approver], answer: Any) -> None:
    approver = kind(answer)
    yard.open(send, approver=approver)
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "sent 5 to Ada")
    assert sent(yard) == [Sent("Ada", 5)]
    assert len(approver.asked) == 1
    assert outcome.event.attributes["toolstile.approval"] == "approved"


@pytest.mark.parametrize("kind", [Approver, AsyncApprover])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (False, "A person did not approve send."),
        (None, "A person did not approve send."),
        ("yes", f"{NEEDED}, but asking for approval failed. Tell the user, or retry later."),
        (1, f"{NEEDED}, but asking for approval failed. Tell the user, or retry later."),
        (ApprovalAnswer.deny(), "A person did not approve send."),
        (ApprovalAnswer.deny("Too much."), "A person did not approve send: Too much."),
    ],
)
def test_anything_but_an_approval_denies(
    yard: Any, kind: type[Approver], answer: Any, told: str
) -> None:
    yard.open(send, approver=kind(answer))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert outcome.text.startswith(told)
    assert sent(yard) == []
    assert len(yard.events) == 1


def test_what_is_no_answer_is_logged(yard: Any, caplog: pytest.LogCaptureFixture) -> None:
    yard.open(send, approver=Approver("yes"))
    yard.call("send", to="Ada", amount=5)
    assert "The approver failed; the call is denied." in caplog.text
    assert "The approver answered str. Answer True" in caplog.text


@pytest.mark.parametrize("answer", [False, None, ApprovalAnswer.deny()])
def test_a_denial_is_no_error_in_the_log(
    yard: Any, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    yard.open(send, approver=Approver(answer))
    yard.call("send", to="Ada", amount=5)
    assert "ERROR" not in {each.levelname for each in caplog.records}


def test_the_event_tells_why_a_person_refused(yard: Any) -> None:
    yard.open(send, approver=Approver(ApprovalAnswer.deny("Too much.")))
    attributes = yard.call("send", to="Ada", amount=5).event.attributes

    assert attributes["toolstile.approval"] == "denied"
    assert attributes["toolstile.approval_reason"] == "Too much."


def test_a_call_that_nobody_has_decided_yet_is_pending(yard: Any) -> None:
    yard.open(send, approver=Approver(ApprovalAnswer.pending("ticket-7")))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage) == (Status.PENDING, Stage.APPROVE)
    assert "Nothing has run" in outcome.text
    assert outcome.event.attributes["toolstile.approval_ticket"] == "ticket-7"
    assert outcome.event.attributes["toolstile.approval_token"] == outcome.approval_token
    assert outcome.approval_token
    assert outcome.is_error
    assert sent(yard) == []


@pytest.mark.parametrize("kind", [Approver, AsyncApprover])
def test_exactly_the_edited_arguments_run(yard: Any, kind: type[Approver]) -> None:
    edited = ApprovalAnswer.edit({"to": "Ada", "amount": 3})
    yard.open(send, approver=kind(edited))
    outcome = yard.call("send", to="Eve", amount=500)

    assert outcome.text == "sent 3 to Ada"
    assert sent(yard) == [Sent("Ada", 3)]
    assert (outcome.event.params.to, outcome.event.params.amount) == ("Ada", 3)
    assert outcome.event.attributes["toolstile.approval"] == "edited"


@dataclass(frozen=True)
class Mail:
    """A mail, with a number that is another one whenever it is left out."""

    to: str
    number: str = field(default_factory=lambda: uuid4().hex)


@tool(requires_confirmation=True, contained=True)
def mails(params: Mail) -> str:
    """Send a mail."""
    return params.to


def test_an_edit_leaves_out_what_has_another_default_each_time(yard: Any) -> None:
    approver = Approver(ApprovalAnswer.edit({"to": "Bob"}))
    yard.open(mails, approver=approver)
    assert yard.call("mails", to="Ada").text == "Bob"
    assert len(approver.asked) == 1


def test_who_edits_for_ever_is_denied_in_the_end(yard: Any) -> None:
    approver = Approver(*[ApprovalAnswer.edit({"to": "Bob"})] * 100)
    yard.open(mails, approver=approver, host_options={"settings": Settings(approve_diff=True)})
    outcome = yard.call("mails", to="Ada")
    assert outcome.status is Status.DENIED
    assert "come out differently whenever they are read" in outcome.text
    assert len(approver.asked) < 50


def test_edited_arguments_are_parsed_again(yard: Any) -> None:
    yard.open(send, approver=Approver(ApprovalAnswer.edit('{"to": "Ada", "amount": "lots"}')))
    outcome = yard.call("send", to="Eve", amount=500)

    assert outcome.status is Status.INVALID
    assert outcome.text.splitlines() == [
        (
            "A person changed the arguments of send to ones that do not fit it, so it did not run. "
            "Invalid arguments:"
        ),
        '  - amount: input should be a valid integer, got "lots"',
        "Retry it to ask for approval again.",
    ]
    assert sent(yard) == []


def test_edited_arguments_are_checked_again(yard: Any) -> None:
    def limit(params: Any) -> PolicyDecision | None:
        return PolicyDecision.deny("At most 100.") if params.amount > 100 else None

    approver = Approver(ApprovalAnswer.edit({"to": "Ada", "amount": 101}))
    yard.open(send, approver=approver, policies=(Policy("limit", limit),))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage, outcome.text) == (
        Status.DENIED,
        Stage.CHECK,
        (
            'A person changed the arguments to {"to":"Ada","amount":101}, and these were denied: '
            "At most 100."
        ),
    )
    assert sent(yard) == []


def test_no_rule_is_shown_what_stood_there_before_an_edit(yard: Any) -> None:
    @tool(requires_confirmation=True)
    def sort(names: list[str]) -> list[str]:
        """Sort names."""
        return sorted(names)

    seen: list[list[str]] = []
    policy = Policy("seeing", lambda params: seen.append(params.names))
    edit = ApprovalAnswer.edit({"names": ["c", "b"]})
    yard.open(sort, approver=Approver(edit), policies=(policy,))

    assert yard.call("sort", names=["a"]).success
    assert seen == [["a"], ["c", "b"]]


def test_a_failure_with_edited_arguments_tells_of_them(yard: Any) -> None:
    @tool(requires_confirmation=True)
    def fail(path: str, password: SecretStr) -> ToolResult[None]:
        """Fail."""
        return ToolResult.error(f"There is no {path}.")

    edit = ApprovalAnswer.edit({"path": "b", "password": "hunter2"})
    yard.open(fail, approver=Approver(edit))
    outcome = yard.call("fail", path="a", password="x")

    assert outcome.status is Status.FAILED
    assert outcome.text == (
        'A person changed the arguments to {"path":"b","password":"***"}. There is no b.'
    )


def test_a_request_that_is_logged_tells_no_secret(yard: Any) -> None:
    @tool(requires_confirmation=True)
    def sign_in(password: SecretStr) -> None:
        """Sign in."""

    approver = Approver(True)
    yard.open(sign_in, approver=approver)

    assert yard.call("sign_in", password="hunter2").success
    assert "hunter2" in approver.asked[0].arguments
    assert "hunter2" not in repr(approver.asked[0])


def test_a_secret_in_edited_arguments_is_hidden_before_they_are_cut(yard: Any) -> None:
    @tool(requires_confirmation=True)
    def fail(path: str, password: SecretStr) -> ToolResult[None]:
        """Fail."""
        return ToolResult.error("It failed.")

    begin = '{"path":"","password":"hunter2'
    edit = ApprovalAnswer.edit(
        {"path": "b" * (MAX_ARGUMENTS - len(begin)), "password": "hunter2-very-secret"}
    )
    yard.open(fail, approver=Approver(edit))
    outcome = yard.call("fail", path="a", password="x")

    assert "hunter2" not in outcome.text
    assert outcome.text.endswith('"password":"***"}. It failed.')


def test_an_edit_that_changes_nothing_is_not_told(yard: Any) -> None:
    @tool(requires_confirmation=True)
    def fail(path: str) -> ToolResult[None]:
        """Fail."""
        return ToolResult.error(f"There is no {path}.")

    yard.open(fail, approver=Approver(ApprovalAnswer.edit('{ "path": "a" }')))

    assert yard.call("fail", path="a").text == "There is no a."


def test_where_nobody_answered_it_is_not_said_that_a_person_refused(yard: Any) -> None:
    answer = ApprovalAnswer.unanswered("No terminal is attached")
    yard.open(send, approver=Approver(answer))
    outcome = yard.call("send", to="Ada", amount=5)

    assert outcome.status is Status.DENIED
    assert outcome.text == (
        "send needs a person's approval (send requires confirmation). No terminal is attached. "
        "It cannot run here. Tell the user, or continue without it."
    )
    assert outcome.event.attributes["toolstile.approval"] == "unanswered"


def test_where_nobody_answered_and_no_reason_is_known_none_is_told(yard: Any) -> None:
    yard.open(send, approver=Approver(ApprovalAnswer.unanswered("")))

    assert yard.call("send", to="Ada", amount=5).text == (
        "send needs a person's approval (send requires confirmation). "
        "It cannot run here. Tell the user, or continue without it."
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"answer": Answer.EDITED}, "the edit has no arguments; write ApprovalAnswer.edit("),
        ({"answer": "approved"}, "answer is 'approved': input should be an instance of Answer"),
        ({"answer": Answer.DENIED, "reason": 3}, "reason is 3: input should be a valid string"),
    ],
)
def test_an_answer_that_says_nothing_denies_and_its_approver_is_told_what_to_write(
    yard: Any, caplog: pytest.LogCaptureFixture, fields: Any, told: str
) -> None:
    yard.open(send, approver=lambda request: ApprovalAnswer(**fields))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "asking for approval failed" in outcome.text
    assert told in caplog.text
    assert sent(yard) == []


def test_an_approver_that_raises_denies(yard: Any, caplog: pytest.LogCaptureFixture) -> None:
    yard.open(send, approver=Approver(RuntimeError("screen is off")))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "asking for approval failed" in outcome.text
    assert "screen is off" not in outcome.text
    assert "screen is off" in caplog.text
    assert sent(yard) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
def test_an_approver_that_does_not_answer_in_time_denies(yard: Any, is_async: bool) -> None:
    release = threading.Event()
    withdrawn: list[Any] = []

    def ask(request: ApprovalRequest) -> bool:
        withdrawn.append(request.withdrawn)
        release.wait(20)
        return True

    async def aask(request: ApprovalRequest) -> bool:
        withdrawn.append(request.withdrawn)
        await asyncio.sleep(20)
        return True

    settings = Settings(approval_timeout=0.2)
    yard.open(send, approver=aask if is_async else ask, host_options={"settings": settings})
    started = time.monotonic()
    outcome = yard.call("send", to="Ada", amount=5)
    release.set()

    assert time.monotonic() - started < 5
    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "the approval timed out" in outcome.text
    assert withdrawn[0].aborted
    assert sent(yard) == []


@pytest.mark.slow
def test_the_deadline_passing_while_a_person_is_asked_ends_the_evaluation(yard: Any) -> None:
    release = threading.Event()

    def ask(request: ApprovalRequest) -> bool:
        release.wait(20)
        return True

    yard.open(send, approver=ask, deadline=Deadline.after(0.3))
    with pytest.raises(PromptEvaluationError):
        yard.call("send", to="Ada", amount=5)
    release.set()

    assert sent(yard) == []
    assert [each.status for each in yard.events] == [Status.DEADLINE]


@pytest.mark.slow
def test_waiting_for_a_person_does_not_count_against_a_callers_timeout(yard: Any) -> None:
    def ask(request: ApprovalRequest) -> bool:
        time.sleep(2.5)
        return True

    @tool(timeout=2.0)
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call the other."""
        return ToolResult.ok(message=context.call("send", {"to": "Ada", "amount": 5}).text)

    yard.open(send, outer, approver=ask)

    assert yard.call("outer").text == "sent 5 to Ada"


def test_what_has_changed_while_a_person_was_asked_is_checked_again(yard: Any) -> None:
    def closed(params: Any) -> PolicyDecision | None:
        return PolicyDecision.deny("The bank has closed.") if shut else None

    shut: list[bool] = []

    def ask(request: ApprovalRequest) -> bool:
        shut.append(True)
        return True

    yard.open(send, approver=ask, policies=(Policy("closed", closed),))
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.stage, outcome.text) == (
        Status.DENIED,
        Stage.CHECK,
        "The bank has closed.",
    )
    assert sent(yard) == []


@pytest.mark.parametrize("shows_diff", [False, True])
def test_a_policy_that_comes_while_a_person_is_asked_is_asked(yard: Any, shows_diff: bool) -> None:
    class Closed:
        @hookimpl
        def toolstile_check(self) -> PolicyDecision:
            return PolicyDecision.deny("The bank has closed.")

    def ask(request: ApprovalRequest) -> bool:
        assert (request.diff is not None) is shows_diff
        yard.host.register(Closed())
        return True

    @tool(name="send", requires_confirmation=True, contained=True)
    def send_here(to: str, amount: int, *, context: ToolContext) -> None:
        """Send money within the session."""
        context.session[Sent].append(Sent(to, amount))

    settings = Settings(approve_diff=shows_diff)
    yard.open(send_here, approver=ask, host_options={"settings": settings})
    outcome = yard.call("send", to="Ada", amount=5)

    assert (outcome.status, outcome.text) == (Status.DENIED, "The bank has closed.")
    assert sent(yard) == []


@pytest.mark.parametrize("shows_diff", [False, True])
def test_a_policy_that_comes_then_hears_of_the_result(yard: Any, shows_diff: bool) -> None:
    told: list[str] = []

    class Watching:
        @hookimpl
        def toolstile_check(self, tool: Any) -> None:
            told.append(f"check {tool.name}")

        @hookimpl
        def toolstile_on_result(self, tool: Any) -> None:
            told.append(f"result of {tool.name}")

    def ask(request: ApprovalRequest) -> bool:
        yard.host.register(Watching())
        return True

    @tool(requires_confirmation=True, contained=True)
    def note() -> None:
        """Change nothing."""

    settings = Settings(approve_diff=shows_diff)
    yard.open(note, approver=ask, host_options={"settings": settings})
    assert yard.call("note").success
    assert told == ["check note", "result of note"]


def test_a_policy_that_goes_while_a_person_is_asked_holds_for_the_call(yard: Any) -> None:
    asked: list[bool] = []

    class Closing:
        @hookimpl
        def toolstile_check(self) -> PolicyDecision | None:
            return PolicyDecision.deny("The bank has closed.") if asked else None

    def ask(request: ApprovalRequest) -> bool:
        asked.append(True)
        yard.host.unregister("Closing")
        return True

    yard.open(send, approver=ask)
    yard.host.register(Closing(), "Closing")
    assert yard.call("send", to="Ada", amount=5).text == "The bank has closed."
    assert sent(yard) == []


def test_checks_after_the_wait_see_the_session_as_it_is_then(yard: Any) -> None:
    seen: list[int] = []

    class Looks:
        @hookimpl
        def toolstile_check(self, context: ToolContext) -> PolicyDecision:
            seen.append(len(context.session[Sent].all()))
            return PolicyDecision.ask("Really?")

    def ask(request: ApprovalRequest) -> bool:
        yard.session[Sent].append(Sent("meanwhile", 1))
        return True

    yard.open(send, approver=ask, plugins=(Looks(),))

    assert yard.call("send", to="Ada", amount=5).success
    assert seen == [0, 1]
    assert sent(yard) == [Sent("meanwhile", 1), Sent("Ada", 5)]


def test_an_ask_without_a_reason_says_who_asks(yard: Any) -> None:
    approver = Approver(True)
    silent = Policy("night", lambda _: PolicyDecision(allowed=True, asks=True))
    yard.open(send, approver=approver, policies=(silent,))

    assert yard.call("send", to="Ada", amount=5).success
    (request,) = approver.asked
    assert request.reasons == ("Policy night asks.", "send requires confirmation.")
    assert request.asked_by == ("night", "send requires confirmation.")


def test_every_reason_is_in_the_one_request(yard: Any) -> None:
    approver = Approver(True)
    policies = (
        Policy("night", lambda _: PolicyDecision.ask("It is night.")),
        Policy("again", lambda _: PolicyDecision.ask("It is night.")),
        Policy("amount", lambda params: PolicyDecision.ask(f"{params.amount} is a lot.")),
        Policy("quiet", lambda _: None),
    )
    yard.open(send, approver=approver, policies=policies)

    assert yard.call("send", to="Ada", amount=500).success
    (request,) = approver.asked
    assert request.reasons == ("It is night.", "500 is a lot.", "send requires confirmation.")
    assert request.asked_by == ("night", "again", "amount", "send requires confirmation.")


def test_a_denial_is_not_asked_about(yard: Any) -> None:
    approver = Approver(True)
    policies = (
        Policy("ask", lambda _: PolicyDecision.ask("Really?")),
        Policy("deny", lambda _: PolicyDecision.deny("Never.")),
    )
    yard.open(send, approver=approver, policies=policies)

    assert yard.call("send", to="Ada", amount=5).text == "Never."
    assert approver.asked == []


def test_the_approval_is_bound_to_the_tool_and_its_arguments(yard: Any) -> None:
    approver = Approver(True, True, True)
    yard.open(send, approver=approver)
    yard.call("send", to="Ada", amount=5)
    yard.call("send", amount=5, to="Ada")
    yard.call("send", to="Ada", amount=6)

    first, same, other = approver.asked
    assert first.arguments == '{"to":"Ada","amount":5}'
    assert first.digest == hashlib.sha256(b'send\0{"to":"Ada","amount":5}').hexdigest()
    assert first.digest == same.digest != other.digest


def test_a_request_shows_the_call_and_changes_nothing(yard: Any) -> None:
    faults: list[type[BaseException]] = []

    @tool(requires_confirmation=True)
    def store(items: list[str], *, context: ToolContext) -> ToolResult[list[str]]:
        """Store items."""
        return ToolResult.ok(items)

    def ask(request: ApprovalRequest) -> bool:
        assert request.call.name == "store"
        assert request.tool is store
        request.params.items.append("smuggled")
        try:
            request.context.session[Sent].append(Sent("Eve", 1))
        except StateError as error:
            faults.append(type(error))
        return True

    yard.open(store, approver=ask)

    assert yard.call("store", items=["a"]).result.value == ["a"]
    assert len(faults) == 1
    assert sent(yard) == []


def test_a_sync_approver_does_not_block_the_event_loop(make_yard: Any) -> None:
    yard = make_yard("async")
    asked, answered = threading.Event(), threading.Event()
    threads: list[int] = []

    def ask(request: ApprovalRequest) -> bool:
        threads.append(threading.get_ident())
        asked.set()
        return answered.wait(20)

    async def scenario() -> Any:
        call = asyncio.create_task(
            yard.tools.adispatch(ToolCall("send", {"to": "Ada", "amount": 5}))
        )
        await asyncio.to_thread(asked.wait, 20)
        answered.set()
        return await call

    yard.open(send, approver=ask)

    assert asyncio.run(scenario()).success
    assert threads != [threading.get_ident()]


class Person:
    """A plugin that can be configured as the approver."""

    def __init__(self, *answers: Any) -> None:
        self.approver = Approver(*answers)

    @hookimpl
    def toolstile_approve(self, request: ApprovalRequest) -> Any:
        return self.approver(request)


class AsyncPerson(Person):
    """One that waits."""

    @hookimpl
    async def toolstile_approve(self, request: ApprovalRequest) -> Any:
        await asyncio.sleep(0.001)
        return self.approver(request)


class Bystander(Person):
    """An approver that is not configured."""


@pytest.mark.parametrize("kind", [Person, AsyncPerson])
def test_the_configured_plugin_is_asked_and_no_other(yard: Any, kind: type[Person]) -> None:
    person, other = kind(True), Bystander(True)
    settings = Settings(approver=kind.__name__)
    yard.open(send, plugins=(person, other), host_options={"settings": settings})

    assert yard.call("send", to="Ada", amount=5).success
    assert len(person.approver.asked) == 1
    assert other.approver.asked == []


def test_a_plugin_that_is_not_configured_is_not_asked(yard: Any) -> None:
    person = Person(True)
    yard.open(send, plugins=(person,))

    assert "no one is available to approve it" in yard.call("send", to="Ada", amount=5).text
    assert person.approver.asked == []


def test_an_approver_given_in_python_wins_over_the_configured_one(yard: Any) -> None:
    person, given = Person(True), Approver(False)
    settings = Settings(approver="Person")
    options = {"settings": settings, "approver": given}
    yard.open(send, plugins=(person,), host_options=options)

    assert yard.call("send", to="Ada", amount=5).status is Status.DENIED
    assert person.approver.asked == []


def test_an_approver_that_is_not_there_is_told_when_the_host_opens() -> None:
    host = Host(discover=False, settings=Settings(approver="nobody"))
    with pytest.raises(ConfigurationError, match="approver = 'nobody'"), host:
        pass


class Mute:
    """A plugin that answers nobody."""

    @hookimpl
    def toolstile_telemetry(self) -> None:
        """Hear of every call."""


@pytest.mark.parametrize(
    ("name", "blocked", "told"),
    [
        ("zq", (), r"\(there are: Person\); install it, or name another\.$"),
        ("Parson", (), r"\(there are: Person\); did you mean 'Person'\?"),
        ("Mute", (), r"\(there are: Person\); name another\.$"),
        ("Mute", ("Mute",), r"\. It is switched off by --block or the application\. To use it"),
    ],
)
def test_why_the_configured_plugin_cannot_be_asked_is_told(
    name: str, blocked: tuple[str, ...], told: str
) -> None:
    settings = Settings(approver=name)
    host = Host(discover=False, settings=settings, plugins=[Person(), Mute()], block=blocked)
    with pytest.raises(ConfigurationError, match=told), host:
        pass


def test_a_tool_without_policies_needs_nobody(yard: Any) -> None:
    @tool
    def free() -> ToolResult[None]:
        """Be called freely."""
        return ToolResult.ok(message="done")

    approver = Approver()
    yard.open(free, approver=approver)

    assert yard.call("free").text == "done"
    assert approver.asked == []


def test_calls_of_a_batch_are_asked_about_one_after_the_other_in_their_order(yard: Any) -> None:
    approver = Approver(True, False, True)
    yard.open(send, approver=approver)
    outcomes = yard.dispatch_all(
        [ToolCall("send", {"to": "Ada", "amount": each}) for each in (1, 2, 3)]
    )

    assert [request.params.amount for request in approver.asked] == [1, 2, 3]
    assert [each.status for each in outcomes] == [
        Status.SUCCEEDED,
        Status.DENIED,
        Status.SUCCEEDED,
    ]
    assert sent(yard) == [Sent("Ada", 1), Sent("Ada", 3)]


def test_nobody_is_asked_any_longer_once_the_caller_is_given_up(make_yard: Any) -> None:
    asked, withdrawn = threading.Event(), threading.Event()

    def ask(request: ApprovalRequest) -> bool:
        request.withdrawn.on_cancel(withdrawn.set)
        asked.set()
        return withdrawn.wait(20)

    @tool
    def pay(*, context: ToolContext) -> str:
        """Send money to Ada."""
        return context.call("send", {"to": "Ada", "amount": 5}).text

    async def lose_the_caller() -> bool:
        paying = asyncio.create_task(tools.adispatch(ToolCall("pay")))
        await asyncio.to_thread(asked.wait, 20)
        paying.cancel()
        await asyncio.wait([paying])
        return await asyncio.to_thread(withdrawn.wait, 5)

    tools = make_yard("async").open(pay, send, approver=ask)
    assert asyncio.run(lose_the_caller())
