"""The names of tools in a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolstile import Host
from toolstile.policies.rule_set import faults_of
from toolstile_hookspecs import DefinitionError, MarkdownSection, tool
from toolstile_plugins.policies import (
    CategoryPolicy,
    QuotaPolicy,
    RateLimitPolicy,
    ReadBeforeWritePolicy,
    SequentialDependencyPolicy,
)


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (QuotaPolicy(max_calls=1, tools={"api"}), set()),
        (QuotaPolicy(max_calls=1, tools={"api"}, per_tool={"letter": 1}), {"letter"}),
        (SequentialDependencyPolicy(dependencies={"c": {"a", "b"}}), {"a", "b", "c"}),
        (ReadBeforeWritePolicy(), set()),
        (
            ReadBeforeWritePolicy(
                read_tools={"show"}, write_tools={"save", "edit_file"}, paths={"rename": ("a",)}
            ),
            {"show", "save", "edit_file", "rename"},
        ),
        (ReadBeforeWritePolicy(write_tools={"save"}), {"save"}),
    ],
)
def test_a_policy_says_by_which_names_it_rules_but_for_its_defaults(policy, names):
    assert policy.governed == names


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        (CategoryPolicy, {"category": {"write": "deny"}, "tools": set()}, "tools"),
        (RateLimitPolicy, {"max_calls": 1, "tools": set()}, "tools"),
        (QuotaPolicy, {"max_calls": 1, "tools": set()}, "tools"),
        (QuotaPolicy, {"max_calls": 1, "tags": set()}, "tags"),
        (CategoryPolicy, {"category": {"write": "deny"}, "servers": set()}, "servers"),
        (SequentialDependencyPolicy, {"dependencies": {}}, "dependencies"),
        (SequentialDependencyPolicy, {"dependencies": {"deploy": set()}}, "waits for nothing"),
    ],
)
def test_a_policy_that_names_no_tool_rules_nothing_and_is_refused(kind, fields, place):
    with pytest.raises(DefinitionError, match=place):
        kind(**fields)


def test_names_of_tools_may_be_globs(yard, steps):
    yard.open(
        steps("login", "page_save", "page_drop", "send_letter", "send_fax"),
        host_policies=(
            CategoryPolicy(category={"side_effect": "deny"}, tools={"*_drop"}),
            SequentialDependencyPolicy(dependencies={"page_*": {"log*"}}),
            QuotaPolicy(per_tool={"send_*": 1, "send_fax": 2}),
            RateLimitPolicy(max_calls=1, tools={"page_[rs]ave"}),
        ),
    )
    assert "Call log* first" in yard("page_save").text
    assert yard("login").success
    assert yard("page_save").success
    assert "Rate limit exceeded" in yard("page_save").text
    assert "page_drop cannot be called here" in yard("page_drop").text
    assert [yard("send_letter").success, yard("send_letter").success] == [True, False]
    assert [yard("send_fax").success for _ in range(3)] == [True, True, False]


def test_of_several_globs_the_least_quota_holds(yard, steps):
    yard.open(steps("send_fax"), host_policies=(QuotaPolicy(per_tool={"send_*": 2, "*_fax": 1}),))
    assert [yard("send_fax").success, yard("send_fax").success] == [True, False]


def test_a_glob_that_waits_holds_for_all_but_those_it_waits_for(yard, steps):
    first = SequentialDependencyPolicy(dependencies={"*": {"login", "consent"}})
    yard.open(steps("login", "consent", "work"), host_policies=(first,))
    assert "missing consent, login" in yard("work").text
    assert yard("login").success
    assert yard("consent").success
    assert yard("work").success


@pytest.mark.parametrize(
    "dependencies",
    [
        {"page_*": {"draft"}, "draft": {"page_*"}},
        {"page_save": {"draft"}, "draft": {"page_save"}},
        {"save_*": {"send_fax"}, "send_*": {"save_page"}},
    ],
)
def test_globs_that_wait_for_one_another_are_refused(dependencies):
    with pytest.raises(DefinitionError, match="in a circle"):
        SequentialDependencyPolicy(dependencies=dependencies)


@tool(category="delete", consequence="high")
def drop() -> None:
    """Drop it."""


def test_a_rule_on_a_category_that_no_named_tool_has_is_told(subtests):
    for name in ["drop", "dr*"]:
        for fields, fits in [
            ({"category": {"write": "deny"}}, False),
            ({"consequence": {"low": "ask"}}, False),
            ({"category": {"delete": "allow", "write": "deny"}}, True),
            ({"category": {"delete": "ask"}}, True),
            ({"category": {"write": "deny"}, "consequence": {"high": "deny"}}, True),
        ]:
            with subtests.test(name=name, fields=fields, fits=fits):
                rule = CategoryPolicy(tools={name}, **fields)
                had = "drop has category delete and high consequence"
                told = [] if fits else [f"has no rule for the tools of {name!r}: {had}"]
                tools = [drop, replace(drop, name="other", category="write")]
                assert rule.misfits(tools, lambda _: False) == told
                assert rule.misfits(tools, lambda _: True) == []


@tool(tags=("mail", "out"))
def mail() -> str:
    """Send a mail."""
    return "sent"


@tool(tags=("out",))
def fax() -> str:
    """Send a fax."""
    return "sent"


@tool
def look() -> str:
    """Look."""
    return "seen"


SEND = (mail, fax, look)


def test_tools_are_meant_by_all_of_names_and_tags(yard, subtests):
    for make in [
        lambda **fields: CategoryPolicy(category={"side_effect": "deny"}, **fields),
        lambda **fields: RateLimitPolicy(max_calls=1, **fields),
        lambda **fields: QuotaPolicy(max_calls=1, **fields),
    ]:
        for fields, ruled in [
            ({"tags": {"mail"}}, {"mail"}),
            ({"tags": {"out"}}, {"mail", "fax"}),
            ({"tags": {"out"}, "tools": {"*a*"}}, {"mail", "fax"}),
            ({"tags": {"mail"}, "tools": {"*a*"}}, {"mail"}),
            ({"tools": {"look"}}, {"look"}),
            ({}, {"mail", "fax", "look"}),
        ]:
            with subtests.test(make=make, fields=fields, ruled=ruled):
                for each in SEND:
                    section = MarkdownSection(key="send", title="Send", tools=SEND)
                    yard.open(section, policies=(make(**fields),))
                    outcomes = [yard(each.name) for _ in range(2)]
                    assert (not outcomes[-1].success) is (each.name in ruled)


def test_what_no_tool_has_or_no_tool_can_be_is_told(subtests):
    for make in [
        lambda **fields: CategoryPolicy(category={"side_effect": "deny"}, name="own", **fields),
        lambda **fields: RateLimitPolicy(max_calls=1, name="own", **fields),
        lambda **fields: QuotaPolicy(max_calls=1, name="own", **fields),
        lambda **fields: QuotaPolicy(max_calls=1, per_tool={"fax": 1}, name="own", **fields),
    ]:
        for fields, told in [
            ({"tags": {"maill", "mail"}}, "refers to unknown tags: 'maill' (did you mean 'mail'?)"),
            ({"servers": {"post"}}, "refers to unknown servers: 'post'"),
            (
                {"tools": {"look"}, "tags": {"mail"}},
                "names 'look', which its other fields leave out",
            ),
        ]:
            with subtests.test(make=make, fields=fields, told=told):
                (fault,) = faults_of([make(**fields)], SEND, ())
                assert fault.startswith(f"Policy 'own' {told}")


@pytest.mark.parametrize(
    ("fields", "ruled"),
    [({"category": {"read"}}, {"look"}), ({"consequence": {"medium"}, "tools": {"f*"}}, {"fax"})],
)
def test_limits_go_by_category_and_consequence_too(yard, fields, ruled):
    tools = (mail, fax, replace(look, category="read"))
    yard.open(
        MarkdownSection(key="send", title="Send", tools=tools),
        policies=(RateLimitPolicy(max_calls=1, **fields),),
    )
    denied = [each.name for each in tools for _ in range(2) if not yard(each.name).success]
    assert denied == sorted(ruled)


def test_a_tool_outside_the_selection_has_no_rule_in_its_plan():
    limits = RateLimitPolicy(max_calls=1, tools={"mail"}, name="rate")
    rule = CategoryPolicy(category={"side_effect": "deny"}, tools={"mail"}, name="rule")
    with Host(discover=False, tools=SEND, policies=[limits, rule]) as host, host.executor() as own:
        plans = own.table().plans
        assert [[rule.name for rule in plans["mail"].checks], len(plans["mail"].reserves)] == [
            ["rule"],
            1,
        ]
        assert (plans["fax"].checks, plans["fax"].reserves) == ((), ())
