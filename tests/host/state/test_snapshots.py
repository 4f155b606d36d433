import json
import math
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, SecretStr, computed_field

from toolstile.state.session import Session
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.errors import ConflictError, SnapshotError
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sections import OpenedSections
from toolstile_hookspecs.sessions import SlicePolicy, append_all


@dataclass(frozen=True)
class Note:
    text: str
    tags: tuple[str, ...] = ()
    at: datetime | None = None
    raw: bytes = b""


@dataclass(frozen=True)
class Reading:
    value: float


class Order(BaseModel):
    lines: list[int]


@dataclass(frozen=True)
class Audit:
    text: str


class Plain:
    pass


KINDS = [Note, Order, Audit]


def test_restore_puts_the_state_back_but_no_log(session):
    session[Note].append(Note("a"))
    before = session.snapshot(tag="before")
    session[Note].append(Note("b"))
    session[Order].append(Order(lines=[1]))
    session.log(Audit("x"))
    session.restore(before)
    assert session[Note].all() == [Note("a")]
    assert session[Order].all() == []
    assert session[Audit].all() == [Audit("x")]
    assert (before.tag, before.session_id) == ("before", "s1")
    session[Note].append(Note("c"))
    session.restore(before)
    assert session[Note].all() == [Note("a")]


def test_a_snapshot_costs_a_pointer(session):
    session[Note].append(Note("a"))
    assert session.snapshot().head is session.snapshot().head


