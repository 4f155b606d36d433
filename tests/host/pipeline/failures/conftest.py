"""A scene in which one call goes wrong, alone or within another, and all that it can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    PolicyDecision,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    hookimpl,
    tool,
)

Act = Callable[[ToolContext], Any]
What = Callable[[], Any]
WHERE = ("alone", "async alone", "within", "async within")


class Till:
    """An exclusive resource: what was rung up."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def begin(self) -> int:
        return len(self.rung)

    def commit(self, savepoint: int) -> None:
        return None

    def rollback(self, savepoint: int) -> None:
        del self.rung[savepoint:]


class Participant:
    """Keeps what it is told, and does something at one of its steps."""

    def __init__(self, at: str, what: What) -> None:
        self.at = at
        self.what = what
        self.told: list[str] = []

    def _hear(self, step: str) -> None:
        self.told.append(step)
        if step == self.at:
            self.what()

    def prepare(self) -> None:
        self._hear("prepare")

    def commit(self) -> None:
        self._hear("commit")

    def rollback(self) -> None:
        self._hear("undo")


class Trace:
    """A context manager that keeps when it is entered and left, and swallows all it can."""

    def __init__(self, notes: list[str], at: str, what: What) -> None:
        self.notes = notes
        self.at = at
        self.what = what

    def __enter__(self) -> None:
        self.notes.append("entered")
        if self.at == "trace entered":
            self.what()

    def __exit__(self, *_: object) -> bool:
        self.notes.append("left")
        if self.at == "trace left":
            self.what()
        return True


class Begins:
    """Lets a participant take part in the inner call."""

    def __init__(self, participant: Participant) -> None:
        self.participant = participant

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Any:
        return self.participant if tool.name == "inner" else None


