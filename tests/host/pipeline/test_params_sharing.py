"""Nobody who sees a call's params can change what another one sees."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from toolyard_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
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


@dataclass
class Open:
    """Params that can be changed."""

    names: list[str]


@dataclass(frozen=True)
class Inner:
    """Something frozen that holds a list."""

    names: list[str]


@dataclass(frozen=True)
class Outer:
    """Frozen params with a list deep within."""

    inner: Inner


class Model(BaseModel):
    """A pydantic model."""

    names: list[str]


class Typed(TypedDict):
    """A typed dictionary."""

    names: list[str]


SCHEMA = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}},
    "required": ["names"],
}


def names_of(params: Any) -> list[str]:
    """Find the list within params of any kind."""
    if isinstance(params, dict):
        return params["names"]
    if isinstance(params, Outer):
        return params.inner.names
    return params.names


class Witness:
    """Notes what somebody sees, and leaves a mark there for others to find."""

    def __init__(self) -> None:
        self.seen: dict[str, list[list[str]]] = {}

    def look(self, who: str, params: Any) -> None:
        names = names_of(params)
        self.seen.setdefault(who, []).append([each for each in names if each != who])
        names.append(who)


def make_handled(kind: Any, witness: Witness) -> Tool[Any, Any]:
    def handle(params: Any, *, context: ToolContext) -> ToolResult[None]:
        witness.look("handler", params)
        return ToolResult.ok(message="done")

    if kind is SCHEMA:
        return Tool(name="work", description="Work.", handler=handle, params_schema=SCHEMA)
    return Tool[kind, None](name="work", description="Work.", handler=handle)


class Policy:
    """A policy that leaves a mark wherever it can."""

    def __init__(self, name: str, witness: Witness) -> None:
        self.name = name
        self._witness = witness

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self._witness.look(self.name, params)
        return PolicyDecision.ask("Ask.") if self.name == "asking" else PolicyDecision.allow()

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self._witness.look(self.name, params)
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        self._witness.look(self.name, params)

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        self._witness.look(self.name, params)


class Parser:
    """A plugin that keeps hold of the params it has parsed."""

    def __init__(self, name: str, witness: Witness) -> None:
        self.held: list[Any] = []
        self._name = name
        self._witness = witness

    @hookimpl(wrapper=True)
    def toolyard_parse(self, tool: Any, call: ToolCall) -> Generator[None, Any, Any]:
        params = yield
        self.held.append(params)
        return params

    @hookimpl
    def toolyard_check(self, tool: Any, params: Any) -> None:
        for each in self.held:
            self._witness.look(self._name, each)


class Everywhere:
    """A plugin that leaves a mark wherever it can."""

    def __init__(self, name: str, witness: Witness) -> None:
        self._name = name
        self._witness = witness

    @hookimpl
    def toolyard_check(self, tool: Any, params: Any) -> None:
        self._witness.look(self._name, params)

    @hookimpl
    def toolyard_execute(self, tool: Any, params: Any, context: ToolContext) -> None:
        self._witness.look(self._name, params)

    @hookimpl
    def toolyard_on_result(self, tool: Any, params: Any, result: Any) -> None:
        self._witness.look(self._name, params)

    @hookimpl
    def toolyard_rollback(self, tool: Any, params: Any, reason: str) -> None:
        self._witness.look(self._name, params)

    @hookimpl
    def toolyard_telemetry(self, event: ToolInvoked) -> None:
        self._witness.look(f"{self._name} later", event.params)


class Wrapping:
    """A plugin around the handler that leaves a mark before and after it."""

    def __init__(self, name: str, witness: Witness) -> None:
        self._name = name
        self._witness = witness

    @hookimpl(wrapper=True)
    def toolyard_execute(self, tool: Any, params: Any) -> Generator[None, Any, Any]:
        self._witness.look(self._name, params)
        result = yield
        self._witness.look(self._name, params)
        return result


class Other(Everywhere):
    """Another plugin of the kind."""


class OtherWrapping(Wrapping):
    """Another plugin of the kind."""


def open_all(yard: Any, witness: Witness, *tools: Tool[Any, Any]) -> None:
    def approver(request: ApprovalRequest) -> ApprovalAnswer:
        witness.look("approver", request.params)
        return ApprovalAnswer.approve()

    yard.open(
        *tools,
        plugins=(
            Everywhere("plugin", witness),
            Other("other plugin", witness),
            Wrapping("wrapper", witness),
            OtherWrapping("other wrapper", witness),
            Parser("parser", witness),
        ),
        policies=(Policy("asking", witness), Policy("policy", witness)),
        approver=approver,
    )


def assert_nobody_saw_another(witness: Witness, who: Iterable[str]) -> None:
    assert set(witness.seen) == set(who)
    for name, looks in witness.seen.items():
        assert all(each == ["given"] for each in looks), name


ALL = (
    "plugin",
    "other plugin",
    "plugin later",
    "other plugin later",
    "wrapper",
    "other wrapper",
    "parser",
    "asking",
    "policy",
    "approver",
    "handler",
)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        pytest.param(Open, {"names": ["given"]}, id="dataclass"),
        pytest.param(Outer, {"inner": {"names": ["given"]}}, id="frozen"),
        pytest.param(Model, {"names": ["given"]}, id="pydantic"),
        pytest.param(Typed, {"names": ["given"]}, id="typed dict"),
        pytest.param(SCHEMA, {"names": ["given"]}, id="schema"),
    ],
)
def test_everybody_sees_params_of_his_own(yard: Any, kind: Any, arguments: Any) -> None:
    witness = Witness()
    open_all(yard, witness, make_handled(kind, witness))

    outcome = yard.dispatch(ToolCall("work", arguments))

    assert outcome.success
    assert_nobody_saw_another(witness, ALL)
    assert names_of(outcome.event.params) == ["given"]


def test_everybody_sees_params_of_his_own_also_of_a_failed_call(yard: Any) -> None:
    witness = Witness()

    @tool
    def work(names: list[str]) -> ToolResult[None]:
        """Work, and fail."""
        witness.seen.setdefault("handler", []).append(list(names))
        names.append("handler")
        return ToolResult.error("no")

    open_all(yard, witness, work)

    outcome = yard.call("work", names=["given"])

    assert outcome.status is Status.FAILED
    assert_nobody_saw_another(witness, ALL)


def test_an_approvers_edit_is_what_everybody_sees(yard: Any) -> None:
    witness = Witness()
    yard.open(
        make_handled(Open, witness),
        plugins=(Everywhere("plugin", witness),),
        policies=(Policy("asking", witness),),
        approver=lambda _: ApprovalAnswer.edit({"names": ["edited"]}),
    )

    yard.call("work", names=["given"])

    assert witness.seen["handler"] == [["edited"]]
    assert witness.seen["plugin later"] == [["edited"]]
    assert witness.seen["asking"] == [["given"], *[["edited"]] * 3]


def test_a_handler_that_runs_again_sees_the_params_as_they_came(yard: Any, mark: type[Any]) -> None:
    seen: list[list[str]] = []

    @tool(contained=True)
    def work(names: list[str], *, context: ToolContext) -> ToolResult[None]:
        """Change the params in place."""
        len(context.session[mark].all())
        context.session[mark].append(mark("x"))
        seen.append(list(names))
        names.clear()
        return ToolResult.ok()

    yard.open(work)

    outcomes = yard.dispatch_all([ToolCall("work", {"names": ["given"]})] * 2)

    assert [each.event.reruns for each in outcomes] == [0, 1]
    assert seen == [["given"]] * 3


def test_each_reader_of_an_event_gets_a_copy(yard: Any) -> None:
    witness = Witness()
    yard.open(make_handled(Open, witness))

    event = yard.call("work", names=["given"]).event
    event.params.names.append("reader")

    assert event.params.names == ["given"]


def test_params_that_cannot_change_are_shared(yard: Any) -> None:
    seen: list[Any] = []

    @dataclass(frozen=True)
    class Fixed:
        """Params in which nothing can change."""

        names: tuple[str, ...] = field(default=())

    def handle(params: Fixed, *, context: ToolContext) -> ToolResult[None]:
        seen.append(params)
        return ToolResult.ok()

    yard.open(Tool[Fixed, None](name="work", description="Work.", handler=handle))

    event = yard.call("work", names=["given"]).event

    assert event.params is seen[0]
