# ruff: noqa: PT012, SIM117 - a transaction is a block of several statements
"""The questions of a turn, or of a transaction, stand on one card."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    Cancellation,
    Deadline,
    PolicyDecision,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Note:
    text: str


@tool(requires_confirmation=True)
def send(text: str) -> str:
    """Send something, for good."""
    return f"sent {text}"


@tool
def look() -> str:
    """Look around."""
    return "nothing"


@tool(contained=True)
def note(text: str, context: ToolContext) -> str:
    """Add a note."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(contained=True, requires_confirmation=True)
def erase(context: ToolContext) -> str:
    """Remove all notes."""
    context.session[Note].clear()
    return "erased"


class Till:
    """An exclusive resource."""

    def __init__(self):
        self.rows = []

    def begin(self):
        return len(self.rows)

    def commit(self, savepoint):
        return None

    def rollback(self, savepoint):
        del self.rows[savepoint:]


@tool(contained=True)
def ring(text: str, context: ToolContext) -> str:
    """Put a row in the till."""
    context.resources.get(Till).rows.append(text)
    return f"rang {text}"


class Person:
    """Answers cards and single questions as told, and keeps them."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.cards, self.requests = [], []

    def __call__(self, request):
        self.requests.append(request)
        return True

    def turn(self, card):
        self.cards.append(card)
        answer = self.answers.pop(0) if self.answers else True
        return answer(card) if callable(answer) else answer


def by_text(**answers):
    """Answer rows by their argument, the last row first."""
    return lambda card: {row.call.id: answers[row.params.text] for row in reversed(card.rows)}


def opened(person, by="turn", **more):
    return Host(
        discover=False,
        tools=[send, look, note, erase, ring],
        settings=Settings(approve_by=by),
        approver=person,
        **more,
    )


def calls(*texts):
    return [ToolCall("send", {"text": text}) for text in texts]


def notes(tools):
    return [each.text for each in tools.session[Note].all()]


# --- a turn


def run(tools, batch, driver):
    if driver == "sync":
        return tools.dispatch_all(batch)
    return asyncio.run(tools.adispatch_all(batch))


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_the_questions_of_a_batch_come_on_one_card_in_call_order(driver):
    person = Person(by_text(a=True, b=ApprovalAnswer.deny("not this one"), c=True))
    batch = calls("a", "b", "c")
    batch.insert(1, ToolCall("look"))
    with opened(person) as host, host.executor() as tools:
        outcomes = run(tools, batch, driver)
    assert [each.status for each in outcomes] == ["succeeded", "succeeded", "denied", "succeeded"]
    assert "not this one" in outcomes[2].text
    [card] = person.cards
    assert [row.params.text for row in card.rows] == ["a", "b", "c"]
    assert card.diff is None
    assert person.requests == []


def test_two_calls_with_the_same_arguments_are_told_apart():
    first, second = calls("a", "a")
    person = Person({second.id: True, first.id: False})
    with opened(person) as host, host.executor() as tools:
        outcomes = tools.dispatch_all([first, second])
    assert [each.status for each in outcomes] == ["denied", "succeeded"]


def test_one_answer_counts_for_all_rows_and_a_row_without_answer_is_denied():
    person = Person(True, False, {})
    with opened(person) as host, host.executor() as tools:
        for expected in ("succeeded", "denied", "denied"):
            assert {each.status for each in tools.dispatch_all(calls("a", "b"))} == {expected}


def test_one_question_of_a_batch_is_asked_by_itself():
    person = Person()
    with opened(person) as host, host.executor() as tools:
        tools.dispatch_all([*calls("a"), ToolCall("look")])
    assert (len(person.requests), person.cards) == (1, [])


def test_pending_rows_are_resumed_one_by_one():
    person = Person(ApprovalAnswer.pending("t-1"))
    batch = calls("a", "b")
    with opened(person) as host, host.executor() as tools:
        first, second = tools.dispatch_all(batch)
        assert {first.status, second.status} == {Status.PENDING}
        resumed = tools.resume(second.call, second.approval_token, True)
        assert resumed.text == "sent b"
        denied = tools.resume(first.call, second.approval_token, True)
        assert denied.status is Status.DENIED


def test_places_are_taken_in_the_order_of_the_calls():
    class Two:
        name = "two"
        taken = 0

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            if self.taken == 2:
                return PolicyDecision.deny("There are no places left.")
            self.taken += 1
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    for _ in range(5):
        with opened(Person(), policies=[Two()]) as host, host.executor() as tools:
            batch = [*calls("a"), ToolCall("note", {"text": "n"}), *calls("b", "c")]
            statuses = [each.status for each in tools.dispatch_all(batch)]
        assert statuses == ["succeeded", "succeeded", "denied", "denied"]


def test_an_edited_row_runs_as_edited():
    person = Person(by_text(a=ApprovalAnswer.edit({"text": "z"}), b=True))
    with opened(person) as host, host.executor() as tools:
        assert [each.text for each in tools.dispatch_all(calls("a", "b"))] == ["sent z", "sent b"]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_an_approver_that_fails_denies_all(driver):
    def fail(card):
        raise OSError("no line")

    with opened(Person(fail)) as host, host.executor() as tools:
        outcomes = run(tools, calls("a", "b", "c"), driver)
    told = (
        "send needs a person's approval (send requires confirmation), but asking for approval "
        "failed. Tell the user, or retry later."
    )
    assert [each.text for each in outcomes] == [told, told, told]
    assert {each.status for each in outcomes} == {"denied"}


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_call_that_ends_before_its_card_is_shown_does_not_hold_up_the_others(driver):
    cancellation = Cancellation()

    class Slow:
        name = "slow"

        def check(self, tool, params, *, context):
            if params.text == "b":
                cancellation.cancel()
                time.sleep(0.1)

        def on_result(self, tool, params, result, *, context):
            return None

    batch = calls("a", "b", "c")
    batch[0] = ToolCall("send", {"text": "a"}, cancellation=cancellation)
    with opened(Person(), policies=[Slow()]) as host:
        with host.executor(deadline=Deadline.after(20)) as tools:
            first, *others = run(tools, batch, driver)
    assert first.status is Status.CANCELLED
    for each in others:
        assert each.text.endswith(
            "but the call that asked for this turn ended before the answer. Retry it."
        )


def test_without_turn_or_without_the_key_each_call_is_asked_about_by_itself():
    person = Person()
    with opened(person, by="call") as host, host.executor() as tools:
        tools.dispatch_all(calls("a", "b"))
    assert (len(person.requests), len(person.cards)) == (2, 0)
    asked = []
    with opened(lambda request: asked.append(request) or True) as host, host.executor() as tools:
        tools.dispatch_all(calls("a", "b"))
    assert len(asked) == 2


def test_a_plugin_answers_cards_by_a_hook():
    class Desk:
        def __init__(self):
            self.cards = []

        @hookimpl
        def toolstile_approve(self, request):
            return False

        @hookimpl
        def toolstile_approve_turn(self, card):
            self.cards.append(card)
            return True

    desk = Desk()
    settings = Settings(approver="desk", approve_by="turn")
    host = Host(discover=False, tools=[send], settings=settings)
    host.register(desk, name="desk")
    with host, host.executor() as tools:
        assert all(each.success for each in tools.dispatch_all(calls("a", "b")))
    assert len(desk.cards) == 1


# --- a transaction


def test_a_transaction_is_shown_with_its_calls_and_one_diff_before_it_is_kept():
    person = Person()
    with opened(person) as host, host.executor() as tools:
        with tools.transaction("two notes", approve=True) as work:
            work.dispatch(ToolCall("note", {"text": "a"}))
            work.dispatch(ToolCall("note", {"text": "b"}))
            assert person.cards == []
        assert notes(tools) == ["a", "b"]
    [card] = person.cards
    assert (card.title, [row.params.text for row in card.rows]) == ("two notes", ["a", "b"])
    assert "added 2" in card.diff


def test_an_approver_has_resources_for_the_rows_of_a_transaction():
    def look(card):
        return all(row.context.resources.get(str) == "desk" for row in card.rows)

    bound = [Binding.instance(str, "desk"), Binding.instance(Till, Till())]
    with opened(Person(look), resources=bound) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            work.dispatch(ToolCall("note", {"text": "a"}))
            work.dispatch(ToolCall("ring", {"text": "b"}))
        assert notes(tools) == ["a"]


def test_questions_of_single_calls_wait_for_the_card():
    person = Person()
    with opened(person) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            work.dispatch(ToolCall("note", {"text": "a"}))
            assert work.dispatch(ToolCall("erase")).success
        assert notes(tools) == []
    assert person.requests == []
    assert person.cards[0].rows[1].reasons == ("erase requires confirmation.",)


def test_a_refused_transaction_leaves_nothing():
    with opened(Person(ApprovalAnswer.deny("not today"))) as host, host.executor() as tools:
        with pytest.raises(TransactionFailed, match=r"was not approved \(not today\)"):
            with tools.transaction("x", approve=True) as work:
                work.dispatch(ToolCall("note", {"text": "a"}))
        assert notes(tools) == []


def test_without_a_refused_row_the_rest_runs_again_and_is_shown_again():
    person = Person(by_text(a=True, b=False), True)
    with opened(person) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            work.dispatch(ToolCall("note", {"text": "a"}))
            work.dispatch(ToolCall("note", {"text": "b"}))
        assert notes(tools) == ["a"]
    assert [len(card.rows) for card in person.cards] == [2, 1]
    assert "added Note(text='a')" in person.cards[1].diff


def test_plugins_hear_once_that_a_refused_row_is_rolled_back():
    class Watcher:
        def __init__(self):
            self.heard = []

        @hookimpl
        def toolstile_rollback(self, context, reason):
            self.heard.append((context.tool_call.arguments["text"], reason))

    for answers, heard in (
        ((by_text(a=False, b=True), True), [("a", "A person refused it.")]),
        ((by_text(a=False, b=True), False), ["a", "b"]),
    ):
        watcher = Watcher()
        with opened(Person(*answers), plugins=[watcher]) as host, host.executor() as tools:
            work = tools.transaction("x", approve=True)
            for text in ("a", "b"):
                work.dispatch(ToolCall("note", {"text": text}))
            if len(heard) == 1:
                work.commit()
                assert watcher.heard == heard
            else:
                with pytest.raises(TransactionFailed):
                    work.commit()
                assert [text for text, _ in watcher.heard] == heard


def test_nothing_is_locked_while_the_person_thinks():
    till = Till()
    other = []

    def think(card):
        with host.executor() as elsewhere:
            other.append(elsewhere.dispatch(ToolCall("ring", {"text": "other"})).text)
        till.rows.clear()
        return True

    host = opened(Person(think), resources=[Binding.instance(Till, till)])
    with host, host.executor() as tools, tools.transaction("x", approve=True) as work:
        work.dispatch(ToolCall("ring", {"text": "a"}))
        work.dispatch(ToolCall("note", {"text": "n"}))
    assert other == ["rang other"]
    assert till.rows == ["a"]


def test_nothing_is_kept_if_the_changes_come_out_differently_after_the_yes():
    def think(card):
        tools.dispatch(ToolCall("note", {"text": "other"}))
        return True

    with opened(Person(think)) as host, host.executor() as tools:
        tools.dispatch(ToolCall("note", {"text": "first"}))
        with pytest.raises(TransactionFailed, match="came out differently"):
            with tools.transaction("x", approve=True) as work:
                work.dispatch(ToolCall("erase"))
                work.dispatch(ToolCall("note", {"text": "a"}))
        assert notes(tools) == ["first", "other"]


def test_a_transaction_within_another_cannot_be_pending():
    with opened(Person(ApprovalAnswer.pending())) as host, host.executor() as tools:
        with tools.transaction("outer") as outer:
            with pytest.raises(TransactionFailed, match="cannot wait for a later answer"):
                with outer.transaction("x", approve=True) as work:
                    work.dispatch(ToolCall("note", {"text": "a"}))
        assert notes(tools) == []


def test_an_approver_that_takes_no_cards_is_refused_at_the_beginning():
    with opened(lambda request: True) as host, host.executor() as tools:
        with pytest.raises(StateError, match="takes the card"):
            tools.transaction("x", approve=True)


def test_threads_in_one_transaction_meet_one_card():
    person = Person()
    with opened(person) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            threads = [
                threading.Thread(target=work.dispatch, args=(ToolCall("note", {"text": str(n)}),))
                for n in range(4)
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        assert sorted(notes(tools)) == ["0", "1", "2", "3"]
    assert [len(card.rows) for card in person.cards] == [4]
