"""The decisions of the rules."""

import pytest

from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import PolicyDecision, Secret, hookimpl, tool

PERMIT_ALL = "permit (principal, action, resource);\n"


@pytest.fixture
def asked():
    return []


@pytest.fixture
def approver(asked):
    def answer(request):
        asked.append(request.reasons)
        return True

    return answer


def test_what_a_policy_permits_is_allowed(open_tools):
    assert_ok(open_tools().call("read_note", path="a.txt"), value="a.txt: None")
    assert_ok(open_tools(user_id="ann").call("refund", cents=5000))


@pytest.mark.parametrize(
    ("user", "who"), [("bob", "User 'bob'"), (None, "an unknown user"), ("eve", "User 'eve'")]
)
def test_what_none_permits_is_denied(open_tools, user, who):
    outcome = open_tools(user_id=user).call("refund", cents=1)
    assert_failed(outcome, status="denied", contains=["no Cedar policy permits it", who])


def test_a_denial_says_which_policy_it_was_and_what_to_do(open_tools):
    text = assert_failed(open_tools().call("read_note", path="secret/a"), status="denied")
    assert text == (
        "Cannot call read_note: the Cedar policy 'no secrets' (rules.cedar, line 17) forbids it. "
        "Ask for another file, then retry."
    )


def test_all_policies_that_forbid_are_named(open_tools):
    rules = PERMIT_ALL + "forbid (principal, action, resource);\n" * 2
    text = assert_failed(open_tools(rules).call("read_note", path="a"), status="denied")
    assert "policies rules.cedar, line 2 and rules.cedar, line 3 forbid it" in text


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("refund", {"cents": 5001}, "A refund of more than 50 euros."),
        ("delete_note", {"path": "a"}, "Deletions are for good."),
    ],
)
def test_a_person_is_asked_and_their_answer_counts(
    open_tools, approver, asked, name, arguments, reason
):
    assert_ok(open_tools(user_id="ann", approver=approver).call(name, **arguments))
    assert asked == [(reason,)]
    outcome = open_tools(user_id="ann").call(name, **arguments)
    assert_failed(outcome, status="denied", contains=reason.removesuffix("."))


def test_nobody_is_asked_about_what_is_denied_anyhow(open_tools, approver, asked):
    tools = open_tools(user_id="bob", approver=approver)
    assert_failed(tools.call("delete_note", path="a"), status="denied", contains="no Cedar policy")
    ann = open_tools(user_id="ann", approver=approver)
    denied = ann.call("delete_note", path="secret/a")
    assert_failed(denied, status="denied", contains="'no secrets'")
    assert asked == []


def test_a_permit_that_asks_nobody_is_enough(open_tools, approver, asked):
    rules = '@ask("Sure?")\n' + PERMIT_ALL * 2
    assert_ok(open_tools(rules, approver=approver).call("refund", cents=1))
    assert asked == []


def test_an_ask_without_a_reason_names_the_policy(open_tools, approver, asked):
    rules = f'@id("any") @ask\n{PERMIT_ALL}'
    assert_ok(open_tools(rules, approver=approver).call("refund", cents=1))
    assert asked == [("The Cedar policy 'any' (rules.cedar, line 1) lets a person decide.",)]


@pytest.mark.parametrize(
    ("condition", "name", "arguments", "allowed"),
    [
        ('resource.category == "read"', "read_note", {"path": "a"}, True),
        ('resource.consequence == "high"', "read_note", {"path": "a"}, False),
        ('resource.tags.contains("money")', "refund", {"cents": 1}, True),
        ('resource == Tool::"refund"', "refund", {"cents": 1}, True),
        ('resource has owner && resource.owner == "bob"', "weigh", {"grams": 1.5}, True),
        ('resource has owner && resource.owner == "bob"', "refund", {"cents": 1}, False),
        ("principal is User", "refund", {"cents": 1}, True),
        ('principal == User::"ann"', "refund", {"cents": 1}, True),
        ("context.params has lines", "read_note", {"path": "a", "lines": None}, False),
        ("context.params has lines", "read_note", {"path": "a", "lines": 3}, True),
        ('context.params.grams.lessThan(decimal("1.6"))', "weigh", {"grams": 1.5}, True),
        ('context.params.grams.lessThan(decimal("1.5"))', "weigh", {"grams": 1.5}, False),
        ('context.params.grams == decimal("0.3333")', "weigh", {"grams": 1 / 3}, True),
        ('context.params.labels == ["a"]', "weigh", {"grams": 0.0, "labels": ["a", None]}, True),
    ],
)
def test_what_policies_can_ask_for(open_tools, condition, name, arguments, allowed):
    rules = f"permit (principal, action, resource) when {{ {condition} }};"
    assert open_tools(rules, user_id="ann").call(name, **arguments).success is allowed


@pytest.mark.parametrize("groups", [["support"], ("support", 3)])
def test_groups_come_from_the_users_credentials(open_tools, groups):
    for user in ("bob", "carl"):
        auth = Secret({"groups": groups})
        with_claim = open_tools(user_id=user, auth=auth, groups_claim="groups")
        assert_ok(with_claim.call("refund", cents=1))
        assert_failed(open_tools(user_id=user, auth=auth).call("refund", cents=1))


@pytest.mark.parametrize("auth", [None, Secret("support"), Secret({"groups": "support"})])
def test_credentials_without_groups_are_no_credentials_for_them(open_tools, auth):
    tools = open_tools(user_id="bob", auth=auth, groups_claim="groups")
    assert_failed(tools.call("refund", cents=1), status="denied")


def test_other_policies_hold_as_well(toolstile_tools, policy_of):
    class Strict:
        @hookimpl
        def toolstile_check(self):
            return PolicyDecision.deny("Not today.")

    @tool(category="read")
    def look() -> str:
        """Look."""
        return "seen"

    tools = toolstile_tools(look, Strict(), policies=[policy_of()])
    assert_failed(tools.call("look"), status="denied", contains="Not today.")
