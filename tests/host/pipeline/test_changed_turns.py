# ruff: noqa: SIM117 - the host is opened before its executors
"""A person refuses or edits rows of a turn with one diff: the rest is run and shown again."""

from __future__ import annotations

import pytest

from toolstile import Host, Settings
from toolstile_cli.call_reports import Endings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    PolicyDecision,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    tool,
)

from .test_cards import Note, Person, Till, by_text, notes, ring, send
from .test_kept_turns import RUNS, Watcher, count, made, note, resumed, write

RUN: list[str] = []


@tool(contained=True)
def fleeting(text: str, context: ToolContext) -> str:
    """Add a note, at the first try only."""
    RUN.append(text)
    if len(RUN) > 1:
        raise ValueError("The first try is over.")
    context.session[Note].append(Note(text))
    return f"added {text}"


class Asks:
    """Asks about each call, and denies the text "no"."""

    name = "asks"

    def check(self, tool, params, *, context):
        if params.text == "no":
            return PolicyDecision.deny("The text no is not allowed.")
        return PolicyDecision.ask(f"Is {params.text} right?")

    def on_result(self, tool, params, result, *, context):
        return None


@pytest.fixture
def watcher():
    return Watcher()


def opened(person, watcher, **more):
    settings = Settings(approve_by="turn", approve_diff=True)
    tools = [write, count, fleeting, ring, send, note]
    return Host(
        discover=False, tools=tools, settings=settings, approver=person, plugins=[watcher], **more
    )


def texts(card):
    return [row.params.text for row in card.rows]


def edit(text):
    return ApprovalAnswer.edit({"text": text})


# --- refused rows


@RUNS
def test_without_a_refused_row_other_texts_of_the_rest_are_shown_and_kept(run, watcher):
    person = Person(by_text(a=True, b=False, c=True))
    batch = made("count a", "count b", "count c")
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["0a", "1c"]
    assert [texts(card) for card in person.cards] == [["a", "b", "c"], ["a", "c"]]
    assert "added 2: Note(text='0a'), Note(text='1c')" in person.cards[1].diff
    assert [each.text for each in outcomes] == [
        "counted 1",
        "A person did not approve count. Nothing of it is kept. Do not retry it unchanged.",
        "counted 2",
    ]
    assert watcher.ended[0].calls == (batch[0].id, batch[2].id)
    # The call that ended with another text than before has a second event.
    told = [(each.call_id, each.text) for each in watcher.events]
    assert (batch[2].id, "counted 3") in told
    assert told[-1] == (batch[2].id, "counted 2")


def test_the_rest_can_be_refused_again(watcher):
    person = Person(by_text(a=True, b=False, c=True), by_text(a=False, c=True))
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("count a", "count b", "count c"))
        assert notes(tools) == ["0c"]
    assert [each.text for each in outcomes if each.success] == ["counted 1"]
    assert [len(card.rows) for card in person.cards] == [3, 2, 1]


def test_a_call_that_fails_without_a_refused_row_says_so(watcher):
    RUN.clear()
    person = Person(by_text(a=False, b=True))
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("write a", "fleeting b"))
        assert notes(tools) == []
    assert [each.status for each in outcomes] == [Status.DENIED, Status.ERROR]
    assert "The first try is over." in outcomes[1].text
    assert len(person.cards) == 1  # because nothing is left to be approved


@RUNS
@pytest.mark.parametrize("refused", [False, True])
def test_questions_of_rules_are_asked_again_with_the_rest(run, refused, watcher):
    person = Person(by_text(a=True, b=not refused, c=True))
    batch = made("write a", "ring b", "write c")
    bound = {"resources": [Binding.instance(Till, till := Till())], "policies": [Asks()]}
    with opened(person, watcher, **bound) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["a", "c"]
    assert till.rows == ([] if refused else ["b"])
    assert [each.status for each in outcomes].count("succeeded") == (2 if refused else 3)
    asked = [[row.reasons[0] for row in card.rows] for card in person.cards]
    rest = [["Is a right?", "Is c right?"]] if refused else []
    assert asked == [["Is a right?", "Is b right?", "Is c right?"], *rest]


