"""A quota adds up an argument of the calls it counts."""

from __future__ import annotations

from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from toolstile import Host, Settings
from toolstile.testing import FakeClock
from toolstile_hookspecs import (
    ConfigurationError,
    DefinitionError,
    PolicyDecision,
    Tool,
    ToolCall,
    ToolResult,
    tool,
)
from toolstile_plugins.policies import QuotaPolicy


class Order(BaseModel):
    """An order."""

    total: float
    article: str = "bolt"


@tool
def pay(amount: float, to: str = "ann") -> str:
    """Pay somebody."""
    return "paid"


@tool
def pay_exactly(amount: Decimal = Decimal(5)) -> str:
    """Pay an amount of which a text is written."""
    return "paid"


@tool
def order(order: Order | None) -> str:
    """Order something."""
    return "ordered"


transfer: Tool[Any, Any] = Tool(
    name="transfer",
    description="Transfer an amount, as a server of another language has it.",
    params_schema={"type": "object", "properties": {"amount": {"type": ["number", "string"]}}},
    handler=lambda params, *, context: ToolResult.ok("transferred"),
)


def limited(most: float = 100, **options: Any) -> QuotaPolicy:
    given = {"tools": {"pay"}, "sum": "amount", "name": "spent", **options}
    return QuotaPolicy(max_sum=most, **given)


class Bank:
    """A host with one policy, and calls of its tools."""

    def __init__(self, policy: Any, stack: ExitStack, **options: Any) -> None:
        self.clock = FakeClock()
        self.host = stack.enter_context(
            Host(
                discover=["sessions"],
                tools=[pay, pay_exactly, order, transfer],
                policies=[policy],
                clock=self.clock,
                **options,
            )
        )
        self.tools = stack.enter_context(self.host.executor())

    def __call__(self, name: str = "pay", /, **arguments: Any) -> Any:
        return self.tools.dispatch(ToolCall(name, arguments))

    def pays(self, *amounts: float) -> list[bool]:
        return [self(amount=amount).success for amount in amounts]


@pytest.fixture
def stack():
    with ExitStack() as entered:
        yield entered


@pytest.fixture
def bank(stack):
    return lambda policy, **options: Bank(policy, stack, **options)


def test_amounts_add_up_to_the_limit(bank):
    opened = bank(limited())
    assert opened.pays(60, 40.5, 40, 0, 0.000001) == [True, False, True, True, False]


def test_a_denial_says_what_is_left_and_what_to_do(bank):
    opened = bank(limited())
    opened(amount=80)
    assert opened(amount=20.5).text == (
        "Quota exceeded: amount is 20.5, and 20 of 100 are left. Retry pay with no more than that, "
        "or continue without it."
    )
    assert opened(amount=20).success
    assert opened(amount=1).text == (
        "Quota exceeded: amount is 1, and 0 of 100 are left. It cannot be called again. "
        "Continue without it."
    )


def test_tenths_are_added_exactly(bank):
    opened = bank(limited(0.3))
    assert opened.pays(0.1, 0.1, 0.1, 0.1) == [True, True, True, False]
    many = bank(limited(10, name="many"))
    assert many.pays(*[0.1] * 101) == [True] * 100 + [False]


@pytest.mark.parametrize(
    "amount", [-1, -0.01, "5", "-5", "five", "1e3", "", True, None, [5], {"a": 5}, 1e300, 10**30]
)
def test_what_is_not_a_number_of_0_or_more_is_denied_and_gives_nothing_back(bank, amount):
    opened = bank(limited(10, tools={"transfer"}))
    assert opened("transfer", amount=10).success
    denied = opened("transfer", amount=amount)
    assert not denied.success
    assert not opened("transfer", amount=0.5).success
    assert "transfer" in denied.text or "Quota" in denied.text


def test_a_call_without_the_argument_is_denied(bank):
    assert bank(limited(10, tools={"transfer"}))("transfer").text == (
        "Cannot call transfer: its amount is added up, so it must be a number of 0 or more. "
        "Correct it, then retry transfer."
    )


def test_defaults_and_decimals_count(bank):
    opened = bank(limited(10, tools={"pay_exactly"}))
    assert opened("pay_exactly").success
    assert opened("pay_exactly", amount="4.9").success
    assert not opened("pay_exactly", amount="0.11").success
    assert opened("pay_exactly", amount="0.1").success


def test_an_argument_within_another_is_added_up(bank):
    opened = bank(limited(10, tools={"order"}, sum="order.total"))
    assert opened("order", order={"total": 7}).success
    assert not opened("order", order={"total": 4}).success
    assert not opened("order", order=None).success


def test_all_tools_it_selects_share_the_sum(bank):
    opened = bank(limited(10, tools={"pay", "transfer"}))
    assert opened(amount=6).success
    assert not opened("transfer", amount=5).success


