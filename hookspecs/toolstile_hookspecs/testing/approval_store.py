"""The conformance suite of stores of questions to a person, to subclass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolstile_hookspecs.approval import Answer
from toolstile_hookspecs.execution.principal import Principal
from toolstile_hookspecs.services.approval_store import (
    OPEN,
    AnswerRecord,
    ApprovalStore,
    EventRecord,
    GrantRecord,
    Listener,
    Question,
    QuestionState,
)
from toolstile_hookspecs.testing.suite import StoreContract, at, at_once

_ADA = Principal("https://id.example.org", "ada", groups={"staff"})


def question_of(ticket: str = "t1", **other: Any) -> Question:
    """Return a question of second 0 that expires at second 60; `other` replaces fields."""
    fields: dict[str, Any] = {
        "ticket": ticket,
        "call_id": f"call-{ticket}",
        "tool": "pay",
        "category": "write",
        "consequence": "high",
        "reasons": ("Payments need a person.",),
        "arguments": '{"to":"größer 🍵","token":"***"}',
        "digest": "0123abcd",
        "session_id": "s",
        "principal": _ADA,
        "created": at(0),
        "expires": at(60),
        "sealed": b"\x00\xff",
        **other,
    }
    return Question(**fields)


def answer_of(answer: Answer = Answer.APPROVED, seconds: float = 1, **other: Any) -> AnswerRecord:
    """Return an answer; `other` replaces fields."""
    fields: dict[str, Any] = {"by": _ADA, "via": "command line", "at": at(seconds), **other}
    return AnswerRecord(answer, **fields)


def event_of(sealed: bytes, seconds: float = 1, session_id: str = "s") -> EventRecord:
    """Return an event."""
    return EventRecord(session_id, at(seconds), sealed)


def told(
    store: ApprovalStore, seconds: float = 9, listener: Listener = "record", **more: Any
) -> list[bytes]:
    """Return the contents of the events that a listener hears at a second."""
    heard: list[EventRecord] = []
    store.tell(listener, at(seconds), heard.append, **more)
    return [event.sealed for event in heard]


class ApprovalStoreContract(StoreContract, store=ApprovalStore, again=ApprovalStore):
    """Tests of a store of questions; see `StoreContract` for its fixtures."""

    def test_an_unknown_ticket_is_no_question(self, store: ApprovalStore) -> None:
        assert store.get("t1") is None
        assert store.answer("t1", answer_of()) is None
        assert not store.claim("t1", "worker", at(1), at(9))
        assert list(store.questions()) == []

    @pytest.mark.parametrize(
        "other",
        [
            {},
            {"principal": None, "owner": "run-1"},
            {"asked_by": ("spending", "It calls pay."), "definition": "4567cdef"},
            {"diff": "- a\n+ b", "shown_before": "- a\n+ c", "reasons": (), "turn": "t"},
        ],
        ids=["plain", "nobody's", "defined", "shown"],
    )
    def test_a_question_is_read_as_it_was_kept(
        self, store: ApprovalStore, again: ApprovalStore, other: dict[str, Any]
    ) -> None:
        """Every field, also groups of the principal, which are part of no comparison."""
        question = question_of(**other)
        store.add(question)
        found = again.get("t1")
        assert found == question
        assert found is not None
        assert (found.principal is None) is (question.principal is None)
        if found.principal is not None:
            assert found.principal.groups == {"staff"}
        assert list(again.questions()) == [question]

    def test_a_ticket_is_kept_once(self, store: ApprovalStore, again: ApprovalStore) -> None:
        """Two processes that ask about one call at once keep one question."""
        expiry = EventRecord("s", at(60), b"expired")
        store.add(question_of(), expiry)
        again.add(question_of(sealed=b"of another process"), expiry)
        assert list(again.questions()) == [question_of()]

    def test_questions_are_found_by_session_and_state(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        store.add(question_of("t2", created=at(2)))
        store.add(question_of("t1", created=at(1)))
        store.add(question_of("t3", created=at(3), session_id="other"))
        store.answer("t2", answer_of(seconds=4))
        assert [found.ticket for found in again.questions()] == ["t1", "t2", "t3"]
        assert [found.ticket for found in again.questions(session_id="s")] == ["t1", "t2"]
        assert [found.ticket for found in again.questions({QuestionState.APPROVED})] == ["t2"]

    @pytest.mark.parametrize("answer", [Answer.APPROVED, Answer.DENIED, Answer.EDITED])
    def test_an_answer_is_kept_with_who_gave_it(
        self, store: ApprovalStore, again: ApprovalStore, answer: Answer
    ) -> None:
        store.add(question_of())
        given = answer_of(answer, reason="No.", sealed=b"\x01")
        answered = store.answer("t1", given)
        assert answered is not None
        assert (answered.state, answered.answer) == (QuestionState(answer.value), given)
        assert again.get("t1") == answered

    def test_the_first_answer_counts(self, store: ApprovalStore, again: ApprovalStore) -> None:
        store.add(question_of())
        first = store.answer("t1", answer_of(Answer.DENIED))
        assert again.answer("t1", answer_of(Answer.APPROVED, seconds=2)) == first

    def test_of_answers_at_once_one_counts(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        store.add(question_of())

        def give(number: int) -> Question | None:
            by = Principal("os", str(number))
            return (store, again)[number % 2].answer("t1", answer_of(by=by))

        seen = at_once(give)
        assert seen == [store.get("t1")] * 4

    def test_nobody_answers_too_late(self, store: ApprovalStore) -> None:
        store.add(question_of())
        late = store.answer("t1", answer_of(seconds=60))
        assert late is not None
        assert late == question_of()
        assert late.state_at(at(60)) is QuestionState.EXPIRED
        assert late.state_at(at(59)) is QuestionState.WAITING

    def test_one_holder_at_a_time_has_a_claim(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        store.add(question_of())
        store.answer("t1", answer_of())
        assert store.claim("t1", "one", at(1), at(9))
        assert store.claim("t1", "one", at(2), at(9))
        assert not again.claim("t1", "two", at(3), at(9))
        assert again.claim("t1", "two", at(9), at(20))
        again.release("t1", "one")
        assert not store.claim("t1", "one", at(10), at(30))
        again.release("t1", "two")
        assert store.claim("t1", "one", at(10), at(30))

    @pytest.mark.parametrize("state", sorted({*QuestionState} - OPEN))
    def test_an_ended_question_is_over(
        self, store: ApprovalStore, again: ApprovalStore, state: QuestionState
    ) -> None:
        store.add(question_of())
        store.end("t1", state)
        assert list(again.questions()) == []
        ended = replace(question_of(), state=state)
        assert again.answer("t1", answer_of()) == ended
        assert not again.claim("t1", "one", at(1), at(9))
        again.end("t1", QuestionState.WITHDRAWN)
        assert again.get("t1") == ended

    def test_questions_that_expired_long_ago_are_removed(self, store: ApprovalStore) -> None:
        """Also without an answer, or with a call that was not resumed."""
        for ticket, expires in {"old": 10, "new": 90, "open": 10}.items():
            store.add(question_of(ticket, expires=at(expires)))
        store.end("old", QuestionState.RESUMED)
        store.end("new", QuestionState.RESUMED)
        assert store.prune(at(50)) == len(("old", "open"))
        assert store.get("old") is None
        every = {*OPEN, QuestionState.RESUMED}
        assert {found.ticket for found in store.questions(every)} == {"new"}

    def test_any_text_is_kept_as_it_is(self, store: ApprovalStore, again: ApprovalStore) -> None:
        """Names of files that are no UTF-8 have lone surrogates, as do words typed in a shell."""
        odd = "\udcff \u202e é"
        store.add(question_of(diff=odd, reasons=(odd,)))
        store.answer("t1", answer_of(Answer.DENIED, reason=odd))
        found = again.get("t1")
        assert found is not None
        assert found.answer is not None
        assert (found.diff, found.reasons, found.answer.reason) == (odd, (odd,), odd)

    def test_a_grant_is_read_as_it_was_kept_until_it_is_revoked(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        records = [GrantRecord(name, at(60), b"\x00\xff") for name in ("g2", "g1", "g3")]
        for record in records:
            store.grant(record)
        assert list(again.grants()) == records
        for name in ("g1", "g1", "nonesuch"):
            again.revoke(name)
        assert list(store.grants()) == [records[0], records[2]]

    def test_a_grant_that_expired_long_ago_is_removed(self, store: ApprovalStore) -> None:
        for name, expires in {"old": 10, "new": 90}.items():
            store.grant(GrantRecord(name, at(expires), b""))
        assert store.prune(at(50)) == 1
        assert [record.id for record in store.grants()] == ["new"]

    def test_each_listener_is_told_an_event_once(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        store.add(question_of())
        store.answer("t1", answer_of(), event_of(b"answered"))
        store.grant(GrantRecord("g1", at(60), b""), event_of(b"granted", 2))
        store.revoke("g1", event_of(b"revoked", 3, "other"))
        assert told(again) == [b"answered", b"granted", b"revoked"]
        assert told(store) == []
        assert told(again, listener="session", session_id="s") == [b"answered", b"granted"]
        assert told(store, listener="session") == [b"revoked"]
        kept = [event_of(b"revoked", 3, "other"), event_of(b"granted", 2)]
        assert list(again.events(at(9), 2)) == kept

    def test_an_expiry_is_told_once_its_time_has_come(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        """In any state of the question, unless the call ended before."""
        for ticket in ("open", "answered", "withdrawn", "late"):
            store.add(question_of(ticket), event_of(ticket.encode(), 60))
        store.answer("answered", answer_of(), event_of(b"answer"))
        store.end("withdrawn", QuestionState.WITHDRAWN)
        assert (told(again, 59), list(again.events(at(59), 1))) == (
            [b"answer"],
            [event_of(b"answer")],
        )
        store.end("late", QuestionState.EXPIRED)
        assert told(again, 60) == [b"open", b"late"]

    def test_what_did_not_happen_is_not_told(self, store: ApprovalStore) -> None:
        """A second answer, a second end, the removal of an unknown grant."""
        store.add(question_of())
        store.answer("t1", answer_of())
        store.answer("t1", answer_of(Answer.DENIED), event_of(b"second"))
        store.end("t1", QuestionState.RESUMED)
        store.end("t1", QuestionState.WITHDRAWN, event_of(b"ended"))
        store.revoke("g1", event_of(b"revoked"))
        assert told(store) == []

    def test_an_event_is_told_again_where_it_was_not_heard(self, store: ApprovalStore) -> None:
        store.add(question_of())
        store.answer("t1", answer_of(), event_of(b"one"))
        store.grant(GrantRecord("g1", at(60), b""), event_of(b"two", 2))
        heard: list[bytes] = []

        def hear(event: EventRecord) -> None:
            heard.append(event.sealed)
            if event.sealed == b"two":
                raise OSError

        with pytest.raises(OSError):  # noqa: PT011 - the one above
            store.tell("record", at(9), hear)
        assert [heard, told(store)] == [[b"one", b"two"], [b"two"]]

    def test_of_processes_at_once_one_tells_an_event(
        self, store: ApprovalStore, again: ApprovalStore
    ) -> None:
        names = [f"{number:02}".encode() for number in range(12)]
        for name in names:
            store.grant(GrantRecord(name.decode(), at(60), b""), event_of(name))
        heard = at_once(lambda number: told((store, again)[number % 2]))
        assert sorted(name for found in heard for name in found) == names

    def test_an_event_of_long_ago_is_removed(self, store: ApprovalStore) -> None:
        for name, seconds in {"old": 10, "new": 90}.items():
            record = GrantRecord(name, at(95), b"")
            store.grant(record, event_of(name.encode(), seconds))
        store.prune(at(50))
        assert told(store, 99) == [b"new"]

    def test_a_closed_store_opens_again(self, store: ApprovalStore) -> None:
        store.add(question_of())
        store.close()
        store.close()
        assert store.get("t1") == question_of()
