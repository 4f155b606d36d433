"""Tests of policies are calls in a file, each with the verdict that it should meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Settings, tool
from toolstile_hookspecs import (
    ConfigurationError,
    PolicyDecision,
    Tool,
    ToolContext,
    hookimpl,
)
from toolstile_plugins.rules.commands import read_cases, tried

RAN: list[str] = []


@tool(category="read")
def balance(account: str) -> int:
    """Tell the balance of an account."""
    RAN.append(account)
    return 0


@tool(category="write")
def pay(amount: int) -> str:
    """Pay an amount."""
    RAN.append(str(amount))
    return "paid"


class Bank:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="bank", title="Bank", tools=[balance, pay])]


class OnlyWhatWasAskedFor:
    """Allows to pay amounts that the request or the principal's group names."""

    name = "asked"

    def check(self, tool_: Tool[Any, Any], params: Any, context: ToolContext) -> PolicyDecision:
        said = " ".join(turn.text for turn in context.request)
        principal = context.principal
        if tool_.name != "pay" or str(params.amount) in said:
            return PolicyDecision.allow()
        if principal is not None and "clerks" in principal.groups:
            return PolicyDecision.ask(f"Is {params.amount} right?")
        return PolicyDecision.deny(f"Nobody asked for {params.amount}.")

    def on_result(self, *_: object) -> None:
        """Remember nothing."""


LOOK_FIRST = {
    "kind": "sequential_dependency",
    "name": "look first",
    "dependencies": {"pay": ["balance"]},
}


def results(folder: Path, text: str, *policies: dict[str, Any], own: Any = ()) -> list[Any]:
    path = folder / "policies.test.toml"
    path.write_text(text)
    settings = Settings(policies=list(policies))
    with Host(settings=settings, plugins=[Bank()], policies=own, discover=["policies"]) as host:
        found = list(tried(host, read_cases(path)))
    assert RAN == []
    return found


def test_a_case_that_holds_has_no_fault(tmp_path: Path):
    text = """
    [[cases]]
    name = "Nobody pays before the balance was looked at"
    [[cases.calls]]
    tool = "pay"
    arguments = {amount = 5}
    expect = "deny"
    by = "look first"
    [[cases.calls]]
    tool = "balance"
    arguments = {account = "a"}
    result = 17
    [[cases.calls]]
    tool = "pay"
    arguments = {amount = 5}
    expect = "allow"
    """
    name = "Nobody pays before the balance was looked at"
    assert results(tmp_path, text, LOOK_FIRST) == [(name, [])]


def test_cases_have_sessions_of_their_own(tmp_path: Path):
    case = """
    [[cases]]
    name = "{}"
    calls = [{{tool = "balance", arguments = {{account = "a"}}}}]
    """
    pays = """
    [[cases]]
    name = "pays"
    calls = [{tool = "pay", arguments = {amount = 5}, expect = "deny"}]
    """
    found = results(tmp_path, case.format("looks") + pays, LOOK_FIRST)
    assert [faults for _, faults in found] == [[], []]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('amount = 5}, expect = "allow"', "expected allow, got deny by look first: "),
        ('amount = 5}, expect = "ask"', "expected ask, got deny by look first: "),
        ('amount = 5}, expect = "deny", by = "asked"', "expected deny by asked, got it by look"),
        ("amount = 5}", "denied by look first: "),
        ('amount = "x"}, expect = "deny"', "no policy was asked: "),
    ],
)
def test_a_call_that_meets_something_else_is_told(tmp_path: Path, call: str, told: str):
    text = f'[[cases]]\nname = "n"\ncalls = [{{tool = "pay", arguments = {{{call}}}]'
    [(_, faults)] = results(tmp_path, text, LOOK_FIRST)
    [fault] = faults
    assert fault.startswith("call 1, pay: ")
    assert told in fault


def test_a_tool_that_is_not_there_is_told(tmp_path: Path):
    text = '[[cases]]\nname = "n"\ncalls = [{tool = "erase", expect = "deny"}]'
    [(_, faults)] = results(tmp_path, text, LOOK_FIRST)
    assert "no policy was asked" in faults[0]


def test_a_call_that_fails_counts_for_policies_as_one_that_failed(tmp_path: Path):
    text = """
    [[cases]]
    name = "A balance that could not be read is no balance"
    calls = [
        {tool = "balance", arguments = {account = "a"}, error = "The bank is closed."},
        {tool = "pay", arguments = {amount = 5}, expect = "deny"},
    ]
    """
    assert [faults for _, faults in results(tmp_path, text, LOOK_FIRST)] == [[]]


def test_a_batch_is_judged_together(tmp_path: Path):
    text = """
    [[cases]]
    name = "A balance beside it comes too late"
    together = true
    calls = [
        {tool = "balance", arguments = {account = "a"}, result = 17},
        {tool = "pay", arguments = {amount = 5}, expect = "deny"},
    ]
    """
    [(_, faults)] = results(tmp_path, text, LOOK_FIRST)
    assert faults == []


def test_request_and_principal_are_those_of_the_case(tmp_path: Path):
    text = """
    [[cases]]
    name = "asked for"
    request = ["Pay something.", "Make it 5."]
    calls = [{tool = "pay", arguments = {amount = 5}, expect = "allow"}]

    [[cases]]
    name = "a clerk"
    principal = {id = "ada", groups = ["clerks"]}
    calls = [
        {tool = "pay", arguments = {amount = 5}, expect = "ask"},
        {tool = "pay", arguments = {amount = 6}, expect = "ask", answer = "deny"},
    ]

    [[cases]]
    name = "anybody"
    calls = [{tool = "pay", arguments = {amount = 5}, expect = "deny", by = "asked"}]
    """
    found = results(tmp_path, text, own=[OnlyWhatWasAskedFor()])
    assert [faults for _, faults in found] == [[], [], []]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"there are no cases; write each as a table \[\[cases\]\]"),
        ("[[cases]]", "name: is missing; add it"),
        ('[[cases]]\nname = "n"\ncalls = []', "calls: is empty; add one"),
        ('[[cases]]\nname = "n"\nrequest = "Pay."', "request: expected an array; put the value"),
        ('[[cases]]\nname = "n"\ncalls = [{tool = "pay", expect = "no"}]', "expect"),
        (
            '[[cases]]\nname = "n"\ncalls = [{tool = "pay", expects = "deny"}]',
            "did you mean 'expect'",
        ),
        ("[[cases", "is not TOML"),
    ],
)
def test_what_is_no_test_is_told(tmp_path: Path, text: str, told: str):
    with pytest.raises(ConfigurationError, match=told):
        results(tmp_path, text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_cases(tmp_path / "none.toml")
