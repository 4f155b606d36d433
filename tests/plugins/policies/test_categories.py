"""Categories of tools may be called, or need a person's approval."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ApprovalAnswer, DefinitionError, Status
from toolstile_plugins.policies import CategoryPolicy


def test_categories_that_are_not_named_are_free(yard, steps):
    yard.open(
        steps("look", category="read"),
        steps("drop", category="delete", key="d"),
        host_policies=(CategoryPolicy(category={"delete": "deny"}),),
    )
    assert yard("look").success
    assert yard("drop").text == (
        "drop cannot be called here: tools of category delete are not allowed. Continue without it."
    )


def test_ask_lets_a_person_decide(yard, steps):
    requests = []

    def approve(request):
        requests.append(request)
        return ApprovalAnswer.approve()

    yard.open(
        steps("pay", consequence="high"),
        host_policies=(CategoryPolicy(consequence={"high": "ask"}),),
        approver=approve,
    )
    assert yard("pay").success
    assert requests[0].reasons == ("A person decides on tools of high consequence, such as pay.",)


def test_without_anybody_to_ask_it_is_denied(yard, steps):
    yard.open(
        steps("pay", consequence="high"),
        host_policies=(CategoryPolicy(consequence={"high": "ask"}),),
    )
    assert yard("pay").status is Status.DENIED


@pytest.mark.parametrize(
    ("category", "consequence", "told"),
    [
        ("ask", "deny", "tools of high consequence are not allowed"),
        ("deny", "ask", "tools of category write are not allowed"),
        ("deny", "deny", "tools of category write and high consequence are not allowed"),
        ("allow", "deny", "tools of high consequence are not allowed"),
    ],
)
def test_the_stronger_rule_wins(yard, steps, category, consequence, told):
    rule = CategoryPolicy(category={"write": category}, consequence={"high": consequence})
    yard.open(
        steps("save", category="write", consequence="high"),
        host_policies=(rule,),
        approver=lambda request: ApprovalAnswer.approve(),
    )
    assert told in yard("save").text


def test_it_can_be_for_some_tools_only(yard, steps):
    rule = CategoryPolicy(category={"write": "deny"}, tools=frozenset({"one"}))
    yard.open(steps("one", "two", category="write"), host_policies=(rule,))
    assert (yard("one").success, yard("two").success) == (False, True)


def test_a_policy_that_rules_nothing_is_refused():
    with pytest.raises(DefinitionError, match="give a rule"):
        CategoryPolicy()


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (
            {"category": {"deletes": "deny"}},
            "category.deletes.[key]: input should be 'read', 'write', 'delete' or 'side_effect'.",
        ),
        (
            {"consequence": {"huge": "deny"}},
            "consequence.huge.[key]: input should be 'low', 'medium' or 'high'.",
        ),
        (
            {"category": {"delete": "no"}},
            "category.delete: input should be 'allow', 'ask' or 'deny'.",
        ),
    ],
)
def test_a_rule_that_would_govern_nothing_or_be_misread_is_refused(rules, told):
    with pytest.raises(DefinitionError) as raised:
        CategoryPolicy(**rules)
    assert str(raised.value) == f"CategoryPolicy: {told}"