def test_a_snapshot_outlives_what_comes_after(session):
    snapshots = []
    for number in range(50):
        snapshots.append(session.snapshot())
        session[Note].append(Note(str(number)))
        if number % 7 == 0:
            session.restore(snapshots[number // 2])
    for number in (49, 0, 25, 7):
        session.restore(snapshots[number])
        first = session[Note].all()
        session[Note].append(Note("more"))
        session.restore(snapshots[number])
        assert session[Note].all() == first


def test_reset_empties_the_state_and_keeps_reducers_and_logs(session):
    session[Note].register(Note, append_all)
    session.dispatch(Note("a"))
    session.log(Audit("x"))
    session.reset()
    assert session[Note].all() == []
    assert session[Audit].all() == [Audit("x")]
    session.dispatch(Note("b"))
    assert session[Note].all() == [Note("b")]


def test_a_session_and_its_clones_take_one_anothers_snapshots(session):
    session[Note].append(Note("a"))
    clone = session.clone()
    clone[Note].append(Note("b"))
    session.restore(clone.snapshot())
    assert session[Note].all() == [Note("a"), Note("b")]
    session[Note].append(Note("mine"))
    clone[Note].append(Note("theirs"))
    clone.restore(session.snapshot())
    assert clone[Note].all() == [Note("a"), Note("b"), Note("mine")]


def test_a_snapshot_of_another_session_is_refused(session):
    with pytest.raises(SnapshotError, match=r"of the session other.*read_snapshot"):
        session.restore(Session(id="other").snapshot())
    with pytest.raises(SnapshotError, match="A str is not a snapshot"):
        session.restore("before")


def full(session):
    session[Note].register(Note, append_all)
    session.dispatch(Note("ä", ("x", "y"), datetime(2026, 1, 2, tzinfo=UTC), b"raw"))
    session[Order].append(Order(lines=[1, 2]))
    session.log(Audit("x"))
    session[PolicyState].append(
        PolicyState("p", frozenset({"t"}), frozenset({("t", "k")}), {"n": [1]})
    )
    return session


@pytest.mark.parametrize("place", ["session", "branch", "json"])
def test_a_snapshot_of_what_has_become_a_log_is_refused(session, place):
    session[Note].append(Note("a"))
    before = session.snapshot()
    if place == "json":
        before = session.read_snapshot(before.to_json())
    session.reset()
    session.log(Note("b"))
    where = session.fork() if place == "branch" else session
    with pytest.raises(SnapshotError, match="holds Note as STATE, and the slice of Note is LOG"):
        where.restore(before)
    assert where[Note].all() == [Note("b")]


def test_a_session_survives_json(session):
    text = full(session).to_json()
    again = Session.from_json(text, kinds=KINDS)
    assert again.id == "s1"
    for kind in (*KINDS, PolicyState):
        assert again[kind].all() == session[kind].all()
        assert again[kind].latest() == session[kind].latest()
    assert again.to_json() == text
    again[Note].append(Note("more"))
    again.log(Audit("more"))
    assert len(again[Audit].all()) == 2
    again[Order].latest().lines.append(3)
    assert again[Order].latest() == Order(lines=[1, 2])


def test_opened_sections_survive_json_though_nobody_names_their_type(session):
    session[OpenedSections].seed(OpenedSections(frozenset({"more"})))

    again = Session.from_json(session.snapshot().to_json(), kinds=[Note])

    assert OpenedSections.of(again) == {"more"}


def test_the_json_says_what_it_is(session):
    document = json.loads(full(session).to_json())
    assert document["format"] == "toolstile.session"
    assert document["version"] == 1
    assert document["id"] == "s1"
    assert document["slices"][1] == {
        "type": f"{__name__}:Order",
        "policy": "state",
        "items": [{"lines": [1, 2]}],
    }
    assert [each["policy_name"] for each in document["policies"]] == ["p"]


def test_a_snapshot_survives_json(session):
    text = full(session).snapshot(tag="saved").to_json()
    session[Note].clear()
    session[Order].clear()
    snapshot = session.read_snapshot(text)
    assert (snapshot.session_id, snapshot.tag) == ("s1", "saved")
    session.restore(snapshot)
    assert session[Order].all() == [Order(lines=[1, 2])]
    assert session[Note].latest().text == "ä"
    assert session[Audit].all() == [Audit("x")]
    other = Session()
    other.restore(other.read_snapshot(text, kinds=KINDS))
    assert other[Order].all() == [Order(lines=[1, 2])]


def test_calls_under_way_conflict_with_a_restore_from_json(session):
    text = full(session).to_json()
    branch = session.fork()
    session.restore(session.read_snapshot(text))
    with pytest.raises(ConflictError):
        branch.validate()


def test_the_log_of_calls_is_not_written(session):
    assert ToolInvoked.__name__ not in session.to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON: invalid JSON"),
        ("[" * 100_000, "JSON: invalid JSON"),
        ("[]", "JSON: input should be an object"),
        ('{"format": "other"}', "JSON: format: input should be 'toolstile.session'"),
        (
            '{"format": "toolstile.session", "version": 2}',
            "JSON: version: input should be 1",
        ),
        ('{"format": "toolstile.session", "version": 1}', "JSON: id: field required"),
        (
            '{"format": "toolstile.session", "version": 1, "id": "a", "slices": [3]}',
            r"JSON: slices\[0\]: input should be an object",
        ),
        (
            (
                '{"format": "toolstile.session", "version": 1, "id": "a", "slices": [{"type": '
                '"os:system", "policy": "log", "items": []}], "policies": []}'
            ),
            r"names os:system, a type that is not known.*kinds=\[",
        ),
        (
            (
                '{"format": "toolstile.session", "version": 1, "id": "a", "slices": [], '
                '"policies": [3]}'
            ),
            "PolicyState do not fit",
        ),
        (None, "input should be string"),
        ({}, "input should be string"),
    ],
)
def test_what_is_no_sessions_json_is_refused_with_the_reason(text, message):
    with pytest.raises(SnapshotError, match=message):
        Session.from_json(text, kinds=KINDS)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (["LOG"], r"slices\[0\].policy: input should be 'state' or 'log'"),
        (["state", "log"], "it has two slices of .*:Audit"),
        (["state", "state"], "it has two slices of .*:Audit"),
    ],
)
def test_slices_that_nobody_can_have_written_are_refused(session, policies, message):
    document = json.loads(session.to_json())
    slices = [{"type": f"{__name__}:Audit", "policy": each, "items": []} for each in policies]
    text = json.dumps({**document, "slices": slices})
    with pytest.raises(SnapshotError, match=f"not a session's JSON: {message}"):
        Session.from_json(text, kinds=KINDS)


def loaded_anew():
    @dataclass(frozen=True)
    class Twin:
        text: str

    return Twin


def test_two_types_of_one_name_are_not_written(session):
    for twin in (loaded_anew(), loaded_anew()):
        session[twin].append(twin("a"))
    with pytest.raises(SnapshotError, match=r"Two types are called .*:loaded_anew.*Twin, and"):
        session.to_json()


def test_of_two_types_of_one_name_the_sessions_own_is_read(session):
    older, newer = loaded_anew(), loaded_anew()
    session[newer].append(newer("a"))
    snapshot = session.read_snapshot(session.to_json(), kinds=[older])
    session[newer].clear()
    session.restore(snapshot)
    assert session[newer].all() == [newer("a")]


def test_items_that_no_longer_fit_their_type_are_refused(session):
    document = json.loads(full(session).to_json())
    document["slices"][1]["items"] = [{"lines": ["many"]}]
    with pytest.raises(SnapshotError, match=r"Order do not fit"):
        Session.from_json(json.dumps(document), kinds=KINDS)