def test_a_transaction_is_not_kept_with_other_texts_than_a_model_has_read(watcher):
    person = Person(by_text(a=False, b=True))
    with opened(person, watcher) as host, host.executor() as tools:
        with pytest.raises(TransactionFailed, match="would end with another text"):
            with tools.transaction("x", approve=True) as work:
                work.dispatch_all(made("count a", "count b"))
        assert notes(tools) == []


# --- edited rows


@RUNS
def test_an_edited_row_is_run_and_shown_again(run, watcher):
    person = Person(by_text(a=edit("z"), b=ApprovalAnswer.deny("not b"), c=True))
    batch = made("write a", "write b", "count c")
    with opened(person, watcher, policies=[Asks()]) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["z", "1c"]
    assert [texts(card) for card in person.cards] == [["a", "b", "c"], ["z", "c"]]
    assert person.cards[1].rows[0].reasons[0] == "Is z right?"
    assert "Note(text='z')" in person.cards[1].diff
    assert outcomes[0].text == "wrote z"
    assert outcomes[0].event.params.text == "z"
    assert outcomes[0].call == batch[0]
    assert "not b" in outcomes[1].text
    assert outcomes[2].text == "counted 2"
    assert [each.params.text for each in watcher.events if each.call_id == batch[0].id] == [
        "a",
        "z",
    ]


def test_an_edited_row_is_not_reported_as_one_of_a_conflict(watcher):
    person = Person(by_text(a=edit("z"), b=True))
    with opened(person, watcher) as host, host.executor() as tools:
        endings, batch = Endings(tools.session), made("write a", "write b")
        outcomes = tools.dispatch_all(batch)
        notes_of = [endings.of(*each).notes for each in zip(batch, outcomes, strict=True)]
    assert notes_of[0][-1] == "run again; only the last run counts"
    assert "conflict" not in str(notes_of)


def test_an_edit_stays_when_the_rest_runs_again(watcher):
    person = Person(by_text(a=edit("z"), b=True), by_text(z=True, b=False))
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("write a", "count b"))
        assert notes(tools) == ["z"]
    assert [texts(card) for card in person.cards] == [["a", "b"], ["z", "b"], ["z"]]
    assert outcomes[0].text == "wrote z"


def test_an_edit_to_the_same_arguments_approves(watcher):
    person = Person(by_text(a=edit("a"), b=True))
    with opened(person, watcher) as host, host.executor() as tools:
        assert all(each.success for each in tools.dispatch_all(made("write a", "write b")))
    assert len(person.cards) == 1


def test_an_edit_that_a_rule_denies_is_denied_alone(watcher):
    person = Person(by_text(a=edit("no"), b=True))
    with opened(person, watcher, policies=[Asks()]) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("write a", "write b"))
        assert notes(tools) == ["b"]
    assert [texts(card) for card in person.cards] == [["a", "b"], ["b"]]
    assert outcomes[0].text == (
        'A person changed the arguments to {"text":"no"}, and these were denied: The text no is '
        "not allowed."
    )


@tool(contained=True, requires_confirmation=True)
def pay(amount: int, context: ToolContext) -> str:
    """Note a payment."""
    context.session[Note].append(Note(str(amount)))
    return f"paid {amount}"


@pytest.mark.parametrize("by", ["call", "turn"])
@pytest.mark.parametrize("scope", ["session", "global"])
@pytest.mark.parametrize("window", [None, 1000.0])
def test_an_edit_takes_its_place_and_gives_the_first_one_back(by, scope, window):
    edits = {60: ApprovalAnswer.edit({"amount": 50}), 1: ApprovalAnswer.edit({"amount": 500})}

    class Teller(Person):
        def __call__(self, request):
            return edits.get(request.params.amount, True)

    def answer(card):
        return {row.call.id: edits.get(row.params.amount, True) for row in card.rows}

    person = Teller(*[answer] * 5)
    quota = {"kind": "quota", "name": "payments", "tools": ["pay"], "sum": "amount"}
    quota |= {"max_sum": 100, "max_calls": 4, "scope": scope, "window": window}
    settings = Settings(approve_by=by, approve_diff=True, policies=[quota])
    with Host(tools=[pay], settings=settings, approver=person) as host, host.executor() as tools:
        batch = [ToolCall("pay", {"amount": amount}) for amount in (60, 2, 1)]
        outcomes = tools.dispatch_all(batch)
        assert [each.status for each in outcomes] == ["succeeded", "succeeded", "denied"]
        assert "Quota exceeded: amount is 500, " in outcomes[2].text
        assert tools.dispatch(ToolCall("pay", {"amount": 48})).success
        assert "of 100 are left" in tools.dispatch(ToolCall("pay", {"amount": 5})).text
        assert notes(tools) == ["50", "2", "48"]