def test_calls_and_sums_can_be_limited_together(bank):
    opened = bank(limited(10, max_calls=2, per_tool={"order": 1}))
    assert opened.pays(1, 20, 2, 3) == [True, False, True, False]
    assert "2 of 2 calls" in opened(amount=1).text


def test_a_failed_reservation_gives_back_what_it_took(bank):
    opened = bank(limited(10, max_calls=2))
    assert opened.pays(11, 11, 5, 5) == [False, False, True, True]


def test_amounts_are_free_again_after_the_window(bank):
    opened = bank(limited(10, window=60))
    assert opened.pays(4) == [True]
    opened.clock.advance(30)
    assert opened.pays(6) == [True]
    assert opened(amount=3).text.endswith("Wait 30 seconds, then retry.")
    assert opened(amount=5).text.endswith("Wait 60 seconds, then retry.")
    assert "Retry pay with no more" in opened(amount=11).text or not opened(amount=11).success
    opened.clock.advance(30)
    assert opened.pays(4, 0.1) == [True, False]


def test_calls_of_a_quota_can_have_a_window_too(bank):
    opened = bank(QuotaPolicy(max_calls=1, window=10, tools={"pay"}, name="calls"))
    opened(amount=1)
    assert opened(amount=1).text == (
        "Quota exceeded: 1 of 1 calls are used. Wait 10 seconds, then retry."
    )
    opened.clock.advance(10)
    assert opened(amount=1).success


def test_exactly_as_much_of_a_batch_is_admitted(bank):
    opened = bank(limited(10))
    calls = [ToolCall("pay", {"amount": 4}) for _ in range(5)]
    passed = [outcome.success for outcome in opened.tools.dispatch_all(calls)]
    assert passed == [True, True, False, False, False]


@pytest.mark.parametrize("scope", ["global", "principal"])
@pytest.mark.parametrize("stored", [True, False])
def test_sessions_and_hosts_share_a_sum(bank, tmp_path: Path, scope, stored):
    path = tmp_path / "state.db" if stored else None
    settings = Settings.model_validate({"plugins": {"sessions": {"path": path}}})
    policy = limited(1, scope=scope, window=60)
    one = bank(policy, settings=settings)
    other = bank(policy, settings=settings) if stored else one
    assert one.pays(0.1, 0.2) == [True, True]
    with other.host.executor() as tools:
        assert tools.dispatch(ToolCall("pay", {"amount": 0.7})).success
        assert not tools.dispatch(ToolCall("pay", {"amount": 0.1})).success
    assert one.pays(0.1) == [False]


def test_what_another_policy_denies_takes_nothing(bank):
    class Refusing:
        name = "refusing"

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            is_eve = params.to == "eve"
            return PolicyDecision.deny("Not Eve.") if is_eve else PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    policies = [limited(5), Refusing()]
    with Host(discover=False, tools=[pay], policies=policies) as host, host.executor() as tools:
        assert not tools.dispatch(ToolCall("pay", {"amount": 5, "to": "eve"})).success
        assert tools.dispatch(ToolCall("pay", {"amount": 5})).success


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"sum": None, "max_sum": 5}, "give both"),
        ({"sum": "amount"}, "give both"),
        ({"sum": "amount", "max_sum": -1}, "0 or more"),
        ({"sum": "amount", "max_sum": float("nan")}, "0 or more"),
        ({"sum": "amount", "max_sum": 1e15}, "below"),
        ({"sum": "amount", "max_sum": "5"}, "max_sum"),
        ({"sum": 5, "max_sum": 5}, "sum"),
        ({"sum": "amount", "max_sum": 5, "window": 0}, "window"),
        ({}, "limits nothing"),
    ],
)
def test_wrong_numbers_are_refused(fields, told):
    with pytest.raises(DefinitionError, match=told):
        QuotaPolicy(tools={"pay"}, **fields)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            'tools = ["pay"]\nsum = "amountt"',
            "'amountt', which pay does not have (did you mean 'amount'?)",
        ),
        ('tools = ["pay"]\nsum = "to"', "'to', which is not a number for pay"),
        ('tools = ["pay"]\nsum = "amount.net"', "'amount.net', which pay does not have"),
        ('tools = ["order"]\nsum = "order.article"', "which is not a number for order"),
        ('tools = ["order"]\nsum = "total"', "which order does not have"),
        ('tools = ["p*", "order"]\nsum = "amount"', "which order does not have"),
        ('tools = ["pay"]\nsum = ""', "which pay does not have"),
        ('sum = "amount"', "which order does not have"),
    ],
)
def test_what_cannot_be_added_up_is_refused_when_the_host_opens(tmp_path: Path, table, told):
    file = tmp_path / "toolstile.toml"
    file.write_text(f'[[policies]]\nkind = "quota"\nmax_sum = 5\n{table}\n')
    with pytest.raises(ConfigurationError) as refused, Host(config=file, tools=[pay, order]):
        pass
    assert str(file) in str(refused.value)
    assert "Policy 'quota@host#1'" in str(refused.value)
    assert told in str(refused.value)
