"""Random scripts, whose calls succeed, fail, are denied or wait for a person, against a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from tests.plugins.code.suite import note, note_and_fail, notes, run, running, sign

from toolstile import Executor
from toolstile_hookspecs import PolicyDecision, Status, ToolInvoked, hookimpl
from toolstile_plugins.code import CodeConfig

Way = Literal["note", "fail", "deny", "invalid", "yes", "no", "raise"]

ENDS: dict[Way, tuple[str, Status] | None] = {
    "note": ("note", Status.SUCCEEDED),
    "fail": ("note_and_fail", Status.FAILED),
    "deny": ("note", Status.DENIED),
    "invalid": ("note", Status.INVALID),
    "yes": ("sign", Status.SUCCEEDED),
    "no": ("sign", Status.DENIED),
    "raise": None,
}
"""The tool that a step calls, and how its call ends; None for an error of the script itself."""


@dataclass(frozen=True)
class Block:
    """Steps one after another, and whether their errors are caught."""

    caught: bool
    ways: tuple[Way, ...]


scripts = st.lists(
    st.builds(Block, st.booleans(), st.lists(st.sampled_from(sorted(ENDS)), max_size=4).map(tuple)),
    max_size=4,
)


class Denying:
    @hookimpl
    def toolstile_check(self, tool, params):
        if tool.name == "note" and params.text.startswith("deny"):
            return PolicyDecision.deny("It is not allowed.")
        return None


def answer(request: Any) -> bool:
    return request.params.text.startswith("yes")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    tools = [note, note_and_fail, sign]
    config = CodeConfig(type_check=False)
    with running(tools, plugins=[Denying()], approver=answer, config=config) as executor:
        yield executor


def written(blocks: list[Block]) -> str:
    """Return a script; each step has a text of its own."""
    lines = ["def fail():", "    return 1 / 0"]
    for number, block in enumerate(blocks):
        lines.append("try:" if block.caught else "if True:")
        for place, way in enumerate(block.ways):
            text = f"{way} {number} {place}"
            tool = ENDS[way][0] if (ends := ENDS[way]) else ""
            value = "['x']" if way == "invalid" else repr(text)
            lines.append(f"    {tool}({value})" if ends else "    fail()")
        lines.append("    pass")
        if block.caught:
            lines += ["except Exception:", "    pass"]
    return "\n".join([*lines, "'done'"])


def expected(blocks: list[Block]) -> tuple[list[str] | None, list[tuple[str, Status]]]:
    """Return what a script keeps, None for one that fails, and the ends of its calls."""
    kept: list[str] = []
    ends: list[tuple[str, Status]] = []
    for number, block in enumerate(blocks):
        for place, way in enumerate(block.ways):
            end = ENDS[way]
            if end is not None:
                ends.append(end)
            if end is None or end[1] is not Status.SUCCEEDED:
                if not block.caught:
                    return None, ends
                break
            kept.append(f"{'signed ' if way == 'yes' else ''}{way} {number} {place}")
    return kept, ends


def assert_as_the_model(executor: Executor, blocks: list[Block]) -> None:
    before = notes(executor)
    events = len(executor.session[ToolInvoked].all())
    outcome = run(executor, written(blocks))
    kept, ends = expected(blocks)
    assert outcome.status is (Status.FAILED if kept is None else Status.SUCCEEDED), outcome.text
    assert notes(executor) == before + (kept or [])
    *nested, whole = executor.session[ToolInvoked].all()[events:]
    assert [(event.tool_name, event.status) for event in nested] == ends
    assert {event.parent_id for event in nested} <= {whole.call_id}
    if kept is None:
        assert "Its changes are rolled back." in outcome.text


@settings(max_examples=40)
@given(scripts)
def test_a_script_keeps_what_its_model_keeps(executor, blocks):
    assert_as_the_model(executor, blocks)


@pytest.mark.slow
@pytest.mark.long
@settings(max_examples=2_000)
@given(scripts)
def test_many_scripts_keep_what_their_models_keep(executor, blocks):
    assert_as_the_model(executor, blocks)
