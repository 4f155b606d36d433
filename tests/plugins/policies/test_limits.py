"""Tools may be called so often: in a while, and in all."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Session
from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    PolicyDecision,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.policies import QuotaPolicy, RateLimitPolicy, SequentialDependencyPolicy


class Clock:
    """A clock for a single test's many examples."""

    def __init__(self):
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.at

    def monotonic(self):
        return 0.0


def admitted(outcomes):
    return [outcome.success for outcome in outcomes]


def test_so_many_calls_of_a_tool_are_allowed_in_a_minute(yard, steps):
    yard.open(steps("api", policies=(RateLimitPolicy(max_calls_per_minute=2),)))
    assert admitted(yard("api") for _ in range(3)) == [True, True, False]
    assert yard("api").text == (
        "Rate limit exceeded: 2 calls of api in the last 60 seconds, 2 are allowed. Wait 60 "
        "seconds, then retry."
    )


def test_the_window_slides(yard, steps):
    yard.open(steps("api", policies=(RateLimitPolicy(max_calls=2, window=10),)))
    assert yard("api").success
    yard.clock.tick(6)
    assert yard("api").success
    assert "Wait 4 seconds" in yard("api").text
    yard.clock.tick(4)
    assert yard("api").success
    assert "Wait 6 seconds" in yard("api").text


def test_waiting_as_told_is_enough(yard, steps):
    yard.open(steps("api", policies=(RateLimitPolicy(max_calls=1, window=7.5),)))
    yard("api")
    assert "Wait 8 seconds" in yard("api").text
    yard.clock.tick(8)
    assert yard("api").success


def test_waiting_as_told_is_enough_where_more_calls_were_allowed_before(yard, steps):
    for most in (3, 2):
        yard.open(steps("api", policies=(RateLimitPolicy(max_calls=most, window=10, name="r"),)))
        if most == 3:
            for _ in range(3):
                yard("api")
                yard.clock.tick(1)
    assert "Wait 8 seconds" in yard("api").text
    yard.clock.tick(8)
    assert yard("api").success


def test_each_tool_has_a_window_of_its_own(yard, steps):
    yard.open(steps("one", "two", policies=(RateLimitPolicy(max_calls_per_minute=1),)))
    assert admitted(map(yard, ("one", "two", "one", "two"))) == [True, True, False, False]


def test_a_limit_can_be_for_some_tools_only(yard, steps):
    limit = RateLimitPolicy(max_calls_per_minute=1, tools=frozenset({"one", "shop.pay"}))
    yard.open(
        steps("one", "two", policies=(limit,)),
        steps("pay", wire_name="shop.pay", key="shop", policies=()),
        host_policies=(RateLimitPolicy(max_calls=1, tools=frozenset({"shop.pay"})),),
    )
    names = ("one", "one", "two", "two", "pay", "pay")
    assert admitted(map(yard, names)) == [True, False, True, True, True, False]


def test_a_clock_that_is_set_back_blocks_nobody(yard, steps):
    yard.open(steps("api", policies=(RateLimitPolicy(max_calls_per_minute=1),)))
    yard("api")
    yard.clock.tick(-3600)
    assert yard("api").success


def test_so_many_calls_are_allowed_in_all(yard, steps):
    yard.open(steps("one", "two"), host_policies=(QuotaPolicy(max_calls=3),))
    assert admitted(map(yard, ("one", "two", "one", "two"))) == [True, True, True, False]
    assert yard("one").text == (
        "Quota exceeded: 3 of 3 calls are used. It cannot be called again. Continue without it."
    )


def test_so_many_calls_are_allowed_of_each_tool(yard, steps):
    quota = QuotaPolicy(max_calls=4, per_tool={"one": 1, "shop.pay": 1, "never": 0})
    yard.open(
        steps("one", "two", "never"),
        steps("pay", key="shop", wire_name="shop.pay"),
        host_policies=(quota,),
    )
    names = ("never", "one", "one", "pay", "pay", "two", "two", "two")
    assert admitted(map(yard, names)) == [False, True, False, True, False, True, True, False]
    assert "4 of 4 calls" in yard("one").text


def test_a_quota_can_be_for_some_tools_only(yard, steps):
    quota = QuotaPolicy(max_calls=1, tools=frozenset({"one", "two"}))
    yard.open(steps("one", "two", "free"), host_policies=(quota,))
    names = ("one", "two", "free", "free")
    assert admitted(map(yard, names)) == [True, False, True, True]


@pytest.mark.parametrize(
    "policy",
    [QuotaPolicy(max_calls=5), QuotaPolicy(per_tool={"api": 5}), RateLimitPolicy(max_calls=5)],
)
def test_exactly_so_many_of_many_parallel_calls_are_admitted(yard, steps, policy):
    yard.open(steps("api", policies=(policy,)))
    outcomes = yard.at_once(*[("api", {})] * 20)
    assert admitted(outcomes) == [True] * 5 + [False] * 15


def test_exactly_so_many_are_admitted_from_many_threads(yard, steps):
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=7),)))
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(yard("api"))) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(admitted(outcomes)) == [False] * 9 + [True] * 7


def test_an_admitted_call_counts_whatever_becomes_of_it(yard, steps):
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=2),)))
    assert yard("api", fail=True).status is Status.FAILED
    assert yard("api", fail=True).status is Status.FAILED
    assert yard("api").status is Status.DENIED


def test_a_denied_call_does_not_count(yard, steps):
    order = SequentialDependencyPolicy(dependencies={"two": frozenset({"one"})})
    yard.open(
        steps("one", "two"),
        policies=(QuotaPolicy(max_calls=2), order, RateLimitPolicy(max_calls=5)),
    )
    for _ in range(5):
        assert yard("two").status is Status.DENIED
    assert yard("one").success
    assert yard("two").success


