"""Rules: what judging a call by where its values come from costs, however many are remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from floors import FLOOR_OF_ADD
from full_host import executor_for
from measuring import Block, Case, Effort, Probe, Row, compare, timed
from workload import ADD_ARGUMENTS, add

from toolstile import Host, Session
from toolstile_hookspecs import ToolCall, tool
from toolstile_plugins.rules import ProvenancePolicy
from toolstile_plugins.rules.remembered_values import RememberedValues

_add = tool(timeout=None)(add)
FEW, MANY = 10, 10_000
FLAT = 1.25
MOST_ON_TOP = 12.0


@tool(timeout=None)
def send(recipient: str) -> str:
    """Send something."""
    return recipient


def measure_rules(effort: Effort) -> list[Row]:
    """Measure calls under a policy on provenance, over short and long sessions."""
    few, many = (_sending(count) for count in (FEW, MANY))
    plain = Probe("add: no policies", _adding())
    ruled = Probe("add: under provenance", _adding(_policy("add")))
    return compare(
        [
            Case(plain, FLOOR_OF_ADD),
            # What the host itself takes is in it; `provenance` is the difference of the two.
            Case(ruled, FLOOR_OF_ADD),
            Case(
                Probe(f"provenance: {MANY:,} values", many),
                Probe(f"provenance: {FEW} values", few),
                FLAT,
            ),
        ],
        effort,
    )


def _policy(name: str) -> ProvenancePolicy:
    argument = "a" if name == "add" else "recipient"
    return ProvenancePolicy(
        arguments={name: {argument: "value"}}, trusted={"send": ("email",)}, name="provenance"
    )


Opened = Callable[[], AbstractContextManager[Block]]


def _adding(*policies: ProvenancePolicy) -> Opened:
    @contextmanager
    def opened() -> Iterator[Block]:
        with (
            Host(discover=False, policies=policies) as host,
            executor_for(host, _add) as executor,
        ):
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
