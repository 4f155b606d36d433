"""Rules: what judging a call by its arguments costs, and by where its values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from floors import FLOOR_OF_ADD
from full_host import executor_for
from measuring import Block, Case, Effort, Probe, Row, compare, on_top, timed
from workload import ADD_ARGUMENTS, add

from toolstile import Host, Session
from toolstile_hookspecs import ToolCall, ToolPolicy, tool
from toolstile_plugins.rules import ProvenancePolicy, RulePolicy
from toolstile_plugins.rules.provenance import RememberedValues

_add = tool(timeout=None)(add)
FEW, MANY = 10, 10_000
FLAT = 1.25
LIMITS: Final = {"one rule": 8.0, "200 rules, two of them its own": 16.0, "provenance": 12.0}
"""The most that a call may cost beyond one without policies, as multiples of the floor."""


@tool(timeout=None)
def send(recipient: str) -> str:
    """Send something."""
    return recipient


def measure_rules(effort: Effort) -> list[Row]:
    """Measure calls under rules, and under a policy on provenance over short and long sessions."""
    few, many = (_sending(count) for count in (FEW, MANY))
    policies = {
        "no policies": (),
        "one rule": _rules(1),
        "200 rules, two of them its own": _rules(200),
        "provenance": (_policy("add"),),
    }
    rows = compare(
        [
            *(
                Case(Probe(f"add: {name}", _adding(*of)), FLOOR_OF_ADD)
                for name, of in policies.items()
            ),
            Case(
                Probe(f"provenance: {MANY:,} values", many),
                Probe(f"provenance: {FEW} values", few),
                FLAT,
            ),
        ],
        effort,
    )
    by_name = {row.case: row for row in rows}
    plain = by_name["add: no policies"]
    added = (
        on_top(f"add: {name}, on top", by_name[f"add: {name}"], plain, limit)
        for name, limit in LIMITS.items()
    )
    return [*rows, *added]


def _policy(name: str) -> ProvenancePolicy:
    argument = "a" if name == "add" else "recipient"
    return ProvenancePolicy(
        arguments={name: {argument: "value"}}, trusted={"send": ("email",)}, name="provenance"
    )


def _rules(count: int) -> tuple[RulePolicy, ...]:
    """Return rules of which two, where there are so many, concern `add`."""
    names = ["add", "add", *(each.name for each in _others())][:count]
    return tuple(
        RulePolicy(tools={name}, when="args.a > 500", effect="deny", name=f"rule {number}")
        for number, name in enumerate(names)
    )


def _others() -> list[Any]:
    """Return the tools of the other rules."""
    return [tool(name=f"tool_{number}")(add) for number in range(198)]


Opened = Callable[[], AbstractContextManager[Block]]


def _adding(*policies: ToolPolicy) -> Opened:
    tools = [*_others(), send]

    @contextmanager
    def opened() -> Iterator[Block]:
        with (
            Host(discover=False, policies=policies, tools=tools) as host,
            executor_for(host, _add) as executor,
        ):
            assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
            yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))

    return opened


def _sending(values: int) -> Opened:
    session = Session()
    session[RememberedValues].seed(
        *(
            RememberedValues("provenance", at, trusted=(f"user{at}@example.com",))
            for at in range(values)
        )
    )

    @contextmanager
    def opened() -> Iterator[Block]:
        with (
            Host(discover=False, policies=[_policy("send")]) as host,
            executor_for(host, send, session.clone()) as executor,
        ):
            call = ToolCall("send", '{"recipient": "user7@example.com"}')
            # The index is made by the first.
            assert executor.dispatch(call).success
            yield timed(lambda: executor.dispatch(call))

    return opened