def test_a_call_that_one_limit_denies_counts_towards_no_other(yard, steps):
    yard.open(
        steps("one", "two"),
        host_policies=(QuotaPolicy(max_calls=3), QuotaPolicy(per_tool={"one": 1})),
    )
    names = ("one", "one", "one", "two", "two", "two")
    assert admitted(map(yard, names)) == [True, False, False, True, True, False]


@pytest.mark.parametrize("kind", [QuotaPolicy, RateLimitPolicy])
def test_two_instances_never_mix_also_of_calls_at_once(yard, steps, kind):
    yard.open(
        steps("one", key="a", policies=(kind(max_calls=2),)),
        steps("two", key="b", policies=(kind(max_calls=3),)),
    )
    outcomes = yard.at_once(*[("one", {}), ("two", {})] * 5)
    assert admitted(outcomes[::2]) == [True] * 2 + [False] * 3
    assert admitted(outcomes[1::2]) == [True] * 3 + [False] * 2


def test_a_call_with_wrong_arguments_does_not_count(yard, steps):
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=1),)))
    assert yard("api", nothing=1).status is Status.INVALID
    assert yard("api").success


def test_nested_calls_count_too(yard, steps):
    @tool
    def outer(*, context: ToolContext) -> str:
        """Call the api twice."""
        return " ".join(str(context.call("api").success) for _ in range(2))

    extra = MarkdownSection(key="extra", title="Extra", tools=[outer])
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=1),)), extra)
    assert yard("outer").text == "True False"


def test_neither_restore_nor_reset_gives_calls_back(yard, steps):
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=1),)))
    before = yard.session.snapshot()
    yard("api")
    yard.session.restore(before)
    assert not yard("api").success
    yard.session.reset()
    assert not yard("api").success


def test_another_session_has_a_quota_of_its_own(yard, steps):
    yard.open(steps("api", policies=(QuotaPolicy(max_calls=1),)))
    assert yard("api").success
    assert yard.again(Session())("api").success


ONE_LIMIT = "RateLimitPolicy: give either max_calls_per_minute or max_calls with window."
NO_LIMIT = "RateLimitPolicy: the number of calls and the window must be positive."
NO_QUOTA = "QuotaPolicy: give max_calls, per_tool or sum with max_sum; it limits nothing."
NEGATIVE = "QuotaPolicy: a quota cannot be negative."


def test_limits_that_make_no_sense_are_refused(subtests):
    for make, why in [
        (RateLimitPolicy, ONE_LIMIT),
        (lambda: RateLimitPolicy(max_calls=1, max_calls_per_minute=1), ONE_LIMIT),
        (lambda: RateLimitPolicy(max_calls=0), NO_LIMIT),
        (lambda: RateLimitPolicy(max_calls=1, window=0), NO_LIMIT),
        (lambda: RateLimitPolicy(max_calls=1, window=float("nan")), NO_LIMIT),
        (
            lambda: RateLimitPolicy(max_calls_per_minute="10"),
            "RateLimitPolicy: max_calls_per_minute: input should be a valid integer.",
        ),
        (
            lambda: RateLimitPolicy(max_calls=2.5),
            "RateLimitPolicy: max_calls: input should be a valid integer.",
        ),
        (
            lambda: RateLimitPolicy(max_calls=1, window="60"),
            "RateLimitPolicy: window: input should be a valid number.",
        ),
        (
            lambda: QuotaPolicy(max_calls=True),
            "QuotaPolicy: max_calls: input should be a valid integer.",
        ),
        (
            lambda: QuotaPolicy(per_tool={"a": None}),
            "QuotaPolicy: per_tool.a: input should be a valid integer.",
        ),
        (
            lambda: QuotaPolicy(per_tool=["a"]),
            "QuotaPolicy: per_tool: input should be a valid dictionary.",
        ),
        (
            lambda: QuotaPolicy(per_tool={1: 2}),
            "QuotaPolicy: per_tool[1].[key]: input should be a valid string.",
        ),
        (QuotaPolicy, NO_QUOTA),
        (lambda: QuotaPolicy(max_calls=-1), NEGATIVE),
        (lambda: QuotaPolicy(per_tool={"a": -1}), NEGATIVE),
    ]:
        with subtests.test(make=make, why=why):
            with pytest.raises(DefinitionError) as raised:
                make()
            assert str(raised.value) == why


@pytest.mark.slow
@given(
    st.integers(1, 4),
    st.lists(st.floats(0, 30, allow_nan=False), max_size=25),
)
def test_no_window_ever_holds_more_than_allowed(most, pauses):
    policy = RateLimitPolicy(max_calls=most, window=20, name="limit")
    api = tool(lambda: None, name="api", description="Call.")
    section = MarkdownSection(key="s", title="S", tools=[api], policies=[policy])
    clock = Clock()
    times, refused = [], []
    with (
        Host(discover=False, clock=clock) as host,
        host.executor(prompt=Prompt.of("t", "p", [section])) as tools,
    ):
        for pause in pauses:
            clock.at += timedelta(seconds=pause)
            ended = tools.dispatch(ToolCall("api"))
            (times if ended.success else refused).append(clock.at.timestamp())
    for end in [*times, *refused]:
        within = [each for each in times if end - 20 < each <= end]
        assert len(within) <= most
        assert end in times or len(within) == most


def test_a_reservation_that_is_no_decision_denies(yard, steps):
    class Odd(QuotaPolicy):
        def reserve(self, tool, params, *, context):
            super().reserve(tool, params, context=context)
            return "yes"

    yard.open(steps("api", policies=(Odd(max_calls=9), QuotaPolicy(max_calls=1))))
    assert yard("api").status is Status.DENIED
    assert not PolicyDecision.deny("x").allowed
