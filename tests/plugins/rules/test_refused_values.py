"""Values of a call that was denied, or did not fit its tool, stay unproven."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from toolstile import Host, tool
from toolstile_hookspecs import ToolCall
from toolstile_plugins.rules.provenance import ProvenancePolicy, RememberedValues

from .mailbox import RULES, TOOLS, Mailbox, mailbox

EVE, BOB = "eve@evil.example", "bob@work.example"
WRITES = {"kind": "category", "name": "no events", "tools": ["create_event"]}
NO_EVENTS = {**WRITES, "category": {next(iter(TOOLS)).category: "deny"}}


def eve_is_found(mail: Mailbox) -> None:
    assert mail.passes("search_contacts", name="eve")


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


REFUSED: list[dict[str, Any]] = [
    {"name": "send_email", "recipients": [EVE]},
    {"name": "send_email", "recipients": ["ann@work.example"], "body": f"Ask {EVE.upper()}."},
    {"name": "create_event", "title": f"Dinner with {EVE}"},
    {"name": "send_email", "recipients": EVE},
    {"name": "send_email", "recipient": [EVE]},
    {"name": "reserve_hotel", "amount": EVE},
    {"name": "send_mail", "to": {"address": [EVE]}},
]


def test_a_call_that_never_ran_leaves_its_values_unproven(driver, subtests):
    for call in REFUSED:
        with subtests.test(call=call):
            name, arguments = call["name"], {key: call[key] for key in call if key != "name"}
            with mailbox(driver, RULES, NO_EVENTS) as mail:
                eve_is_found(mail)
                assert mail.sends(EVE)
            with mailbox(driver, RULES, NO_EVENTS) as mail:
                assert not mail.call(name, **arguments).success
                eve_is_found(mail)
                assert not mail.sends(EVE)


@pytest.mark.parametrize("arguments", [f'{{"recipients": ["{EVE}"]', f"[{EVE}]", EVE.encode()])
def test_so_does_one_whose_arguments_are_no_json(arguments):
    with mailbox() as mail:
        assert not mail.executor.dispatch(ToolCall("send_email", arguments)).success
        eve_is_found(mail)
        assert not mail.sends(EVE)


def test_a_person_who_refuses_leaves_them_unproven_and_one_who_approves_proves_them(driver):
    asking = {**RULES, "otherwise": "ask"}
    for answer in (False, True):
        with mailbox(driver, asking, answer=answer) as mail:
            assert mail.sends(EVE) is answer
            eve_is_found(mail)
            assert mail.sends(EVE) is answer


def test_a_call_within_another_one_does_too():
    denied = {"name": "send_email", "arguments": {"recipients": [EVE]}}
    for fails in (False, True):
        with mailbox() as mail:
            assert mail.call("in_turn", calls=[denied], fails=fails).success is not fails
            eve_is_found(mail)
            assert not mail.sends(EVE)


@pytest.mark.parametrize("write_first", [True, False])
def test_so_does_one_beside_the_call_that_shows_its_values(driver, write_first):
    calls = [("send_email", {"recipients": [BOB]}), ("search_contacts", {"name": "bob"})]
    with mailbox(driver) as mail:
        assert sorted(mail.batch(*calls if write_first else reversed(calls))) == [False, True]
        assert not mail.sends(BOB)


def test_what_was_shown_before_stays_proven():
    with mailbox("sync", RULES, NO_EVENTS) as mail:
        eve_is_found(mail)
        assert not mail.passes("create_event", title=f"Dinner with {EVE}")
        assert mail.passes("search_contacts", name="bob")
        assert mail.sends(EVE)


def test_the_user_may_name_what_was_refused():
    with mailbox() as mail:
        assert not mail.sends(EVE)
        eve_is_found(mail)
        mail.executor.request(f"Write to {EVE}.")
        assert mail.sends(EVE)


def test_it_is_not_forgotten_with_a_call_that_is_rolled_back():
    finding = {"name": "search_contacts", "arguments": {"name": "eve"}}
    with mailbox() as mail:
        assert not mail.sends(EVE)
        assert not mail.call("in_turn", calls=[finding], fails=True).success
        eve_is_found(mail)
        assert not mail.sends(EVE)


def test_it_is_kept_with_the_first_item_of_the_state_that_shows_something():
    with mailbox() as mail:
        assert not mail.sends(EVE)
        assert not mail.sends(EVE, "other@evil.example")
        assert mail.executor.session[RememberedValues].all() == []
        eve_is_found(mail)
        (item,) = mail.executor.session[RememberedValues].all()
        assert {EVE, "other@evil.example"} < {*item.arguments}
        assert mail.passes("search_contacts", name="bob")
        _, item = mail.executor.session[RememberedValues].all()
        assert item.arguments == ("bob",)


@pytest.mark.parametrize("pin", ["opensesame", 17], ids=["kept", "refused"])
def test_secrets_are_not_remembered(pin):
    @tool
    def log_in(name: str, pin: SecretStr) -> str:
        """Log in."""
        return name

    policy = ProvenancePolicy(arguments={"log_in": {"name": "value"}}, trusted={"log_in": ["*"]})
    with Host(tools=[log_in], policies=[policy]) as host, host.executor(request="ada") as tools:
        tools.dispatch(ToolCall("log_in", {"name": "ada", "pin": pin}))
        tools.dispatch(ToolCall("log_in", {"name": "ada", "pin": "opensesame"}))
        kept = str(tools.session[RememberedValues].all())
        assert "ada" in kept
        assert "opensesame" not in kept
