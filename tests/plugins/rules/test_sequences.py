"""Tools that wait for one of several others, and tools that do not come after others."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ConfigurationError

from .mailbox import mailbox

AFTER = {
    "kind": "sequential_dependency",
    "not_after": {"send_*": ["read_page"], "add_contact": ["read_*"]},
    "otherwise": "deny",
}
ANY = {"kind": "sequential_dependency", "any_of": {"send_email": ["read_notes", "search_*"]}}
drivers = pytest.mark.parametrize("driver", ["sync", "async"])


@drivers
@pytest.mark.parametrize("url", ["fine", "broken"])
def test_a_tool_does_not_come_after_a_page_that_was_read_or_whose_failure_was(driver, url):
    with mailbox(driver, AFTER) as mail:
        assert mail.sends("bob")
        assert mail.passes("read_notes")
        assert mail.sends("bob")
        mail.call("read_page", url=url)
        text = mail.call("send_email", recipients=["bob"]).text
    assert text == (
        "send_email cannot be called after read_page was called in this session. Continue without "
        "it, and tell the user that it was left undone."
    )


@drivers
def test_a_person_decides_where_it_asks(driver):
    with mailbox(driver, {**AFTER, "otherwise": "ask"}, answer=True) as mail:
        assert mail.passes("read_page", url="fine")
        assert mail.sends("bob")
        told = "A person decides on send_email after read_page was called in this session."
        assert [asked.reasons for asked in mail.asked] == [(told,)]


@drivers
def test_a_batch_is_judged_without_what_it_reads(driver):
    send = ("send_email", {"recipients": ["bob"]})
    with mailbox(driver, AFTER) as mail:
        assert mail.batch(("read_page", {"url": "fine"}), send) == [True, True]
        assert mail.batch(send) == [False]


@drivers
@pytest.mark.parametrize("first", ["read_notes", "search_contacts"])
def test_one_of_several_is_enough(driver, first):
    with mailbox(driver, ANY) as mail:
        text = mail.call("send_email", recipients=["bob"]).text
        assert text.startswith("Cannot call 'send_email' yet: call read_notes or search_* first")
        assert mail.passes(first, **({"name": "bob"} if first == "search_contacts" else {}))
        assert mail.sends("bob")


def test_a_page_that_a_rolled_back_call_has_read_counts_where_it_failed():
    broken = {"name": "read_page", "arguments": {"url": "broken"}}
    with mailbox("sync", AFTER) as mail:
        mail.call("in_turn", calls=[broken], fails=True)
        assert not mail.sends("bob")


@pytest.mark.parametrize(
    "change",
    [
        {"not_after": {}},
        {"not_after": {"send_email": []}},
        {"not_after": {"send_email": ["read_pgae"]}},
        {"not_after": {"send_emial": ["read_page"]}},
        {"not_after": ["read_page"]},
        {"any_of": {"send_email": []}},
        {"any_of": {"send_email": ["read_page", "read_pgae"]}},
        {"otherwise": "allow"},
        {"after": {"send_email": ["read_page"]}},
    ],
    ids=str,
)
def test_a_wrong_rule_is_refused_when_the_host_opens(change):
    with (
        pytest.raises(ConfigurationError, match=r"number 1|sequential_dependency@host#1"),
        mailbox("sync", {**AFTER, **change}),
    ):
        pass
