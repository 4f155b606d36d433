"""A policy of any kind can be for some principals only, or decide nothing and be noted."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ConfigurationError, Principal, Status

DENY = {"tools": ["pay"], "effect": "deny", "reason": "No."}
LIMIT = {"kind": "quota", "max_calls": 1, "tools": ["pay"]}
ANN = Principal("https://id.example.com", "ann", groups={"staff"})
CLOSED = '[policy]\ndefault = "deny"\n'
PAY = {"amount": 1, "to": "bob"}


def test_a_policy_can_be_for_some_principals(office, subtests):
    for scope, concerned in [
        ({"users": ["ann"]}, True),
        ({"users": ["https://id.example.com ann"]}, True),
        ({"users": ["https://id.example.org ann"]}, False),
        ({"users": ["Ann", "bob"]}, False),
        ({"groups": ["admins", "staff"]}, True),
        ({"groups": ["admins"]}, False),
        ({"users": ["ann"], "groups": ["admins"]}, False),
    ]:
        with subtests.test(scope=scope, concerned=concerned):
            office.open({**DENY, **scope}, given={"principal": ANN})
            assert office("pay", **PAY).success is not concerned


@pytest.mark.parametrize(("group", "allowed"), [("staff", 1), ("admins", 3)])
def test_one_that_counts_counts_their_calls(office, group, allowed):
    office.open({**LIMIT, "groups": [group]}, given={"principal": ANN})
    assert sum(office("pay", **PAY).success for _ in range(3)) == allowed


def test_where_nobody_is_named_it_denies_and_allows_nothing(office):
    office.open({**DENY, "users": ["ann"]})
    assert office("pay", **PAY).text == "No."


def test_what_some_are_allowed_nobody_unnamed_is(office):
    office.open({"effect": "allow", "groups": ["staff"]}, text=CLOSED)
    assert office("pay", **PAY).status is Status.DENIED
    with office.host.executor(principal=ANN) as office.tools:
        assert office("pay", **PAY).success


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (DENY, "deny"),
        ({**DENY, "effect": "ask"}, "ask"),
        ({**DENY, "when": "principal.id == 'ann'"}, "deny"),
        ({"kind": "category", "category": {"side_effect": "ask"}}, "ask"),
    ],
)
def test_a_policy_in_the_shadow_decides_nothing_and_is_noted(office, rule, said):
    office.open({**rule, "name": "trial", "shadow": True})
    done = office("pay", **PAY)
    assert done.success
    assert done.event.attributes["shadow.trial"] == said
    assert "shadow.trial" not in office("read_note", path="a").event.attributes


def test_one_that_counts_is_noted_once_it_would_deny(office):
    office.open({**LIMIT, "name": "trial", "shadow": True})
    found = [office("pay", **PAY).event.attributes.get("shadow.trial") for _ in range(3)]
    assert found == [None, "deny", "deny"]


def test_in_the_shadow_nothing_is_allowed(office):
    office.open({"effect": "allow", "shadow": True}, text=CLOSED)
    assert office("pay", **PAY).status is Status.DENIED


@pytest.mark.parametrize(
    "scope", [{"users": "ann"}, {"users": []}, {"groups": [3]}, {"shadow": "yes"}]
)
def test_a_wrong_scope_is_refused(office, scope):
    with pytest.raises(ConfigurationError, match=next(iter(scope))):
        office.open({**DENY, **scope})
