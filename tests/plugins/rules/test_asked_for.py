"""Tools that the user has to have asked for."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ConfigurationError

from .mailbox import mailbox

RULE = {
    "kind": "asked_for",
    "otherwise": "deny",
    "words": {"send_email": "send|e-?mail .* to|write to", "reserve_*": r"\bbook\b"},
}


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_any_turn_may_ask_in_either_case_and_over_lines(driver):
    with mailbox(driver, RULE, request=["E-MAIL this\n to Bob.", "Thanks."]) as mail:
        assert mail.sends("bob@work.example")
        assert not mail.passes("reserve_hotel", hotel="Grand")
        assert mail.passes("read_notes")
        mail.executor.request("Then book it.")
        assert mail.passes("reserve_hotel", hotel="Grand")


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("otherwise", ["ask", "deny"])
def test_without_a_request_it_fails_closed_and_says_so(driver, otherwise):
    with mailbox(driver, {**RULE, "otherwise": otherwise}, request=(), answer=False) as mail:
        text = mail.call("send_email", recipients=["bob"]).text
        assert len(mail.asked) == (otherwise == "ask")
        told = mail.asked[0].reasons[0] if mail.asked else text
        assert "no request was given" in told


def test_a_batch_and_nested_calls_are_ruled():
    write = ("send_email", {"recipients": ["bob"]})
    with mailbox("sync", RULE, request="Look.") as mail:
        assert mail.batch(write, ("read_notes", {})) == [False, True]
        outcome = mail.call("in_turn", calls=[{"name": write[0], "arguments": write[1]}])
        (told,) = outcome.result.value
        assert told == (
            "send_email cannot be called here: the request does not ask for it. Continue without "
            "it, and tell the user that it was left undone."
        )


def test_a_person_decides_where_the_rule_asks():
    with mailbox("sync", {**RULE, "otherwise": "ask"}, request="Look.", answer=True) as mail:
        assert mail.sends("bob")
        assert mail.asked[0].reasons == (
            "A person decides on send_email: the request does not ask for it.",
        )


WRONG = [
    {"words": {"send_email": "("}},
    {"words": {"send_email": "(?=send)"}},
    {"words": {"send_email": r"(a)\1"}},
    {"words": {"send_email": ""}},
    {"words": {"send_email": "send|"}},
    {"words": {"send_email": "s*"}},
    {"words": {"send_email": 3}},
    {"words": {"send_email": ["send"]}},
    {"words": {"send_emial": "send"}},
    {"words": {"Send_email": "send"}},
    {"words": {"mail_*": "send"}},
    {"words": {}},
    {"words": "send"},
    {"word": {"send_email": "send"}},
    {"otherwise": "allow"},
    {"otherwise": "Deny"},
    {"otherwise": True},
    {"kind": "asked-for"},
    {"kind": "askedfor"},
]


def test_a_wrong_rule_is_refused_when_the_host_opens(subtests):
    for change in WRONG:
        with subtests.test(change=change):
            rule = {**RULE, **change}
            if "word" in change:
                del rule["words"]
            with pytest.raises(ConfigurationError) as refused, mailbox("sync", rule):
                pass
            assert str(refused.value).startswith("the configuration")
            assert "[[policies]] number 1" in str(refused.value) or "asked_for@host#1" in str(
                refused.value
            )
