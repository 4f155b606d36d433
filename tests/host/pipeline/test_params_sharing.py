"""No plugin and no handler receives params that another can change."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from uuid import uuid4

import pytest
from pydantic import BaseModel, model_validator

from toolstile_hookspecs import (
    ApprovalRequest,
    PolicyDecision,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    hookimpl,
    tool,
)


@dataclass
class Order:
    """Params that can be changed, and hold what can be changed."""

    item: str
    tags: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Fixed:
    """Params in which nothing can be changed."""

    item: str
    tags: tuple[str, ...] = ()


def order(params: Order, *, context: ToolContext) -> ToolResult[Order]:
    seen = Order(params.item, list(params.tags))
    spoil(params)
    return ToolResult.ok(seen)


ORDER = Tool[Order, Order](name="order", description="Order something.", handler=order)
ARGUMENTS: Mapping[str, Any] = {"item": "tea", "tags": ["hot"]}
ASKED = Order("tea", ["hot"])


def spoil(params: Any) -> None:
    params.item = "coffee"
    params.tags.append("spoilt")


class Spoiling:
    """Notes the params of every hook, and then changes them in place."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Order]] = []
        self.ids: list[int] = []
        self._kept: list[Any] = []

    def _spoil(self, stage: str, params: Order) -> None:
        self.seen.append((stage, Order(params.item, list(params.tags))))
        self._kept.append(params)
        spoil(params)

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], params: Order) -> None:
        self._spoil("check", params)

    @hookimpl
    def toolstile_execute(self, tool: Tool[Any, Any], params: Order) -> None:
        self._spoil("execute", params)

    @hookimpl
    def toolstile_rollback(self, tool: Tool[Any, Any], params: Order) -> None:
        self._spoil("rollback", params)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self._spoil("telemetry", event.params)


class Second(Spoiling):
    """Another plugin that does the same."""


class Wrapping(Spoiling):
    """Does it around the handler."""

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Order) -> Generator[None, Any, Any]:
        self._spoil("around", params)
        return (yield)


@dataclass
class SpoilingPolicy:
    """A policy that does it in each of its methods."""

    name: str
    seen: list[tuple[str, Order]] = field(default_factory=list[Any])

    def check(self, tool: Any, params: Order, *, context: ToolContext) -> PolicyDecision:
        self.seen.append(("check", Order(params.item, list(params.tags))))
        spoil(params)
        params.item = object()  # type: ignore[assignment]  # cannot even be written
        return PolicyDecision.ask("Sure?")

    def on_result(self, tool: Any, params: Order, result: Any, *, context: ToolContext) -> None:
        return None


def test_each_plugin_and_the_handler_have_their_own(yard: Any) -> None:
    first, second, wrapping = Spoiling(), Second(), Wrapping()
    yard.open(ORDER, plugins=(first, second, wrapping))

    outcome = yard.call("order", **ARGUMENTS)

    assert outcome.result.value == ASKED
    assert outcome.event.params == ASKED
    for plugin in (first, second):
        assert plugin.seen == [(each, ASKED) for each in ("check", "execute", "telemetry")]
    assert ("around", ASKED) in wrapping.seen


def test_so_have_those_that_hear_of_a_rollback(yard: Any) -> None:
    def refuse(params: Order, *, context: ToolContext) -> ToolResult[None]:
        spoil(params)
        return ToolResult.error("no")

    refused = Tool[Order, None](name="order", description="Refuse.", handler=refuse)
    first, second = Spoiling(), Second()
    yard.open(refused, plugins=(first, second))

    assert not yard.call("order", **ARGUMENTS).success
    for plugin in (first, second):
        assert ("rollback", ASKED) in plugin.seen
        assert ("telemetry", ASKED) in plugin.seen


def test_policies_and_the_approver_have_their_own(yard: Any) -> None:
    shown: list[Order] = []

    def approve(request: ApprovalRequest) -> bool:
        shown.append(Order(request.params.item, list(request.params.tags)))
        spoil(request.params)
        return True

    policies = (SpoilingPolicy("one"), SpoilingPolicy("two"))
    yard.open(ORDER, policies=policies, approver=approve)

    outcome = yard.call("order", **ARGUMENTS)

    assert outcome.result.value == ASKED
    assert shown == [ASKED]
    for policy in policies:
        assert policy.seen[0] == ("check", ASKED)


def test_a_plugin_that_parses_keeps_no_hold_of_them(yard: Any) -> None:
    class Keeping:
        def __init__(self) -> None:
            self.made: list[Order] = []

        @hookimpl
        def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Order:
            self.made.append(Order("tea", ["hot"]))
            return self.made[-1]

        @hookimpl
        def toolstile_check(self) -> None:
            spoil(self.made[-1])

    yard.open(ORDER, plugins=(Keeping(),))

    assert yard.call("order", item="anything").result.value == ASKED


def test_an_event_gives_every_reader_a_copy(yard: Any) -> None:
    yard.open(ORDER)

    event = yard.call("order", **ARGUMENTS).event
    spoil(event.params)

    assert event.params == ASKED
    assert event.params is not event.params
    assert yard.session[ToolInvoked].latest().params == ASKED


