# ruff: noqa: PT012, SIM117 - the executor is opened before its transactions
"""A transaction whose card is answered later is kept as it was shown, or shown again."""

from __future__ import annotations

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    IdempotencyConfig,
    Status,
    ToolContext,
    TransactionFailed,
    tool,
)

from .test_cards import Note, Till, notes, ring
from .test_kept_turns import RAN, made

NO = ApprovalAnswer.deny("no")


@tool(contained=True)
def copy(text: str, context: ToolContext) -> str:
    """Copy the last note."""
    RAN.append(text)
    last = next((each.text for each in reversed(context.session[Note].all())), "nothing")
    context.session[Note].append(Note(f"{text} {last}"))
    return f"copied {text}"


@tool(contained=True)
def size(text: str, context: ToolContext) -> str:
    """Tell the number of notes, and change something else."""
    context.session[str].append(text)
    return f"{len(context.session[Note].all())} notes"


class Later:
    """Leaves the first card for later, and approves all others."""

    def __init__(self, *answers):
        self.cards, self.answers = [], answers

    def __call__(self, request):
        self.cards.append(request)
        return True

    def turn(self, card):
        self.cards.append(card)
        return ApprovalAnswer.pending("t-1") if len(self.cards) == 1 else True

    def resumed(self, *answers):
        rows = self.cards[0].rows
        given = {
            row.call.id: (row.token(), answer, row.change_set())
            for row, answer in zip(rows, answers, strict=True)
        }
        return [row.call for row in rows], given


@pytest.fixture
def later():
    RAN.clear()
    return Later()


@pytest.fixture
def desk(later, tmp_path, monkeypatch):
    """Return an executor, and the bank of its tool `pay`."""
    monkeypatch.chdir(tmp_path)
    bank = []

    def refund(params, result, key, context):
        bank.append(f"back {params.text}")

    @tool(idempotency=IdempotencyConfig(), undo=refund)
    def pay(text: str) -> str:
        """Pay."""
        bank.append(text)
        return f"paid {text}"

    plugins = {
        "ledger": {"path": str(tmp_path / "l.db"), "reconcile_every": 0},
        "undo": {"path": str(tmp_path / "undo")},
    }
    host = Host(
        tools=[copy, size, pay, ring],
        settings=Settings(plugins=plugins),
        approver=later,
        resources=[Binding(Till, lambda _: Till())],
    )
    with host, host.executor() as tools:
        yield tools, bank


def leave(tools, *calls):
    with pytest.raises(TransactionFailed, match="waits for a person's approval"):
        with tools.transaction("trip", approve=True) as work:
            for each in made(*calls):
                assert work.dispatch(each).success


def move(tools):
    tools.session[Note].append(Note("moved"))


@pytest.mark.parametrize("calls", [["copy a"], ["copy a", "copy b"]])
def test_it_is_shown_again_if_its_base_has_moved_also_if_no_rule_asks(calls, desk, later):
    tools, _ = desk
    leave(tools, *calls)
    move(tools)
    batch, given = later.resumed(*[True] * len(calls))
    assert all(each.success for each in tools.dispatch_all(batch, resumed=given))
    first, second = later.cards
    assert "a nothing" in first.diff
    assert "a moved" in second.diff
    assert notes(tools) == ["moved", "a moved", *["b a moved" for _ in calls[1:]]]


def test_the_rest_of_a_refused_one_is_shown_again_if_its_base_has_moved(desk, later):
    tools, _ = desk
    leave(tools, "copy a", "copy b")
    move(tools)
    batch, given = later.resumed(True, NO)
    kept, refused = tools.dispatch_all(batch, resumed=given)
    assert (kept.success, refused.status) == (True, Status.DENIED)
    assert "a moved" in later.cards[1].diff


def test_a_child_shows_it_again(desk, later):
    tools, _ = desk
    with tools.child("reader") as child:
        leave(child, "copy a", "copy b")
        move(tools)
        batch, given = later.resumed(True, True)
        assert all(each.success for each in child.dispatch_all(batch, resumed=given))
    assert "a moved" in later.cards[1].diff


