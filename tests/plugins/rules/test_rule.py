"""A rule allows, asks or denies by an expression over the call."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    DefinitionError,
    Principal,
    Status,
    ToolCall,
    Verdict,
    tool,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.rules import RulePolicy

BIG = {"tools": ["pay"], "when": "args.amount > 500", "effect": "deny"}


def test_it_denies_where_the_expression_holds(office):
    office.open({**BIG, "reason": "Pay at most 500 at once."})
    assert office("pay", amount=500, to="ann").success
    denied = office("pay", amount=500.01, to="ann")
    assert (denied.status, denied.text) == (Status.DENIED, "Pay at most 500 at once.")


def test_without_a_reason_it_says_what_cannot_be_called(office):
    office.open(BIG)
    told = "pay cannot be called with such arguments here. Continue without it."
    assert office("pay", amount=501, to="ann").text == told


def test_it_asks_a_person(office):
    shown = []

    def approve(request):
        shown.append(request.reasons)
        return ApprovalAnswer.approve()

    office.open({**BIG, "effect": "ask", "reason": "Over 500."}, approver=approve)
    assert office("pay", amount=501, to="ann").success
    assert office("pay", amount=5, to="ann").success
    assert shown == [("Over 500.",)]


def test_deny_wins_over_ask_and_ask_over_allow(office):
    when = {"tools": ["pay"], "when": "args.amount > 5"}
    office.open(
        {**when, "effect": "allow"},
        {**when, "effect": "ask", "reason": "Asked."},
        {**BIG, "reason": "Denied."},
        approver=lambda request: ApprovalAnswer.approve(),
    )
    assert office("pay", amount=501, to="ann").text == "Denied."
    asked = office("pay", amount=6, to="ann")
    assert {each.verdict for each in asked.event.decisions} == {Verdict.ASK}
    assert asked.success


def test_a_rule_without_an_expression_always_holds(office):
    office.open({"tools": ["fetch"], "effect": "deny"})
    assert office("fetch", url="https://example.com/").status is Status.DENIED


def test_each_call_of_a_batch_is_ruled(office):
    office.open(BIG)
    ended = office.at_once(
        ("pay", {"amount": 1, "to": "ann"}),
        ("pay", {"amount": 501, "to": "ann"}),
        ("read_note", {"path": "a"}),
    )
    statuses = [each.status for each in ended]
    assert statuses == [Status.SUCCEEDED, Status.DENIED, Status.SUCCEEDED]


def test_a_nested_call_is_ruled(tmp_path, office):
    office.open({"tools": ["write_note"], "when": "args.path.startsWith('etc/')", "effect": "deny"})
    if office.driver == "sync":
        assert office("tidy", path="etc/a").status is Status.FAILED
        assert office("tidy", path="a").success


def test_it_reads_nested_arguments_and_lists(office):
    office.open(
        {
            "tools": ["order"],
            "when": "args.lines.exists(line, line.count > 10 && line.article == 'bolt')",
            "effect": "deny",
        }
    )
    few, many = {"article": "bolt"}, {"article": "bolt", "count": 11}
    assert office("order", lines=[few]).success
    assert office("order", lines=[few, many]).status is Status.DENIED


def test_an_optional_argument_that_is_null_is_told_from_one_that_is_not(office):
    office.open(
        {
            "tools": ["send_email"],
            "when": "args.cc != null && args.cc.exists(one, mail_host(one) != 'example.com')",
            "effect": "deny",
        }
    )
    mail = {"to": ["ann@example.com"], "body": "Hello."}
    assert office("send_email", **mail).success
    assert office("send_email", **mail, cc=["bob@example.com"]).success
    assert not office("send_email", **mail, cc=["bob@example.org"]).success


def test_it_reads_the_tool_the_moment_the_principal_and_the_request(office, clock):
    office.open(
        {"when": "tool.category == 'write' && now.getHours() >= 18", "effect": "deny"},
        {"tools": ["pay"], "when": "!('finance' in principal.groups)", "effect": "deny"},
        {"tools": ["fetch"], "when": "!request.exists(said, 'read' in words(said))"}
        | {"effect": "deny"},
        clock=clock,
        given={
            "principal": Principal("https://id.example.com", "ann", groups={"finance"}),
            "request": ["Hello.", "READ the page."],
        },
    )
    assert office("write_note", path="a", text="b").success
    clock.time = clock.time.replace(hour=18)
    assert not office("write_note", path="a", text="b").success
    assert office("read_note", path="a").success
    assert office("pay", amount=1, to="bob").success
    assert office("fetch", url="https://example.com/").success


def test_it_reads_the_path_of_the_agent(office):
    office.open({"when": "agent.startsWith('main/reader')", "effect": "deny"})
    assert office("read_note", path="a").success
    call = ToolCall("read_note", {"path": "a"})
    with office.tools.child("reader") as child, child.child("helper") as grandchild:
        for each in (child, grandchild):
            assert each.dispatch(call).status is Status.DENIED
    with office.tools.child("writer") as other:
        assert other.dispatch(call).success


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("'finance' in principal.groups", "the principal of the call is unknown"),
        ("request.exists(said, said == 'pay')", "the user's request is unknown"),
        ("request.all(said, said == 'pay')", "the user's request is unknown"),
    ],
)
@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_nobody_and_nothing_asked_for_deny(office, when, why, effect):
    office.open({"tools": ["pay"], "when": when, "effect": effect})
    denied = office("pay", amount=1, to="ann")
    assert denied.status is Status.DENIED
    assert denied.text == (
        f"Cannot call pay: a rule on it cannot be evaluated: {why}. Correct that, then retry pay; "
        "if the arguments are right, this requires human intervention."
    )


def test_what_fails_or_takes_too_long_denies(office, subtests):
    for when, lines, told in [
        ("args.lines[3].count > 5", 1, "Index error"),
        ("args.lines.all(one, args.lines.all(other, one.count == other.count))", 200, "budget"),
    ]:
        for effect in ["allow", "ask", "deny"]:
            with subtests.test(when=when, lines=lines, told=told, effect=effect):
                office.open({"tools": ["order"], "when": when, "effect": effect})
                denied = office("order", lines=[{"article": "bolt"}] * lines)
                assert denied.status is Status.DENIED
                assert told in denied.text


def test_a_tool_without_the_argument_is_none_of_its_business(office):
    office.open({"when": "args.amount > 500", "effect": "deny"})
    assert office("fetch", url="https://example.com/").success
    assert office("upload", name="a").success
    assert not office("pay", amount=501, to="ann").success


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_an_argument_that_nobody_declared_is_ruled_all_the_same(office, effect):
    office.open({"when": "args.amount > 500", "effect": effect})
    assert office("upload", name="a", amount=501).status is (
        Status.SUCCEEDED if effect == "allow" else Status.DENIED
    )
    assert not office("upload", name="a", amount="501").success


def test_an_argument_within_an_optional_one_is_ruled(office):
    when = "has(args.owner) && args.owner.id == 'eve'"
    office.open({"tools": ["upload"], "when": when, "effect": "deny"})
    assert office("upload", name="a").success
    assert office("upload", name="a", owner={"id": "ann"}).success
    assert not office("upload", name="a", owner={"id": "eve"}).success


def test_a_tool_that_comes_later_and_does_not_fit_is_denied(office):
    @tool
    def pay_words(amount: str) -> str:
        """Pay in words."""
        return "paid"

    office.open({"tools": ["pay*"], "when": "args.amount > 500", "effect": "deny"})
    with office.host.executor(tools=[pay_words]) as tools:
        denied = tools.dispatch(ToolCall("pay_words", {"amount": "a lot"}))
    assert denied.status is Status.DENIED
    assert "compares args.amount (string) with 500 (number)" in denied.text


def test_it_can_be_made_in_python():
    rule = RulePolicy(tools={"pay"}, when="args.amount > 500", effect="deny", name="limit")
    assert replace(rule, name="other").name == "other"
    with Host(discover=False, policies=[rule]) as host:
        assert host.policies == (rule,)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"effect": "refuse"}, "effect: "),
        ({"effect": "deny", "when": "1 +"}, r"when = '1 \+': .*Syntax error"),
        ({"effect": "deny", "when": "1 + 1"}, "it is INT, not true or false"),
        ({"effect": "deny", "root": "nowhere"}, "nowhere is not a directory"),
        ({"effect": "deny", "tools": []}, "names none"),
    ],
)
def test_wrong_fields_are_refused_in_python(fields, told):
    with pytest.raises(DefinitionError, match=told):
        RulePolicy(**fields)


WITHOUT = """
import sys
sys.modules["cel_expr_python"] = None
from toolstile import Host
from toolstile_hookspecs import ConfigurationError
with Host(plugins=[]) as host:
    pass
try:
    Host(config=sys.argv[1])
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_its_library_only_a_rule_is_refused(tmp_path):
    file = tmp_path / "toolstile.toml"
    file.write_text('[[policies]]\nkind = "rule"\neffect = "deny"\n')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(file)], capture_output=True, text=True, check=True
    )
    assert "[[policies]] number 1" in done.stdout
    assert extra_remedy("policies") in done.stdout


@pytest.mark.slow
def test_a_host_without_rules_imports_nothing_that_evaluates_them():
    program = """
import sys
from toolstile import Host
heavy = "cel_expr_python", "re2", "toolstile_plugins.rules.expressions"
with Host(policies=[]):
    print([name for name in heavy if name in sys.modules])
from toolstile_plugins.rules import RulePolicy
print([name for name in heavy[:2] if name in sys.modules])
with Host(policies=[RulePolicy(effect="allow", when="true")]):
    print([name for name in heavy if name not in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["[]", "[]", "['re2']"]
