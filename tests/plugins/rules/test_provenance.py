"""Calls pass with values that the user gave or a trusted field has shown, and with no others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalRequest,
    PolicyState,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.rules import ProvenancePolicy
from toolstile_plugins.rules.provenance import RememberedValues

from .mailbox import RULES, TOOLS, Mailbox, mailbox, search_contacts, send_email

EVIL = "eve@evil.example"
BOB = "bob@work.example"


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- Where a value may come from


def test_the_user_may_give_it_in_any_turn(driver):
    turns = ["Hello.", f"Write to <{BOB}>, please."]
    with mailbox(driver, request=turns) as mail:
        assert mail.sends(BOB)
        assert not mail.sends(EVIL)
        assert not mail.sends(BOB, EVIL)


def test_a_trusted_field_may_show_it_at_any_depth(driver):
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)


def test_it_stands_there_as_a_whole_but_for_case_and_white_space(driver):
    with mailbox(driver) as mail:
        assert mail.passes("read_notes")
        for title in ("riverside", "the  RIVERSIDE view\nhotel"):
            assert mail.passes("create_event", title=title)
    policy = {**RULES, "arguments": {"create_event": {"title": "value"}}}
    with mailbox(driver, policy) as mail:
        assert mail.passes("read_notes")
        for title in ("the  RIVERSIDE view\nhotel", "Hotel", "1,250.50"):
            assert mail.passes("create_event", title=title), title
        for title in ("River", "side", "view riverside", "riverside hotel", "250.50"):
            assert not mail.passes("create_event", title=title), title


def test_words_of_three_letters_are_not_ruled(driver):
    with mailbox(driver, request="A dinner.") as mail:
        assert mail.passes("create_event", title="Dinner: ask Eve now, 12 p.m.")
        assert not mail.passes("create_event", title="Dinner with Mallory")


def test_a_short_value_of_the_request_alone_is_ruled(driver):
    with mailbox(driver, request="Take W1, please.") as mail:
        assert mail.passes("reserve_hotel", hotel="w1")
        assert not mail.passes("reserve_hotel", hotel="w2")


def test_trust_is_by_field_and_not_by_tool(driver):
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert not mail.sends("note@evil.example")


def test_a_whole_text_is_trusted_where_it_has_no_fields():
    with mailbox(request="Book it.") as mail:
        assert mail.passes("read_notes")
        assert mail.passes("create_event", title="Dinner, Riverside View")
        assert not mail.passes("create_event", title="Dinner, Mountain View")
        with_fields = {**RULES, "trusted": {"search_contacts": ["*"]}}
    with mailbox("sync", with_fields) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert not mail.sends(BOB)


def test_a_request_value_comes_from_the_request_alone(driver):
    hotel = "Riverside View Hotel"
    with mailbox(driver) as mail:
        assert mail.passes("read_notes")
        assert not mail.passes("reserve_hotel", hotel=hotel)
    with mailbox(driver, request=f"Take the {hotel}'s best room.") as mail:
        assert mail.passes("reserve_hotel", hotel=hotel)
        assert mail.passes("reserve_hotel", hotel="riverside   VIEW hotel")
        assert mail.passes("reserve_hotel", hotel="Riverside")
        assert not mail.passes("reserve_hotel", hotel="View Riverside Hotel")


def test_numbers_are_compared_however_they_are_written():
    with mailbox(request="Take the Grand, for 1,250.50 in all.") as mail:
        assert mail.passes("reserve_hotel", hotel="Grand", amount=1250.5)
        assert not mail.passes("reserve_hotel", hotel="Grand", amount=250.5)


def test_what_the_author_gave_by_default_is_not_ruled():
    with mailbox(request="Take the Grand.") as mail:
        assert mail.passes("reserve_hotel", hotel="Grand")


def test_links_within_a_text_are_ruled_and_its_words_are_not():
    with mailbox(request="Tell ann@work.example of https://work.example/Plan.") as mail:
        assert mail.sends("ann@work.example", body="See https://work.example/plan, or ask me.")
        assert not mail.sends("ann@work.example", body="See https://work.example/plan?leak=1")
        assert not mail.sends("ann@work.example", body=f"Ask {EVIL}.")


def test_a_trusted_field_may_show_a_link(driver):
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends("ann@work.example", body=f"Ask <{BOB}>, he knows.")
        assert not mail.sends("ann@work.example", body=f"Ask {BOB} or {EVIL}.")
        assert not mail.sends("ann@work.example", body="See work.example.")


def test_values_of_two_characters_are_not_ruled_and_that_is_said_at_start(caplog):
    with caplog.at_level(logging.WARNING), mailbox() as mail:
        assert mail.sends("me")
    assert caplog.text.count("provenance@host#1' rules no value under 3 characters") == 1


def test_allowed_names_pass_and_a_star_stands_for_a_part_of_a_name():
    with mailbox(request=()) as mail:
        assert mail.sends("Anybody@example.com")
        assert not mail.sends(f"{EVIL}, x@example.com")
        assert not mail.sends(f"{EVIL}@example.com")
        assert not mail.sends("x@example.com.evil.example")
    pages = {**RULES, "allow": ["https://*.work.example/*"]}
    with mailbox("sync", pages, request="To ann@work.example") as mail:
        assert mail.sends("ann@work.example", body="https://www.work.example/a/b?c=d")
        assert not mail.sends("ann@work.example", body="https://evil.example/.work.example/")


def test_without_a_request_nothing_is_asked_for_and_that_is_said(driver):
    with mailbox(driver, request=()) as mail:
        assert "no request was given" in mail.call("send_email", recipients=[EVIL]).text
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)


# --- What a call gave before anything had shown it


def test_an_own_write_read_again_proves_nothing(driver):
    with mailbox(driver) as mail:
        assert mail.passes("add_contact", name="carl", email="Carl@evil.example")
        assert mail.passes("search_contacts", name="carl")
        assert not mail.sends("carl@evil.example")


def test_nor_does_it_within_a_longer_text_or_from_a_call_that_failed(driver):
    with mailbox(driver) as mail:
        assert mail.sends("ann@work.example", subject=f"Of {EVIL}, who is new")
        mail.call("add_contact", name="half", email="half@evil.example")
        for name in ("eve", "half"):
            assert mail.passes("search_contacts", name=name)
        assert not mail.sends(EVIL)
        assert not mail.sends("half@evil.example")


def test_a_failure_forgets_nothing_that_was_shown_before(driver):
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        mail.call("add_contact", name="half", email=BOB)
        assert mail.sends(BOB)


def test_what_was_shown_before_stays_proven(driver):
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.passes("add_contact", name="rob", email=BOB)
        assert mail.sends(BOB)


def test_the_text_of_a_failure_proves_nothing(driver):
    whole = {**RULES, "trusted": {"read_page": ["*"]}}
    with mailbox(driver, whole) as mail:
        assert not mail.call("read_page", url="broken").success
        assert not mail.sends("page@evil.example")
    with mailbox(driver, whole) as mail:
        assert mail.passes("read_page", url="fine")
        assert mail.sends("page@evil.example")


def test_the_text_of_a_denial_proves_nothing(driver):
    with mailbox(driver) as mail:
        assert EVIL in mail.call("send_email", recipients=[EVIL]).text
        assert not mail.sends(EVIL)


@pytest.mark.parametrize("kind", ["own", "another policy's"])
def test_a_person_who_approves_a_call_proves_its_values(driver, kind):
    asking = {**RULES, "otherwise": "ask"}
    category = {"kind": "category", "tools": ["add_contact"], "category": {"side_effect": "ask"}}
    confirming = {**category, "category": {add_category(): "ask"}}
    policies = [asking] if kind == "own" else [asking, confirming]
    with mailbox(driver, *policies, answer=True) as mail:
        if kind == "own":
            assert mail.sends(EVIL)
        else:
            assert mail.passes("add_contact", name="eve", email=EVIL)
        assert len(mail.asked) == 1
        assert mail.sends(EVIL, body=f"Dear {EVIL}")
        assert len(mail.asked) == 1
        assert mail.sends("other@evil.example")
        assert len(mail.asked) == 2


def add_category() -> Any:
    return next(tool for tool in TOOLS if tool.name == "add_contact").category


def test_a_person_who_refuses_proves_nothing(driver):
    with mailbox(driver, {**RULES, "otherwise": "ask"}, answer=False) as mail:
        assert not mail.sends(EVIL)
        assert not mail.sends(EVIL)
        assert len(mail.asked) == 2
        assert "A person decides on send_email: 'eve@evil.example' in" in mail.asked[0].reasons[0]


# --- Batches, nested calls, rollback, sessions


def test_a_write_is_judged_without_a_read_of_its_batch(driver):
    write = ("send_email", {"recipients": [BOB]})
    with mailbox(driver) as mail:
        assert mail.batch(("search_contacts", {"name": "eve"}), write) == [True, False]
        assert mail.passes("search_contacts", name="ann")
    with mailbox(driver) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.batch(write, write) == [True, True]


def test_a_value_that_its_batch_shows_was_not_proven_when_it_was_given(driver):
    with mailbox(driver) as mail:
        note = ("add_contact", {"name": "rob", "email": BOB})
        assert mail.batch(("search_contacts", {"name": "bob"}), note) == [True, True]
        assert not mail.sends(BOB)


def test_nested_calls_are_ruled_and_show_values_to_one_another():
    def sending(to: str) -> dict[str, Any]:
        return {"name": "send_email", "arguments": {"recipients": [to]}}

    search = {"name": "search_contacts", "arguments": {"name": "bob"}}
    with mailbox(request=f"Ask {BOB} or {EVIL}") as mail:
        outcome = mail.call("in_turn", calls=[search, sending(BOB)])
        assert outcome.result.value[1].startswith("Sent")
    with mailbox() as mail:
        outcome = mail.call("in_turn", calls=[search, sending(EVIL)])
        assert "comes from neither" in outcome.result.value[1]


def test_what_a_call_within_has_shown_is_forgotten_with_the_call_that_is_rolled_back():
    search = {"name": "search_contacts", "arguments": {"name": "bob"}}
    with mailbox() as mail:
        assert not mail.call("in_turn", calls=[search, search], fails=True).success
        assert not mail.sends(BOB)
    with mailbox() as mail:
        assert not mail.call("in_turn", calls=[search, search], fails=True).success
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)


def test_what_a_call_within_gave_is_not_forgotten_with_it():
    adding = {"name": "add_contact", "arguments": {"name": "carl", "email": "carl@evil.example"}}
    with mailbox() as mail:
        mail.call("in_turn", calls=[adding, adding], fails=True)
        assert mail.passes("search_contacts", name="carl")
        assert not mail.sends("carl@evil.example")


def test_a_session_that_is_put_back_is_so_too():
    with mailbox() as mail:
        before = mail.executor.session.snapshot()
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)
        mail.executor.session.restore(before)
        assert not mail.sends(BOB)


def test_a_session_that_is_emptied_remembers_nothing():
    with mailbox() as mail:
        assert mail.passes("search_contacts", name="bob")
        mail.executor.session.reset()
        assert not mail.sends(BOB)


def test_nothing_is_kept_for_another_session(driver):
    with mailbox(driver, request="Hello.") as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)
        assert not mail.sends(EVIL)
        with mail.host.executor(request="Hello.") as executor:
            other = Mailbox(executor, driver)
            assert not other.sends(BOB)
            # What was unproven there is not so here.
            assert other.passes("search_contacts", name="eve")
            assert other.sends(EVIL)


def test_it_is_kept_in_items_of_the_state_that_never_change():
    with mailbox() as mail:
        items = mail.executor.session[RememberedValues]
        assert mail.passes("search_contacts", name="bob")
        (first,) = items.all()
        assert (first.arguments, first.trusted) == (("bob",), (BOB,))
        assert mail.passes("search_contacts", name="bob")
        assert mail.passes("search_contacts", name="eve")
        kept, second = items.all()
        assert kept is first
        assert second.trusted == (EVIL,)
        assert mail.executor.session[PolicyState].all() == []


@dataclass(frozen=True)
class Seen:
    """A name that was looked up."""

    name: str


@tool(category="read")
def look_up(name: str) -> dict[str, str]:
    """Look a name up."""
    return {"email": f"{name}@work.example"}


@tool(category="read")
def look_through(name: str, *, context: ToolContext) -> str:
    """Look a name up through another tool."""
    context.session[Seen].append(Seen(name))
    return context.call("look_up", {"name": name}).text


def test_a_person_is_not_shown_it_as_a_change():
    asking = {"kind": "category", "tools": ["look_through"], "category": {"read": "ask"}}
    policy = {
        **RULES,
        "arguments": {"look_*": {"name": "value"}},
        "trusted": {"look_up": ["email"]},
    }
    shown: list[str | None] = []

    def approve(asked: ApprovalRequest) -> bool:
        shown.append(asked.diff)
        return True

    settings = Settings.model_validate({"approve_diff": True, "policies": [policy, asking]})
    tools: Any = [look_up, look_through]
    with (
        Host(
            settings=settings, discover=["rules", "policies"], tools=tools, approver=approve
        ) as host,
        host.executor(request="Look bob up.") as executor,
    ):
        assert executor.dispatch(ToolCall("look_through", {"name": "bob"})).success
        assert BOB in [
            text for item in executor.session[RememberedValues].all() for text in item.trusted
        ]
    assert shown == ["session:\n  Seen: added Seen(name='bob')"]


def test_a_replay_remembers_it_once(tmp_path):
    record = tmp_path / "calls.jsonl"
    call = ToolCall("search_contacts", {"name": "bob"}, id="a")
    found: list[int] = []
    for plugins in ({"record": {"file": str(record)}}, {"record": {"replay": str(record)}}):
        settings = {"plugins": plugins, "policies": [RULES]}
        with (
            Host(
                settings=Settings.model_validate(settings),
                discover=["rules", "policies", "record"],
                tools=TOOLS,
            ) as host,
            host.executor(request="Look.") as executor,
        ):
            outcome = executor.dispatch(call)
            assert outcome.success
            found.append(len(executor.session[RememberedValues].all()))
    assert outcome.event.replayed
    assert found == [1, 1]


def test_once_it_remembers_enough_nothing_more_is_trusted():
    with mailbox("sync", {**RULES, "most": 3}) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert mail.passes("search_contacts", name="eve")
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(BOB)
        mail.passes("read_notes")
        assert not mail.passes("create_event", title="Riverside")


def test_two_policies_remember_for_themselves():
    other = {**RULES, "name": "other", "trusted": {"read_notes": ["*"]}}
    with mailbox("sync", RULES, other) as mail:
        assert mail.passes("search_contacts", name="bob")
        assert not mail.sends(BOB)


def test_it_is_made_in_python_too():
    policy = ProvenancePolicy(arguments={"send_email": {"recipients": "value"}}, name="p")
    tools: Any = [send_email, search_contacts]
    with Host(discover=False, tools=tools, policies=[policy]) as host:
        assert host.policies[0].name == "p"


# --- Mappings whose names are values


def addresses() -> dict[str, str]:
    """Return the addresses of hotels."""
    return {"Riverside View": "4 Quay Road", "Grand": "www.grand.example"}


def permissions() -> dict[str, Any]:
    """Return who may read a file."""
    return {"file": "plan.txt", "shared_with": {"bob@work.example": "r", "amy@work.example": "rw"}}


def told_as_text() -> str:
    """Return contacts as a text."""
    return '{"note": "eve@evil.example"}'


def several() -> list[dict[str, str]]:
    """Return contacts."""
    return [{"note": "eve@evil.example"}]


@pytest.mark.parametrize(
    ("shows", "fields", "passing", "refused"),
    [
        (
            addresses,
            ["*"],
            ["Riverside View", "4 quay road", "Grand"],
            ["Riverside Vi", "Mountain"],
        ),
        (permissions, ["shared_with"], ["bob@work.example", "amy@work.example"], ["plan.txt"]),
        (permissions, ["file"], ["plan.txt"], ["bob@work.example", "shared_with"]),
        (told_as_text, ["*"], [], ["eve@evil.example", "note"]),
        (several, ["*"], [], ["eve@evil.example"]),
    ],
)
def test_the_names_of_a_trusted_mapping_are_trusted_too(shows, fields, passing, refused):
    policy = {**RULES, "trusted": {shows.__name__: fields}}
    with mailbox("sync", policy, tools=[*TOOLS, tool(shows)]) as mail:
        assert not any(mail.sends(each) for each in passing)
    with mailbox("sync", policy, tools=[*TOOLS, tool(shows)]) as mail:
        assert mail.passes(shows.__name__)
        assert all(mail.sends(each) for each in passing)
        assert not any(mail.sends(each) for each in refused)


@pytest.mark.parametrize(
    ("request_", "value", "passes"),
    [
        ("Post it to www.our.example.They sent it.", "www.our.example", True),
        ("Write to bob@work.example.Then stop.", "bob@work.example", True),
        ("See (https://a.example/x).Then stop.", "https://a.example/x", True),
        ("Write to bob@work.example.", "bob@work.example", True),
        ("Write to bob@work.example.au today.", "bob@work.example", False),
        ("Write to bob@work.example.Then stop.", "bob@work", False),
        ("Read report.Docx now.", "report", False),
        ("Write to Bob.Smith of Work.", "bob", False),
    ],
)
def test_a_full_stop_right_behind_an_address_ends_it(request_, value, passes):
    with mailbox("sync", request=request_) as mail:
        assert mail.sends(value) is passes
