"""The sessions of a host share the plans of its tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, ToolCall, tool
from toolstile.pipeline import plan as plans
from toolstile_hookspecs import PolicyDecision, Tool, ToolContext


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools for which a plan was made, in order."""
    names: list[str] = []
    plan_for = plans.plan_for

    def noting(tool: Tool[Any, Any], *rest: Any) -> Any:
        names.append(tool.name)
        return plan_for(tool, *rest)

    monkeypatch.setattr(plans, "plan_for", noting)
    return names


def numbered(count: int) -> list[Tool[Any, Any]]:
    def answer() -> int:
        """Answer."""
        return 42

    return [tool(name=f"answer_{number}", timeout=None)(answer) for number in range(count)]


def shop_of(*tools: Tool[Any, Any], **options: Any) -> MarkdownSection:
    return MarkdownSection(key="shop", title="Shop", tools=tools, **options)


def calls_of_python(act: Callable[[], object]) -> int:
    found = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(discover=False) as host:
        yield host


@pytest.mark.slow
def test_the_first_call_of_a_session_costs_the_same_with_any_number_of_tools(
    host: Host, planned: list[str]
) -> None:
    costs: list[tuple[int, int]] = []
    for count in (30, 1_000):
        prompt = Prompt.of("tests", "plans", [shop_of(*numbered(count))])
        call = ToolCall("answer_7")
        with host.executor(prompt=prompt) as tools:
            assert tools.dispatch(call).text == "42"
        assert len(planned) == count
        planned.clear()
        with host.executor(prompt=prompt) as tools:
            first, second = [calls_of_python(partial(tools.dispatch, call)) for _ in range(2)]
        assert planned == []
        costs.append((first, second))
    few, many = costs
    assert many == few
    # All that is looked at again is which sections there are.
    assert few[0] - few[1] < 40


def test_a_prompt_that_is_bound_anew_for_each_session_shares_them_too(
    host: Host, planned: list[str]
) -> None:
    prompt = Prompt.of("tests", "plans", [shop_of(*numbered(3))])
    for customer in ("Ada", "Grace"):
        with host.executor(prompt=prompt.bind({"customer": customer})) as tools:
            assert tools.dispatch(ToolCall("answer_0")).success
    assert len(planned) == 3


def test_executors_with_the_same_tools_of_their_own_share_them_too(
    host: Host, planned: list[str]
) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    own = [double, *numbered(3)]
    for _ in range(2):
        with host.executor(tools=own) as tools:
            assert tools.dispatch(ToolCall("double", {"number": 2})).text == "4"
    assert len(planned) == 4
    with host.executor(tools=own[:1]) as tools:
        assert not tools.dispatch(ToolCall("answer_0")).success


class Guard:
    """Denies every tool, unless it declines to check it."""

    name = "guard"

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer

    def checks(self, tool: Tool[Any, Any]) -> Any:
        return self.answer()

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.deny("no")

    def on_result(self, *args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("answer", "is_denied"),
    [(lambda: True, True), (lambda: None, True), (lambda: 1 / 0, True), (lambda: False, False)],
    ids=["true", "no answer", "raises", "false"],
)
def test_a_policy_checks_a_tool_unless_it_says_that_it_does_not(
    answer: Callable[[], object], is_denied: bool
) -> None:
    with (
        Host(discover=False, tools=numbered(1), policies=[Guard(answer)]) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("answer_0")).success is not is_denied


def test_sessions_in_which_other_sections_are_shown_have_other_plans(host: Host) -> None:
    section = shop_of(*numbered(2), enabled=lambda session: session.id == "open")
    prompt = Prompt.of("tests", "plans", [section])
    for session_id, is_open in (("open", True), ("shut", False)) * 2:
        with host.executor(prompt=prompt, session_id=session_id) as tools:
            assert tools.dispatch(ToolCall("answer_1")).success is is_open


def test_a_section_whose_tools_have_changed_is_planned_anew(host: Host) -> None:
    section = shop_of(*numbered(1))
    tools = section.tools
    prompt = Prompt.of("tests", "plans", [section])
    with host.executor(prompt=prompt) as executor:
        assert not executor.dispatch(ToolCall("answer_1")).success
    object.__setattr__(section, "tools", [*tools, *numbered(2)[1:]])
    with host.executor(prompt=prompt) as executor:
        assert executor.dispatch(ToolCall("answer_1")).success


def test_a_dry_run_shares_no_plans_with_others(host: Host) -> None:
    prompt = Prompt.of("tests", "plans", [shop_of(*numbered(1))])
    for dry_run in (False, True, False):
        with host.executor(prompt=prompt, dry_run=dry_run) as tools:
            # Only in a dry run a tool has to be contained.
            assert tools.dispatch(ToolCall("answer_0")).success is not dry_run


def test_policies_of_equal_value_are_told_apart(host: Host) -> None:
    class Counting:
        """Counts the calls it checks; equal to all others."""

        name = "counting"
        checked = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Counting)

        __hash__ = None  # type: ignore[assignment]

        def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
            self.checked += 1
            return PolicyDecision.allow()

        def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
            return None

    section = shop_of(*numbered(1))
    policies = [Counting(), Counting()]
    for policy in policies:
        with host.executor(prompt=Prompt.of("tests", "plans", [section], [policy])) as tools:
            tools.dispatch(ToolCall("answer_0"))
    assert [policy.checked for policy in policies] == [1, 1]


def test_the_plans_of_prompts_without_end_are_not_all_kept(host: Host) -> None:
    for _ in range(plans.MAX_PROMPTS + 3):
        with host.executor(tools=numbered(1)) as tools:
            assert tools.dispatch(ToolCall("answer_0")).success
    assert len(host.engine.plans._made) == plans.MAX_PROMPTS