@RUNS
@pytest.mark.parametrize("others", ["kept", "refused", "misfit"])
def test_an_edit_that_does_not_fit_is_refused_alone(run, others, watcher):
    misfit = ApprovalAnswer.edit({"words": "z"})
    answers = {"kept": True, "refused": False, "misfit": misfit}
    person = Person(by_text(a=misfit, b=answers[others]))
    with opened(person, watcher) as host, host.executor() as tools:
        first, second = run(tools, made("write a", "write b"))
        assert notes(tools) == (["b"] if others == "kept" else [])
    assert first.text.startswith("A person changed the arguments of write to ones that do not fit")
    assert "words" in first.text
    assert first.text.endswith("Retry it to ask for approval again.")
    status = {"kept": "succeeded", "refused": "denied", "misfit": "invalid"}[others]
    assert (first.status, second.status) == ("invalid", status)
    assert len(person.cards) == (2 if others == "kept" else 1)


def test_a_turn_that_is_edited_without_end_is_denied(watcher):
    def longer(card):
        return {row.call.id: edit(f"{row.params.text}+") for row in card.rows}

    person = Person(*[longer] * 30)
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("write a", "write b"))
        assert notes(tools) == []
    assert {each.status for each in outcomes} == {Status.DENIED}
    assert "This requires human intervention." in outcomes[0].text
    assert len(person.cards) == 21


def test_a_row_of_a_transaction_is_left_out_rather_than_edited(watcher):
    person = Person(by_text(a=edit("z"), b=True))
    with opened(person, watcher) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            work.dispatch_all(made("write a", "write b"))
        assert notes(tools) == ["b"]


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("within", ["child", "transaction"])
def test_a_transaction_shows_the_calls_of_a_part_that_has_ended(within, refused, watcher):
    person = Person(by_text(a=True, b=not refused, c=True))
    with opened(person, watcher) as host, host.executor() as tools:
        with tools.transaction("x", approve=True) as work:
            part = work.child("reader", tools=["note"]) if within == "child" else None
            with part or work.transaction("y") as inner:
                inner.dispatch_all(made("note a", "note b"))
            work.dispatch(made("note c")[0])
        assert notes(tools) == (["a", "c"] if refused else ["a", "b", "c"])
    assert texts(person.cards[0]) == ["a", "b", "c"]


class Later:
    """Leaves the first card for later, and approves the next one."""

    def __init__(self):
        self.cards = []

    def __call__(self, request):
        return True

    def turn(self, card):
        self.cards.append(card)
        if len(self.cards) > 1:
            return True
        self.kept = [
            (row.call.name, row.arguments, row.call.id, row.token(), row.change_set().to_json())
            for row in card.rows
        ]
        return ApprovalAnswer.pending("t-1", "Wait.")


def test_a_turn_that_waited_is_edited_when_it_is_resumed(watcher):
    later = Later()
    with opened(later, watcher) as host, host.executor() as tools:
        assert {each.status for each in tools.dispatch_all(made("write a", "count b"))} == {
            Status.PENDING
        }
        calls, given = resumed(later.kept, edit("z"), True)
        outcomes = tools.dispatch_all(calls, resumed=given)
        assert [each.text for each in outcomes] == ["wrote z", "counted 2"]
        assert notes(tools) == ["z", "1b"]
    assert [texts(card) for card in later.cards] == [["a", "b"], ["z", "b"]]