def test_a_run_after_a_conflict_starts_from_the_arguments(make_yard: Any, mark: Any) -> None:
    yard = make_yard("sync")
    seen: list[Order] = []

    def contained(params: Order, *, context: ToolContext) -> ToolResult[None]:
        seen.append(Order(params.item, list(params.tags)))
        spoil(params)
        context.session[mark].all()
        if len(seen) == 1:
            yard.session[mark].append(mark("moved"))
        context.session[mark].seed(mark("new"))
        return ToolResult.ok()

    moved = Tool[Order, None](
        name="order", description="Read and replace.", handler=contained, contained=True
    )
    yard.open(moved)

    assert yard.call("order", **ARGUMENTS).event.reruns == 1
    assert seen == [ASKED, ASKED]


def test_params_that_cannot_be_changed_are_shared(yard: Any) -> None:
    ids: list[int] = []

    class Looking:
        @hookimpl
        def toolstile_check(self, params: Fixed) -> None:
            ids.append(id(params))

    def fixed(params: Fixed, *, context: ToolContext) -> ToolResult[None]:
        ids.append(id(params))
        return ToolResult.ok()

    yard.open(
        Tool[Fixed, None](name="fixed", description="Take it.", handler=fixed),
        plugins=(Looking(),),
    )

    event = yard.call("fixed", item="tea", tags=["hot"]).event

    assert len(set(ids)) == 1
    assert event.params == Fixed("tea", ("hot",))


@pytest.mark.parametrize("kind", [list[str], dict[str, int], set[str]])
def test_arguments_of_functions_that_can_be_changed_are_copied(yard: Any, kind: Any) -> None:
    def keep(values: Any) -> int:
        """Empty what is given."""
        count = len(values)
        values.clear()
        return count

    keep.__annotations__["values"] = kind
    yard.open(tool(keep))
    values: Any = {"a": 1} if kind == dict[str, int] else ["a"]

    outcome = yard.call("keep", values=values)

    assert outcome.result.value == 1, outcome.text
    assert len(outcome.event.params.values) == 1
    assert len(values) == 1


def test_the_callers_own_arguments_are_never_touched(yard: Any) -> None:
    arguments = {"item": "tea", "tags": ["hot"]}
    first: Callable[..., Any] = Spoiling
    yard.open(ORDER, plugins=(first(),))

    yard.dispatch(ToolCall("order", arguments))

    assert arguments == {"item": "tea", "tags": ["hot"]}


@dataclass(frozen=True)
class Numbered:
    """Params with a number that is another one whenever it is left out."""

    item: str
    number: str = field(default_factory=lambda: uuid4().hex)
    tags: list[str] = field(default_factory=list[str])


def test_what_was_left_out_is_made_up_once_for_all(yard: Any) -> None:
    seen: list[str] = []

    class Looking:
        @hookimpl
        def toolstile_check(self, params: Numbered) -> None:
            seen.append(params.number)

        @hookimpl
        def toolstile_execute(self, params: Numbered) -> None:
            seen.append(params.number)

    @tool
    def number(params: Numbered) -> str:
        """Tell the number."""
        return params.number

    yard.open(number, plugins=(Looking(),))
    outcome = yard.call("number", item="tea")
    told = {*seen, outcome.text, outcome.event.params.number, outcome.event.params.number}
    assert told == {outcome.text}
    assert outcome.call.arguments in ({"item": "tea"}, '{"item": "tea"}')


class Counted(BaseModel):
    """Params that count how often they are read."""

    tags: list[str]

    read: ClassVar[list[None]] = []

    @model_validator(mode="after")
    def count(self) -> Self:
        """Count it."""
        self.read.append(None)
        return self


class Looking:
    """A plugin that looks at the params in each of its hooks."""

    @hookimpl
    def toolstile_check(self, params: Counted) -> None:
        assert params.tags == ["hot"]

    @hookimpl
    def toolstile_execute(self, params: Counted) -> None:
        assert params.tags == ["hot"]

    @hookimpl
    def toolstile_on_result(self, params: Counted) -> None:
        assert params.tags == ["hot"]


class LookingToo(Looking):
    """Another plugin that looks."""


class LookingPolicy:
    """A policy that looks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, tool: Any, params: Counted, *, context: ToolContext) -> PolicyDecision:
        assert params.tags == ["hot"]
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Counted, result: Any, *, context: ToolContext) -> None:
        assert params.tags == ["hot"]


def test_params_are_read_once_for_the_handler_and_once_for_all_who_look(yard: Any) -> None:
    def count(params: Counted, *, context: ToolContext) -> ToolResult[None]:
        params.tags.append("changed by the handler")
        return ToolResult.ok(None)

    counting = Tool[Counted, None](name="count", description="Count.", handler=count)
    policies = [LookingPolicy(name) for name in ("one", "two", "three")]
    yard.open(counting, plugins=(Looking(), LookingToo()), policies=policies)
    Counted.read.clear()

    assert yard.call("count", tags=["hot"]).success
    assert len(Counted.read) == 2
