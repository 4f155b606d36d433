"""Every row of the table of failures that ends in a failed result, and what merely looks on.

Each alone and within another call, under both drivers: what is told, what is rolled back, the
one event. What the model reads in full is in `test_outcomes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    Cancellation,
    ConflictError,
    PolicyDecision,
    Stage,
    Status,
    ToolContext,
    ToolResult,
    ToolValidationError,
    require,
)

# Either driver can run either kind of handler; what is usual is tried on every change.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long_if(yard="sync", scene="async alone"),
    pytest.mark.long_if(yard="sync", scene="async within"),
    pytest.mark.long_if(yard="async", scene="alone"),
    pytest.mark.long_if(yard="async", scene="within"),
]

Act = Callable[[ToolContext], Any]
STAGES = tuple(Stage)


class InstanceCache:
    """A branchable resource whose branches refuse to be prepared when they are told to."""

    def branch(self, context: ToolContext, parent: Any) -> ShelfBranch:
        return ShelfBranch()


class ShelfBranch:
    def __init__(self) -> None:
        self.resource = self
        self.refuses: Exception | None = None

    def prepare(self) -> None:
        if self.refuses is not None:
            raise self.refuses

    def commit(self) -> None:
        return None

    def rollback(self) -> None:
        return None


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


def broken(stage: str) -> Callable[..., Any]:
    return raising(RuntimeError(f"{stage} broke"))


def giving(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


def of_value(value: Any) -> Act:
    return giving(ToolResult.ok(value))


async def later() -> ToolResult[None]:
    return ToolResult.ok()


def coroutine(context: ToolContext) -> Any:
    return later()


def cyclic() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


class Unrenderable(dict[str, int]):
    def render(self) -> str:
        msg = "no words"
        raise ValueError(msg)


@require(lambda context: False, "the door is open")
def conditional(context: ToolContext) -> ToolResult[None]:
    return ToolResult.ok()


def shelving(error: Exception) -> Act:
    def act(context: ToolContext) -> ToolResult[None]:
        context.resources.get(InstanceCache).refuses = error  # type: ignore[attr-defined]
        return ToolResult.ok()

    return act


done = giving(ToolResult.ok(message="done"))


@dataclass(frozen=True)
class Row:
    """One way in which a call fails, and what becomes of it.

    Args:
        status: What becomes of the call.
        stage: The stage at which it ends.
        told: A part of what the model is told.
        act: What its handler does, once it has changed everything; None for no handler.
        at: The stage at which something else happens.
        what: What happens there.
        name: The tool that is called.
        arguments: The arguments it is called with.
        asks: Whether a person has to approve it.
        ran: Whether its handler ran.
    """

    status: Status
    stage: Stage
    told: str
    act: Act | None = done
    at: str = ""
    what: Callable[[], Any] = dict
    name: str = "inner"
    arguments: str = "{}"
    asks: bool = False
    ran: bool = False

    @property
    def began(self) -> bool:
        """True where it got so far that there was something to roll back."""
        return STAGES.index(self.stage) >= STAGES.index(Stage.SNAPSHOT)


def handler(status: Status, told: str, act: Act, stage: Stage = Stage.EXECUTE) -> Row:
    return Row(status, stage, told, act, ran=True)


def hook(
    stage: Stage,
    told: str,
    what: Callable[[], Any],
    status: Status = Status.ERROR,
    *,
    ran: bool = False,
) -> Row:
    return Row(status, stage, told, at=str(stage), what=what, ran=ran)


def person(told: str, what: Callable[[], Any], *, at: str = "approve") -> Row:
    return Row(Status.DENIED, Stage.APPROVE, told, at=at, what=what, asks=True)


FAILING = {
    "no such tool": Row(Status.UNKNOWN_TOOL, Stage.LOOKUP, "Did you mean inner?", name="iner"),
    # Plugins are asked before: one might answer in the handler's place.
    "no handler": Row(Status.UNKNOWN_TOOL, Stage.EXECUTE, "no handler", act=None),
    "lookup raises": hook(Stage.LOOKUP, "inner: lookup broke", broken("lookup")),
    "unfit arguments": Row(Status.INVALID, Stage.PARSE, "not known", arguments='{"x": 1}'),
    "arguments not JSON": Row(Status.INVALID, Stage.PARSE, "not valid JSON", arguments="{"),
    "parse raises": hook(Stage.PARSE, "inner: parse broke", broken("parse")),
    "parse finds a fault": hook(
        Stage.PARSE, "x: odd", raising(ToolValidationError("x: odd")), Status.INVALID
    ),
    "check raises": hook(Stage.CHECK, "could not decide", broken("check"), Status.DENIED),
    "check denies": hook(
        Stage.CHECK, "Not now.", giving(PolicyDecision.deny("Not now.")), Status.DENIED
    ),
    "check answers oddly": hook(Stage.CHECK, "could not decide", giving(3), Status.DENIED),
    "nobody to ask": person("no one is available to approve it", dict, at=""),
    "the person denies": person("did not approve", giving(ApprovalAnswer.deny())),
    "the approver raises": person("asking for approval failed", broken("approve")),
    "no place": hook(Stage.RESERVE, "Full.", giving(PolicyDecision.deny("Full.")), Status.DENIED),
    "reserve raises": hook(Stage.RESERVE, "could not decide", broken("reserve"), Status.DENIED),
    "snapshot raises": hook(
        Stage.SNAPSHOT,
        "inner cannot run: plugin Meddling failed in toolstile_snapshot (snapshot broke).",
        broken("snapshot"),
    ),
    "snapshot answers oddly": hook(
        Stage.SNAPSHOT,
        "plugin Meddling answered toolstile_snapshot with an instance of int; it must return",
        giving(5),
    ),
    # Only parsers and handlers refuse arguments, and only a handler's TypeError tells of them.
    "lookup finds a fault": hook(
        Stage.LOOKUP, "Internal error in inner: x: odd", raising(ToolValidationError("x: odd"))
    ),
    "snapshot finds a fault": hook(
        Stage.SNAPSHOT,
        "inner cannot run: plugin Meddling failed in toolstile_snapshot (x: odd).",
        raising(ToolValidationError("x: odd")),
    ),
    "execute raises": hook(Stage.EXECUTE, "inner: execute broke", broken("execute")),
    "execute raises TypeError": hook(
        Stage.EXECUTE, "Internal error in inner: takes 1", raising(TypeError("takes 1"))
    ),
    "execute answers with what raises TypeError": hook(
        Stage.EXECUTE, "Check the arguments", giving(raising(TypeError("takes 1")))
    ),
    "execute answers oddly": hook(
        Stage.EXECUTE,
        "plugin Meddling answered toolstile_execute with an instance of str; it must return",
        giving("odd"),
    ),
    "execute answers with what raises": hook(
        Stage.EXECUTE, "inner: no luck", giving(raising(ValueError("no luck")))
    ),
    "execute answers with a failure": hook(
        Stage.EXECUTE, "not today", giving(ToolResult.error("not today")), Status.FAILED
    ),
    "ToolValidationError": handler(
        Status.FAILED, "x: too long", raising(ToolValidationError("x: too long"))
    ),
    "a broken condition": handler(Status.FAILED, "the door is open", conditional),
    "success=False": handler(
        Status.FAILED, "Not today.", giving(ToolResult("Not today.", 7, success=False))
    ),
    "TypeError": handler(Status.ERROR, "TypeError: takes 1", raising(TypeError("takes 1"))),
    "any other": handler(Status.ERROR, "inner: no row", raising(ValueError("no row"))),
    "without words": handler(Status.ERROR, "inner: KeyError", raising(KeyError)),
    "StopIteration": handler(Status.ERROR, "StopIteration", raising(StopIteration)),
    "a conflict": handler(Status.CONFLICT, "was rolled back", raising(ConflictError("It moved."))),
    "nothing": handler(Status.ERROR, "its handler returned NoneType", giving(None)),
    "no ToolResult": handler(Status.ERROR, "its handler returned int", giving(3)),
    "a class": handler(Status.ERROR, "its handler returned type", giving(ToolResult)),
    "a message that is no text": handler(
        Status.ERROR,
        "message is of type int",
        giving(ToolResult(3)),  # type: ignore[arg-type]
    ),
    "a coroutine": handler(Status.ERROR, "returned a coroutine (write", coroutine),
    "a value beyond JSON": handler(
        Status.ERROR, "cannot be written as JSON", of_value(object()), Stage.RENDER
    ),
    "a value with a cycle": handler(
        Status.ERROR, "cannot be written as JSON", of_value(cyclic()), Stage.RENDER
    ),
    "a value to be read once": handler(
        Status.ERROR, "which can be read once only", of_value(iter("abc")), Stage.RENDER
    ),
    "a veto": hook(Stage.ON_RESULT, "inner: on_result broke", broken("on_result"), ran=True),
    "a veto for a fault": hook(
        Stage.ON_RESULT,
        "Internal error in inner: x: odd",
        raising(ToolValidationError("x: odd")),
        ran=True,
    ),
    "a policy's veto": Row(
        Status.ERROR,
        Stage.ON_RESULT,
        "inner: on_result broke",
        at="policy told",
        what=broken("on_result"),
        ran=True,
    ),
    "a resource that cannot keep it": handler(
        Status.ERROR, "inner: full", shelving(OSError("full")), Stage.PREPARE
    ),
    "a resource that finds a fault": handler(
        Status.ERROR,
        "Internal error in inner: x: odd",
        shelving(ToolValidationError("x: odd")),
        Stage.PREPARE,
    ),
    "a resource that has moved": handler(
        Status.CONFLICT, "was rolled back", shelving(ConflictError("It moved.")), Stage.PREPARE
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_is_rolled_back_and_the_call_around_it_goes_on(
    scene: Any, name: str
) -> None:
    row = FAILING[name]
    shelf = Binding.instance(InstanceCache, InstanceCache())
    scene.open(row.act, at=row.at, what=row.what, asks=row.asks, resources=(shelf,))

    told = scene.dispatch(row.name, row.arguments)

    assert (told.status, told.stage, told.success) == (row.status, row.stage, False)
    assert row.told in told.text
    assert "Traceback" not in told.text
    assert scene.ran is row.ran
    inner, outer = scene.events()
    assert inner is told.event
    assert inner.rolled_back is row.began
    assert scene.yard.observer.rollbacks == ([("inner", told.text)] if row.began else [])
    assert scene.participant.told[-1:] == (["undo"] if row.began else [])
    assert "commit" not in scene.participant.told
    if outer is None:
        scene.assert_kept()
    else:
        assert (outer.status, outer.rolled_back) == (Status.SUCCEEDED, False)
        assert scene.seen == ["before"]
        scene.assert_kept("before", "after")


@pytest.mark.parametrize(
    ("at", "what"),
    [
        ("trace", broken("trace")),
        ("trace entered", broken("trace")),
        ("trace left", broken("trace")),
        ("render", broken("render")),
        ("render", giving(3)),
        ("telemetry", broken("telemetry")),
    ],
)
def test_a_plugin_that_only_looks_on_changes_nothing_by_raising(
    scene: Any, at: str, what: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    scene.open(at=at, what=what)

    told = scene.dispatch()

    assert_succeeded(scene, told, "done")
    # The outer tool does not declare the inner one, which is told, too.
    told_of_hook = [each for each in caplog.records if "depends_on" not in each.getMessage()]
    assert [each.levelname for each in told_of_hook] == ["ERROR"]
    assert "Traceback" in caplog.text


def test_a_value_whose_render_raises_is_rendered_plainly(
    scene: Any, caplog: pytest.LogCaptureFixture
) -> None:
    scene.open(of_value(Unrenderable(a=1)))

    told = scene.dispatch()

    assert_succeeded(scene, told, '{"a":1}')
    assert "no words" in caplog.text


def assert_succeeded(scene: Any, told: Any, text: str) -> None:
    assert (told.status, told.text) == (Status.SUCCEEDED, text)
    inner, outer = scene.events()
    assert (inner.status, inner.stage) == (Status.SUCCEEDED, Stage.TELEMETRY)
    assert inner.pending_parent is scene.within
    assert not inner.rolled_back
    assert scene.yard.observer.rollbacks == []
    assert scene.participant.told == ["prepare", "commit"]
    if outer is None:
        scene.assert_kept("inner")
    else:
        assert (outer.status, outer.pending_parent) == (Status.SUCCEEDED, False)
        assert scene.seen == ["before", "inner"]
        scene.assert_kept("before", "inner", "after")


@pytest.mark.parametrize("at", ["rollback", "policy's rollback", "undo"])
def test_news_of_a_rollback_that_raises_changes_nothing(
    scene: Any, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.open(raising(ValueError("no row")), at=at, what=broken(at))

    told = scene.dispatch()

    assert told.text == "Internal error in inner: no row"
    assert f"{at} broke" in caplog.text
    assert scene.yard.observer.rollbacks == [("inner", told.text)]
    inner, outer = scene.events()
    assert inner.rolled_back
    assert scene.participant.told == ["undo"]
    scene.assert_kept(*(() if outer is None else ("before", "after")))


def test_what_cannot_be_prepared_takes_the_call_around_it_back_too(scene: Any) -> None:
    scene.open(at="prepare", what=broken("prepare"))

    scene.dispatch()

    inner, outer = scene.events()
    root = outer or inner
    assert (root.status, root.stage, root.rolled_back) == (Status.ERROR, Stage.PREPARE, True)
    assert f"Internal error in {root.tool_name}: prepare broke" in root.result.message
    assert scene.participant.told == ["prepare", "undo"]
    assert inner.pending_parent is scene.within
    scene.assert_kept()


def test_what_cannot_be_committed_is_named_and_all_else_is_kept(scene: Any) -> None:
    scene.open(at="commit", what=broken("commit"))

    scene.dispatch()

    inner, outer = scene.events()
    root = outer or inner
    assert (root.status, root.stage) == (Status.COMMIT_FAILED, Stage.COMMIT)
    assert not root.rolled_back
    assert "Kept: the session, " in root.result.message
    assert "Not kept: Participant (commit broke)" in root.result.message
    assert scene.participant.told == ["prepare", "commit"]
    assert inner.pending_parent is scene.within
    assert scene.yard.observer.rollbacks == []
    scene.assert_kept(*(("inner",) if outer is None else ("before", "inner", "after")))


CANCELLED = {
    "trace": Stage.DEADLINE,
    "lookup": Stage.DEADLINE,
    "parse": Stage.DEADLINE,
    "check": Stage.EXECUTE,
    "approve": Stage.APPROVE,
    "reserve": Stage.EXECUTE,
    "snapshot": Stage.EXECUTE,
    "execute": Stage.EXECUTE,
    "render": Stage.RENDER,
}


@pytest.mark.parametrize("where", ["alone", "async alone"])
@pytest.mark.parametrize("at", CANCELLED)
def test_a_call_that_is_cancelled_at_a_stage_ends_at_the_next_look(
    make_scene: Any, where: str, at: str
) -> None:
    scene = make_scene(where)
    stop = Cancellation()

    def cancel() -> Any:
        stop.cancel()
        return True if at == "approve" else None

    scene.open(at=at, what=cancel, asks=at == "approve")

    told = scene.dispatch(cancellation=stop)

    assert (told.status, told.text) == (Status.CANCELLED, "Request was cancelled")
    assert told.stage is CANCELLED[at]
    assert scene.ran is (at == "render")
    inner, _ = scene.events()
    assert inner.rolled_back is (STAGES.index(told.stage) >= STAGES.index(Stage.SNAPSHOT))
    assert scene.participant.told == ["undo"] * inner.rolled_back
    scene.assert_kept()


@pytest.mark.parametrize("at", ["on_result", "prepare", "commit", "telemetry"])
@pytest.mark.parametrize("where", ["alone", "async alone"])
def test_a_call_that_is_cancelled_while_it_commits_is_kept(
    make_scene: Any, where: str, at: str
) -> None:
    scene = make_scene(where)
    stop = Cancellation()
    scene.open(at=at, what=stop.cancel)

    told = scene.dispatch(cancellation=stop)

    assert_succeeded(scene, told, "done")