def test_items_that_do_not_fit_are_told_by_their_place_and_in_a_line(session):
    session[Order].append(Order(lines=[1]))
    changed = session.to_json().replace('"lines": [1]', '"lines": [1, "a", "b"]')
    with pytest.raises(SnapshotError, match="do not fit that type") as caught:
        Session.from_json(changed, kinds=[Order])
    told = str(caught.value)
    assert "Order do not fit that type: [0].lines[1]: input should be a valid integer" in told
    assert ". The type may have changed" in told
    assert "\n" not in told
    assert "pydantic" not in told


def test_items_that_json_cannot_hold_are_named(session):
    session[Plain].append(Plain())
    with pytest.raises(SnapshotError, match=r"Items of .*:Plain cannot be written.*dataclass"):
        session.to_json()


@dataclass(frozen=True)
class Signed(Audit):
    by: str = "eve"


def test_items_that_would_come_back_as_less_are_refused(session):
    session[Audit].append(Signed("a"))
    with pytest.raises(SnapshotError, match="would be read as another"):
        session.to_json()


@dataclass
class Salted:
    text: str
    salt: InitVar[str]

    def __post_init__(self, salt):
        self.text += salt


class Counted(BaseModel, extra="forbid"):
    lines: list[int]

    @computed_field
    def many(self) -> int:
        return len(self.lines)


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        (Salted("a", "b"), r"\[0\]\.salt: field required\."),
        (Counted(lines=[1]), r"\[0\]\.many: extra inputs are not permitted\."),
        (Decimal("NaN"), r"\[0\]: input should be a finite number\."),
    ],
)
def test_items_that_could_not_be_made_again_are_refused(session, item, fault):
    session[type(item)].append(item)
    with pytest.raises(SnapshotError, match=f"since they could not be read again: {fault} It must"):
        session.to_json()


@dataclass(frozen=True)
class Folder:
    newest: Audit
    names: frozenset[str] = frozenset()


@dataclass
class Doubled:
    value: int

    def __post_init__(self):
        self.value *= 2


class Account(BaseModel):
    token: SecretStr


@pytest.mark.parametrize(
    "item", [Folder(Signed("a")), Doubled(1), Account(token=SecretStr("hunter2"))]
)
def test_items_that_would_come_back_as_others_are_refused(session, item):
    kind = type(item)
    session[kind].append(item)
    with pytest.raises(SnapshotError, match=f":{kind.__name__} .*: item number 1 would be read as"):
        session.to_json()


class Remembering(BaseModel):
    value: Any


@pytest.mark.parametrize("value", [(1, 2), {3}, b"x", {1: 2}, math.nan])
def test_a_field_of_any_type_that_json_would_change_is_refused(session, value):
    session[Remembering].append(Remembering(value=value))
    with pytest.raises(SnapshotError, match="item number 1 would be read as another"):
        session.to_json()


def test_what_a_list_holds_comes_back_as_json(session):
    session[list].append([Remembering(value=1), (2, 3)])
    again = Session.from_json(session.to_json(), kinds=[list])
    assert again[list].latest() == [{"value": 1}, [2, 3]]


def test_items_of_a_class_without_equality_are_refused(session):
    @dataclass(eq=False)
    class Unequal:
        name: str

    session[Unequal].append(Unequal("a"))
    with pytest.raises(SnapshotError, match="has no `__eq__`"):
        session.to_json()


def test_items_of_a_subclass_that_come_back_equal_are_written():
    session = Session()
    session[int].append(True)
    assert list(Session.from_json(session.to_json(), kinds=[int])[int].all()) == [True]


@pytest.mark.parametrize("text", ["\udce9", "a\ud800"])
def test_items_that_could_not_be_read_again_are_refused(session, text):
    session[Audit].append(Audit(text))
    with pytest.raises(SnapshotError, match=r"Audit cannot be written as JSON: .* lone surrog"):
        session.to_json()


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=False)), st.lists(st.text()))
def test_what_comes_back_equals_what_was_written(values, texts):
    session = Session()
    session[Reading].seed(*map(Reading, values))
    session[str].register(str, append_all, SlicePolicy.LOG)
    for text in texts:
        session.log(text)
    again = Session.from_json(session.to_json(), kinds=[Reading, str])
    assert again[Reading].all() == session[Reading].all()
    assert again[str].all() == texts


class Mail(BaseModel):
    sender: str = Field(alias="from")
    subject: str = Field(validation_alias="title")


def test_fields_that_have_other_names_outside_come_back(session):
    mail = Mail(**{"from": "Ada", "title": "Tea"})
    session[Mail].append(mail)
    again = Session.from_json(session.to_json(), kinds=[Mail])
    assert again[Mail].all() == [mail]