class Tracing:
    """Traces every call."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    @hookimpl
    def toolstile_trace(self) -> Trace:
        return Trace(self.notes, "", dict)


class Meddling:
    """Does something at one stage of the inner call; to the host a plugin and a policy."""

    name = "meddling"

    def __init__(self, at: str, what: What) -> None:
        self.at = at
        self.what = what

    def _at(self, stage: str, name: str) -> Any:
        return self.what() if (stage, name) == (self.at, "inner") else None

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> Any:
        if self.at.startswith("trace ") and call.name == "inner":
            return Trace([], self.at, self.what)
        return self._at("trace", call.name)

    @hookimpl
    def toolstile_lookup(self, call: ToolCall) -> Any:
        return self._at("lookup", call.name)

    @hookimpl
    def toolstile_parse(self, tool: Tool[Any, Any]) -> Any:
        return self._at("parse", tool.name)

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any]) -> Any:
        return self._at("check", tool.name)

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Any:
        return self._at("snapshot", tool.name)

    @hookimpl
    def toolstile_execute(self, tool: Tool[Any, Any]) -> Any:
        return self._at("execute", tool.name)

    @hookimpl
    def toolstile_render(self, tool: Tool[Any, Any]) -> Any:
        return self._at("render", tool.name)

    @hookimpl
    def toolstile_on_result(self, tool: Tool[Any, Any]) -> Any:
        return self._at("on_result", tool.name)

    @hookimpl
    def toolstile_rollback(self, tool: Tool[Any, Any]) -> None:
        self._at("rollback", tool.name)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self._at("telemetry", event.tool_name)

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        self._at("policy told", tool.name)

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return self._at("reserve", tool.name) or PolicyDecision.allow()

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        self._at("policy's rollback", tool.name)


class Scene:
    """One call to be looked at, alone or made by another, and all that it can change."""

    def __init__(self, yard: Any, mark: Any, where: str) -> None:
        self.yard = yard
        self.within = where.endswith("within")
        self.is_async = where.startswith("async")
        self.till = Till()
        self.ran = False
        self.seen: list[str] = []
        self.traced: list[str] = []
        self.participant: Participant
        self._told: list[Any] = []
        self._asks = False
        self._act: Act | None
        self._call: tuple[str, str]
        self._mark = mark
        self._box = type(yard.box)

    def open(
        self,
        act: Act | None = lambda context: ToolResult.ok(message="done"),
        *,
        at: str = "",
        what: What = dict,
        asks: bool = False,
        plugins: tuple[object, ...] = (),
        resources: tuple[Binding[Any], ...] = (),
        **options: Any,
    ) -> None:
        """Set the scene.

        Args:
            act: What the call's handler does, once it has changed everything; None for none.
            at: The stage, or the step of a participant, at which something happens.
            what: What happens there.
            asks: Whether a person has to approve the call.
            plugins: Others that are there, around those of the scene.
            resources: Others that are bound.
            options: Of the host.
        """
        self._act, self._asks = act, asks
        self.participant = Participant(at, what)
        meddling = Meddling(at, what)
        outer = self._async_outer() if self.is_async else self._outer()
        self.yard.open(
            self._inner(),
            outer,
            self._rings(),
            # Whoever comes later is asked first: the participant has begun before a snapshot fails.
            plugins=(meddling, Begins(self.participant), Tracing(self.traced), *plugins),
            policies=(meddling,),
            resources=(Binding.instance(Till, self.till), *resources),
            approver=(lambda _: what()) if at == "approve" else None,
            host_options=options,
        )

    def dispatch(self, name: str = "inner", arguments: str = "{}", **options: Any) -> Any:
        """Dispatch the call; return what whoever made it is told.

        Args:
            name: The tool that is called.
            arguments: The arguments it is called with.
            options: Of the call that is dispatched, this one or the one around it.
        """
        self._call = name, arguments
        if not self.within:
            return self.yard.dispatch(ToolCall(name, arguments, **options))
        outcome = self.yard.dispatch(ToolCall("outer", **options))
        return self._told[0] if self._told else outcome

    def events(self) -> tuple[Any, Any]:
        """Return the one event of the call, and that of the call around it, if there is one."""
        events = self.yard.events
        assert len(events) == 1 + self.within
        inner, outer = events[0], events[1] if self.within else None
        assert inner.parent_id == (outer.call_id if outer is not None else None)
        return inner, outer

    def assert_kept(self, *texts: str) -> None:
        """All has been changed by these, and by nobody else, and is free for others."""
        assert self.yard.marks == self.yard.box.items == list(texts)
        rung = [each for each in texts if not (self._asks and each == "before")]
        assert self.till.rung == rung
        assert self.yard.call("rings").success
        assert self.till.rung == [*rung, "rings"]

    def assert_taken_back(self, outer: Any) -> None:
        """Nothing is kept, neither of the call nor of the one around it, which it has left."""
        if outer is not None:
            assert outer.status in {Status.RAISED, Status.DEADLINE}
            assert outer.rolled_back
        assert self.participant.told[-1:] in ([], ["undo"])
        assert "commit" not in self.participant.told
        self.assert_kept()

    def _inner(self) -> Tool[Any, Any]:
        act = self._act

        def handler(params: None, *, context: ToolContext) -> Any:
            assert act is not None
            self.ran = True
            self._change(context, "inner", context.resources.get(Till))
            return act(context)

        async def ahandler(params: None, *, context: ToolContext) -> Any:
            assert act is not None
            self.ran = True
            self._change(context, "inner", await context.resources.aget(Till))
            return act(context)

        made = ahandler if self.is_async else handler
        return Tool[None, Any](
            name="inner",
            description="Change everything, then go wrong.",
            handler=made if act is not None else None,
            requires_confirmation=self._asks,
        )

    def _outer(self) -> Tool[Any, Any]:
        @tool
        def outer(*, context: ToolContext) -> None:
            """Change everything before and after a call."""
            self._change(context, "before", context.resources.get(Till) if self._takes else None)
            self._told.append(context.call(*self._call))
            self._go_on(context, context.resources.get(Till))

        return outer

    def _async_outer(self) -> Tool[Any, Any]:
        @tool
        async def outer(*, context: ToolContext) -> None:
            """Change everything before and after a call."""
            till = await context.resources.aget(Till) if self._takes else None
            self._change(context, "before", till)
            self._told.append(await context.acall(*self._call))
            self._go_on(context, await context.resources.aget(Till))

        return outer

    @property
    def _takes(self) -> bool:
        """True where the call around takes the till before: no person is asked while it has it."""
        return not self._asks

    def _rings(self) -> Tool[Any, Any]:
        @tool
        def rings(*, context: ToolContext) -> None:
            """Ring something up, alone."""
            context.resources.get(Till).rung.append("rings")

        return rings

    def _change(self, context: ToolContext, text: str, till: Till | None) -> None:
        context.session[self._mark].append(self._mark(text))
        context.resources.get(self._box).put(text)
        if till is not None:
            till.rung.append(text)

    def _go_on(self, context: ToolContext, till: Till) -> None:
        self.seen = [each.text for each in context.session[self._mark].all()]
        assert self.seen == context.resources.get(self._box).items
        assert till.rung == (self.seen if self._takes else self.seen[1:])
        self._change(context, "after", till)


@pytest.fixture(params=WHERE)
def scene(request: pytest.FixtureRequest, yard: Any, mark: Any) -> Scene:
    return Scene(yard, mark, request.param)


@pytest.fixture
def make_scene(yard: Any, mark: Any) -> Callable[[str], Scene]:
    return lambda where: Scene(yard, mark, where)