@pytest.mark.parametrize("calls", [["copy a"], ["copy a", "copy b"]])
@pytest.mark.parametrize("other", ["parent", "sibling", "grandchild"])
def test_only_a_child_of_its_path_resumes_it(other, calls, desk, later):
    tools, _ = desk
    with tools.child("reader") as child:
        leave(child, *calls)
        batch, given = later.resumed(*[True] * len(calls))
        made = {"sibling": tools, "grandchild": child}.get(other)
        stranger = tools if made is None else made.child("writer")
        for outcome in stranger.dispatch_all(batch, resumed=given):
            assert outcome.status is Status.DENIED
            assert "The approval belongs to another agent." in outcome.text
        assert notes(tools) == []
    with tools.child("reader") as child:
        assert all(each.success for each in child.dispatch_all(batch, resumed=given))


@pytest.mark.parametrize("calls", [["size a"], ["size a", "size b"]])
def test_it_is_shown_again_if_a_text_has_changed_but_no_diff(calls, desk, later):
    tools, _ = desk
    leave(tools, *calls)
    move(tools)
    batch, given = later.resumed(*[True] * len(calls))
    assert {each.text for each in tools.dispatch_all(batch, resumed=given)} == {"1 notes"}
    first, second = later.cards
    assert first.diff == second.diff


@pytest.mark.parametrize("moves", [False, True])
def test_one_with_an_effect_outside_is_shown_again_only_if_its_changes_differ(moves, desk, later):
    tools, bank = desk
    leave(tools, "copy a", "pay x", "copy b")
    assert bank == ["x", "back x"]
    bank.clear()
    if moves:
        move(tools)
    batch, given = later.resumed(True, True, True)
    assert all(each.success for each in tools.dispatch_all(batch, resumed=given))
    assert bank == ["x"]
    assert len(later.cards) == 1 + moves
    assert notes(tools)[-1] == ("b a moved" if moves else "b a nothing")


# --- with an effect outside


class Refusing(Later):
    """Refuses the rows of some texts, and keeps the cards."""

    def turn(self, card):
        self.cards.append(card)
        return {row.call.id: row.params.text not in self.answers for row in card.rows}


def paid_for(desk, *calls, refusing):
    tools, bank = desk
    tools.approver = person = Refusing(*refusing)
    work = tools.transaction("trip", approve=True)
    for each in made(*calls):
        assert work.dispatch(each).success
    return work, bank, person


def test_an_effect_outside_is_not_repeated_because_another_row_is_refused(desk):
    work, bank, person = paid_for(desk, "pay x", "copy a", "size b", refusing="a")
    with pytest.raises(TransactionFailed, match="The rest would repeat the effect of pay"):
        work.commit()
    assert bank == ["x", "back x"]
    assert len(person.cards) == 1
    assert person.cards[0].diff.endswith("done, and undone if it is not kept: pay")


def test_a_refused_effect_outside_is_undone_and_the_rest_is_kept(desk):
    work, bank, person = paid_for(desk, "pay x", "copy a", refusing="x")
    work.commit()
    assert bank == ["x", "back x"]
    assert "pay" not in person.cards[1].diff
    assert notes(desk[0]) == ["a nothing"]


def test_a_later_refusal_does_not_repeat_an_effect_outside(desk, later):
    tools, bank = desk
    leave(tools, "pay x", "copy a", "copy b")
    bank.clear()
    batch, given = later.resumed(True, True, NO)
    outcomes = tools.dispatch_all(batch, resumed=given)
    assert {each.status for each in outcomes} == {Status.DENIED}
    assert bank == ["x", "back x"]
    assert "The rest would repeat the effect of pay" in outcomes[0].text
    assert notes(tools) == []


def test_an_effect_outside_is_not_repeated_because_a_resource_is_given_back(desk):
    work, bank, person = paid_for(desk, "pay x", "ring a", refusing="")
    with pytest.raises(TransactionFailed, match="so it would repeat the effect of pay"):
        work.commit()
    assert (bank, person.cards) == (["x", "back x"], [])
