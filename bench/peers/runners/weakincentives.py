"""weakincentives: a bridged tool, which is what its adapters give to the agents they drive."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, make_dataclass
from functools import cache
from typing import Any, cast, get_type_hints

import workload
from contestant import Attempt, Calling, Contestant, Kept, Offer, Way
from folders import TEXT, WRITTEN, folder
from weakincentives.adapters._shared._bridge import create_bridged_tools
from weakincentives.filesystem import Filesystem, HostFilesystem
from weakincentives.prompt import (
    MarkdownSection,
    Prompt,
    PromptTemplate,
    SequentialDependencyPolicy,
    Tool,
    ToolContext,
    ToolResult,
)
from weakincentives.runtime import InProcessDispatcher, Session


@dataclass(frozen=True)
class Number:
    """The result of `add`, a dataclass."""

    value: object

    def render(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Address:
    street: str
    city: str
    zip: str
    country: str = "FI"


@dataclass(frozen=True)
class Item:
    sku: str
    qty: int
    price: float


@dataclass(frozen=True)
class Line:
    sku: str
    qty: int
    subtotal: float
    note: str


@dataclass(frozen=True)
class OrderParams:
    customer_id: str
    email: str
    address: Address
    items: list[Item]
    priority: workload.Priority
    express: bool
    notes: str | None = None
    tags: list[str] | None = None


@dataclass(frozen=True)
class Order:
    order_id: str
    customer_id: str
    total: float
    express: bool
    priority: str
    ship_to: str
    lines: list[Line]
    tags: list[str]

    def render(self) -> str:
        return json.dumps(asdict(self))


def _ordered(params: OrderParams, *, context: ToolContext) -> ToolResult[Order]:  # noqa: ARG001 - a handler
    """Do what the workload's function does, with dataclasses in the place of its models."""
    lines = [
        Line(item.sku, item.qty, item.qty * item.price, workload.NOTE) for item in params.items
    ]
    order = Order(
        order_id="ord_000123",
        customer_id=params.customer_id,
        total=sum(line.subtotal for line in lines),
        express=params.express,
        priority=params.priority,
        ship_to=f"{params.address.street}, {params.address.zip} {params.address.city}",
        lines=lines,
        tags=list(params.tags or ()),
    )
    return ToolResult.ok(order, message="Ordered.")


def _tool(name: str, function: Callable[..., Any]) -> Tool[Any, Any]:
    if name == "create_order":
        return Tool[OrderParams, Order](name=name, description="Create an order.", handler=_ordered)
    hints = get_type_hints(function)
    hints.pop("return")
    params_type = make_dataclass("Params", hints.items(), frozen=True)

    def handler(params: Any, *, context: ToolContext) -> ToolResult[Number]:  # noqa: ARG001 - a handler
        return ToolResult.ok(Number(function(**vars(params))), message="Done.")

    return Tool[params_type, Number](
        name=name, description=function.__doc__ or name, handler=handler
    )


@contextmanager
def _bridged(
    tool: Tool[Any, Any], resources: dict[type, object]
) -> Iterator[Callable[[str], dict[str, Any]]]:
    policy = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"add", "create_order"})})
    section = MarkdownSection(
        key="bench", title="Bench", template="Work.", tools=(tool,), policies=(policy,)
    )
    session = Session(dispatcher=InProcessDispatcher())
    template = PromptTemplate[None](ns="bench", key="bench", sections=(section,))
    prompt = Prompt(template).bind(resources=resources)
    with prompt.resources:
        (bridged,) = create_bridged_tools(
            (tool,),
            session=session,
            adapter=cast("Any", None),
            prompt=prompt,
            rendered_prompt=prompt.render(),
            deadline=None,
            budget_tracker=None,
        )
        yield lambda arguments: bridged(json.loads(arguments))


@contextmanager
def _called(offer: Offer) -> Iterator[Calling]:
    ((name, function),) = offer.tools.items()
    with _bridged(_tool(name, function), {}) as call:
        yield lambda _, arguments: call(arguments)["content"][0]["text"]


@dataclass(frozen=True)
class Nothing:
    number: int


def _fail_late(params: Nothing, *, context: ToolContext) -> ToolResult[Number]:  # noqa: ARG001 - a handler
    """Write a file, then fail."""
    context.resources.get(Filesystem).write(WRITTEN, TEXT)
    return ToolResult.error("It cannot be done.")


@cache
def _workspace(files: int) -> HostFilesystem:
    workspace = HostFilesystem(str(folder(files)))
    atexit.register(workspace.cleanup)
    return workspace


@contextmanager
def _rollback(files: int, kept: Kept) -> Iterator[Attempt]:
    assert kept == "disk"
    tool = Tool[Nothing, Number](name="fail", description="Fail.", handler=_fail_late)
    with _bridged(tool, {Filesystem: _workspace(files)}) as call:
        yield Attempt(lambda: call('{"number": 1}'), (folder(files) / WRITTEN).exists)


CONTESTANT = Contestant(
    distributions=("weakincentives",),
    ways=(
        Way(
            "`BridgedTool`",
            "lookup, strict validation, policies, a snapshot of the session, events",
            _called,
            handlers=("sync",),
            governs=True,
            keeps=True,
        ),
    ),
    rollback=_rollback,
    kept=("disk",),
)