@pytest.mark.parametrize("rest", [[], ["b"]])
def test_a_row_of_a_transaction_that_waited_is_left_out_rather_than_edited(rest, watcher):
    later = Later()
    with opened(later, watcher) as host, host.executor() as tools:
        with pytest.raises(TransactionFailed, match="waits for a person's approval"):
            with tools.transaction("x", approve=True) as work:
                work.dispatch_all(made("write a", *[f"write {text}" for text in rest]))
        calls, given = resumed(later.kept, edit("z"), *[True for _ in rest])
        first, *others = tools.dispatch_all(calls, resumed=given)
        assert first.status is Status.DENIED
        assert all(each.success for each in others)
        assert notes(tools) == rest
    assert [texts(card) for card in later.cards] == [["a", *rest], *([rest] if rest else [])]


@pytest.mark.parametrize("answer", [edit("z"), ApprovalAnswer.deny("no")])
def test_the_only_call_of_a_transaction_is_refused_later_also_if_no_rule_asks(answer, watcher):
    later = Later()
    with Host(discover=False, tools=[note], approver=later) as host, host.executor() as tools:
        with pytest.raises(TransactionFailed, match="waits for a person's approval"):
            with tools.transaction("x", approve=True) as work:
                work.dispatch(made("note a")[0])
        calls, given = resumed(later.kept, answer)
        assert tools.dispatch_all(calls, resumed=given)[0].status is Status.DENIED
        assert notes(tools) == []


# --- with calls that have no diff


@RUNS
def test_calls_without_a_diff_are_asked_about_on_a_card_before(run, watcher):
    person = Person(by_text(b=True, d=False), by_text(a=True, c=False, e=True))
    batch = made("write a", "send b", "write c", "send d", "note e")
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["a", "e"]
    assert [texts(card) for card in person.cards] == [["b", "d"], ["a", "c", "e"], ["a", "e"]]
    assert [card.diff is None for card in person.cards] == [True, False, False]
    assert person.requests == []
    statuses = ["succeeded", "succeeded", "denied", "denied", "succeeded"]
    assert [each.status for each in outcomes] == statuses
    assert watcher.ended[0].calls == (batch[0].id, batch[4].id)


def test_what_is_kept_is_not_undone_if_the_card_after_it_is_refused(watcher):
    person = Person(ApprovalAnswer.deny("not today"))
    with opened(person, watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("write a", "send b", "write c"))
        assert notes(tools) == []
    assert [each.status for each in outcomes] == ["denied", "succeeded", "denied"]
    assert [request.params.text for request in person.requests] == ["b"]


@RUNS
def test_a_turn_that_is_not_kept_names_the_calls_that_are(run, watcher):
    person = Person(lambda card: host.stop("The prices are wrong.") or True)
    with opened(person, watcher) as host, host.executor() as tools:
        first, sent, third = run(tools, made("write a", "send b", "write c"))
    assert sent.success
    for each in (first, third):
        assert each.text == (
            "This turn was stopped: The prices are wrong. Its changes are rolled back. Do not "
            "retry it: tell the user, or continue without it. These other calls stay: "
            f"send ({sent.call.id})."
        )


# --- no answer


def failing(card):
    raise OSError("no line")


@RUNS
def test_each_row_says_that_the_approver_failed_and_nothing_is_kept(run, watcher):
    bound = {"resources": [Binding.instance(Till, Till())]}
    with opened(Person(failing), watcher, **bound) as host, host.executor() as tools:
        outcomes = run(tools, made("write a", "ring b", "write a"))
        assert notes(tools) == []
    told = (
        "This turn needs a person's approval, but asking for approval failed. Nothing of it is "
        "kept. Tell the user, or retry later."
    )
    assert [each.text for each in outcomes] == [told, told, told]
    assert {each.status for each in outcomes} == {Status.DENIED}


def test_equal_rows_are_refused_and_edited_apart():
    first, second = ToolCall("write", {"text": "a"}), ToolCall("write", {"text": "a"})
    person = Person({first.id: False, second.id: edit("z")})
    with opened(person, Watcher()) as host, host.executor() as tools:
        outcomes = tools.dispatch_all([first, second])
        assert notes(tools) == ["z"]
    assert [each.status for each in outcomes] == ["denied", "succeeded"]
