"""Exceptions that are not a call's own, from wherever they come: rolled back, then raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from toolstile_hookspecs import (
    DeadlineExceededError,
    Interrupt,
    PromptEvaluationError,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolResult,
    VisibilityExpansionRequired,
    hookimpl,
)

# Either driver can run either kind of handler; what is usual is tried on every change.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long_if(yard="sync", scene="async alone"),
    pytest.mark.long_if(yard="sync", scene="async within"),
    pytest.mark.long_if(yard="async", scene="alone"),
    pytest.mark.long_if(yard="async", scene="within"),
]

STAGES = tuple(Stage)


class Registered(Exception):
    """Of a graph framework, say."""


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def raises(*_: Any) -> Any:
        raise error

    return raises


LEAVING: dict[str, tuple[BaseException, type[BaseException], Status]] = {
    "visibility": (
        VisibilityExpansionRequired(("a",), "to see"),
        VisibilityExpansionRequired,
        Status.RAISED,
    ),
    "evaluation": (PromptEvaluationError("enough"), PromptEvaluationError, Status.RAISED),
    "interrupt": (Interrupt("wait for a person"), Interrupt, Status.RAISED),
    "registered": (Registered(), Registered, Status.RAISED),
    "deadline": (DeadlineExceededError("late"), PromptEvaluationError, Status.DEADLINE),
    "keyboard": (KeyboardInterrupt(), KeyboardInterrupt, Status.RAISED),
    "exit": (SystemExit(3), SystemExit, Status.RAISED),
    "generator": (GeneratorExit(), GeneratorExit, Status.RAISED),
}


@pytest.mark.parametrize("name", LEAVING)
def test_what_is_not_the_handlers_own_leaves_every_call_after_its_rollback(
    scene: Any, name: str
) -> None:
    error, expected, status = LEAVING[name]
    scene.open(raising(error), interrupts=[Registered])

    with pytest.raises(expected) as raised:
        scene.dispatch()

    assert error is (raised.value.__cause__ if name == "deadline" else raised.value)
    inner, outer = scene.events()
    assert (inner.status, inner.stage, inner.rolled_back) == (status, Stage.EXECUTE, True)
    assert outer is None or outer.status is status
    scene.assert_taken_back(outer)


@pytest.mark.parametrize("name", ["visibility", "evaluation", "interrupt", "registered"])
@pytest.mark.parametrize("at", ["lookup", "parse", "check", "snapshot", "render", "on_result"])
def test_elsewhere_than_in_a_handler_they_are_errors_as_any_other(
    scene: Any, at: str, name: str
) -> None:
    scene.open(at=at, what=raising(LEAVING[name][0]), interrupts=[Registered])

    told = scene.dispatch()

    inner, outer = scene.events()
    assert inner is told.event
    if at == "render":
        assert told.success
        scene.assert_kept(*(("inner",) if outer is None else ("before", "inner", "after")))
    else:
        wanted = Status.DENIED if at == "check" else Status.ERROR
        assert (told.status, told.stage) == (wanted, HOOKS[at])
        scene.assert_kept(*(() if outer is None else ("before", "after")))


INTERRUPTIONS = {
    "keyboard": KeyboardInterrupt,
    "exit": SystemExit,
    "generator": GeneratorExit,
    "cancellation": asyncio.CancelledError,
}
HOOKS = {
    "trace": Stage.LOOKUP,
    "trace entered": Stage.LOOKUP,
    "lookup": Stage.LOOKUP,
    "parse": Stage.PARSE,
    "check": Stage.CHECK,
    "approve": Stage.APPROVE,
    "reserve": Stage.RESERVE,
    "snapshot": Stage.SNAPSHOT,
    "execute": Stage.EXECUTE,
    "render": Stage.RENDER,
    "on_result": Stage.ON_RESULT,
    "policy told": Stage.ON_RESULT,
}


@pytest.mark.parametrize("kind", INTERRUPTIONS)
@pytest.mark.parametrize("at", HOOKS)
def test_an_interruption_of_any_stage_leaves_every_call_after_its_rollback(
    scene: Any, at: str, kind: str
) -> None:
    scene.open(at=at, what=raising(INTERRUPTIONS[kind]), asks=at == "approve")

    with pytest.raises(INTERRUPTIONS[kind]):
        scene.dispatch()

    inner, outer = scene.events()
    began = STAGES.index(HOOKS[at]) >= STAGES.index(Stage.SNAPSHOT)
    assert (inner.status, inner.stage, inner.rolled_back) == (Status.RAISED, HOOKS[at], began)
    scene.assert_taken_back(outer)


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_an_interruption_of_preparing_leaves_after_the_rollback_of_all(
    scene: Any, kind: str
) -> None:
    scene.open(at="prepare", what=raising(INTERRUPTIONS[kind]))

    with pytest.raises(INTERRUPTIONS[kind]):
        scene.dispatch()

    inner, outer = scene.events()
    root = outer or inner
    assert (root.status, root.stage, root.rolled_back) == (Status.RAISED, Stage.PREPARE, True)
    assert scene.participant.told == ["prepare", "undo"]
    scene.assert_taken_back(outer)


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_an_interruption_of_committing_leaves_when_all_is_kept(scene: Any, kind: str) -> None:
    scene.open(at="commit", what=raising(INTERRUPTIONS[kind]))

    with pytest.raises(INTERRUPTIONS[kind]):
        scene.dispatch()

    inner, outer = scene.events()
    root = outer or inner
    assert (root.status, root.stage, root.rolled_back) == (Status.RAISED, Stage.COMMIT, False)
    scene.assert_kept(*(("inner",) if outer is None else ("before", "inner", "after")))


@pytest.mark.parametrize("kind", INTERRUPTIONS)
@pytest.mark.parametrize("at", ["undo", "rollback", "policy's rollback", "telemetry", "trace left"])
def test_an_interruption_of_a_calls_end_leaves_when_it_has_ended(
    scene: Any, at: str, kind: str
) -> None:
    scene.open(raising(ValueError("no row")), at=at, what=raising(INTERRUPTIONS[kind]))

    with pytest.raises(INTERRUPTIONS[kind]):
        scene.dispatch()

    calls = 1 + scene.within
    assert scene.traced == ["entered"] * calls + ["left"] * calls
    inner, outer = scene.events()
    assert (inner.status, inner.stage, inner.rolled_back) == (Status.ERROR, Stage.EXECUTE, True)
    scene.assert_taken_back(outer)


class Swallowing:
    """Tries to keep whatever comes from leaving the inner call."""

    def __init__(self, how: str) -> None:
        self.how = how

    def _swallow(self, name: str, instead: Any) -> Generator[None, Any, Any]:
        if name != "inner":
            return (yield)
        try:
            return (yield)
        except BaseException:
            if self.how == "raise":
                msg = "another"
                raise ValueError(msg) from None
        if self.how == "yield":
            yield
        return instead

    @hookimpl(wrapper=True)
    def toolstile_parse(self, tool: Tool[Any, Any]) -> Generator[None, Any, Any]:
        return (yield from self._swallow(tool.name, None))

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any]) -> Generator[None, Any, Any]:
        return (yield from self._swallow(tool.name, ToolResult.ok("swallowed")))

    @hookimpl(wrapper=True)
    def toolstile_render(self, tool: Tool[Any, Any]) -> Generator[None, Any, Any]:
        return (yield from self._swallow(tool.name, "swallowed"))


@pytest.mark.parametrize("kind", INTERRUPTIONS)
@pytest.mark.parametrize("how", ["return", "yield", "raise"])
@pytest.mark.parametrize("at", ["handler", "parse", "execute", "render"])
def test_no_wrapper_keeps_an_interruption_from_leaving(
    scene: Any, at: str, how: str, kind: str
) -> None:
    error = INTERRUPTIONS[kind]()
    if at == "handler" and kind == "cancellation":
        pytest.skip("a handler that raises it has failed")
    if at == "handler":
        scene.open(raising(error), plugins=(Swallowing(how),))
    else:
        scene.open(at=at, what=raising(error), plugins=(Swallowing(how),))

    with pytest.raises(INTERRUPTIONS[kind]) as raised:
        scene.dispatch()

    assert raised.value is error
    inner, outer = scene.events()
    stage = Stage.EXECUTE if at == "handler" else HOOKS[at]
    assert (inner.status, inner.stage) == (Status.RAISED, stage)
    scene.assert_taken_back(outer)


@pytest.mark.parametrize("at", [*HOOKS, "rollback", "telemetry", "trace left"])
def test_an_interruption_of_one_call_holds_up_none_beside_it(make_scene: Any, at: str) -> None:
    scene = make_scene("alone")
    acts = (raising(ValueError("no row")),) if at == "rollback" else ()
    scene.open(*acts, at=at, what=raising(SystemExit(3)), asks=at == "approve")

    with pytest.raises(SystemExit):
        scene.yard.dispatch_all([ToolCall("inner"), ToolCall("rings"), ToolCall("rings")])

    kept = ["inner"] if at in {"telemetry", "trace left"} else []
    assert sorted(each.tool_name for each in scene.yard.events) == ["inner", "rings", "rings"]
    assert scene.till.rung == [*kept, "rings", "rings"]
    assert scene.yard.marks == scene.yard.box.items == kept
