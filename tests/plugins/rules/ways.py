"""The ways in which calls come to a host: each makes the same calls under the same rules."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from toolstile import Executor, Host, Prompt
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ForeignTool,
    MarkdownSection,
    Outcome,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
)
from toolstile_plugins.agent import Agent

from . import errands

Call = tuple[str, Mapping[str, Any]]
Way = Callable[[Path, str, Sequence[Call]], list[str]]
"""Makes calls, one after another, under the rules of a file and a request; returns their texts."""

ERRANDS = Path(__file__).with_name("errands.py")
SERVED = ["-m", "toolstile", "--plugin", str(ERRANDS), "mcp"]
DISCOVER = {"rules", "policies", "mcp"}


@contextmanager
def opened(config: Path, request: str, tools: Sequence[Tool[Any, Any]] = ()) -> Iterator[Executor]:
    with (
        Host(config=config, discover=DISCOVER, tools=tools) as host,
        host.executor(request=request) as executor,
    ):
        yield executor


def made(executor: Executor, driver: str, calls: Sequence[Sequence[ToolCall]]) -> list[Outcome]:
    """Make batches under a driver, and return the first outcome of each."""

    async def later() -> list[Any]:
        return [
            await executor.adispatch_all(batch)
            if len(batch) > 1
            else [await executor.adispatch(batch[0])]
            for batch in calls
        ]

    if driver == "async":
        return [ended[0] for ended in asyncio.run(later())]
    return [
        executor.dispatch_all(batch)[0] if len(batch) > 1 else executor.dispatch(batch[0])  # type: ignore[misc]
        for batch in calls
    ]


def texts(executor: Executor, driver: str, calls: Sequence[Call]) -> list[str]:
    """Make calls one by one, and return their texts."""
    return [each.text for each in made(executor, driver, [[ToolCall(*call)] for call in calls])]


def by_driver(driver: str) -> Way:
    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        with opened(config, request, errands.TOOLS) as tools:
            return [
                each.text for each in made(tools, driver, [[ToolCall(*call)] for call in calls])
            ]

    return way


def in_batches(driver: str) -> Way:
    """Make each call in a batch with another one."""

    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        with opened(config, request, errands.TOOLS) as tools:
            batches = [[ToolCall(*call), ToolCall("look", {})] for call in calls]
            return [each.text for each in made(tools, driver, batches)]

    return way


def nested(driver: str) -> Way:
    """Make all calls within another call, whose handler is of the driver's kind."""

    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        name = "in_turn" if driver == "sync" else "in_turn_later"
        within = [{"name": name, "arguments": arguments} for name, arguments in calls]
        with opened(config, request, [*errands.TOOLS, *errands.NESTING]) as tools:
            (outcome,) = made(tools, driver, [[ToolCall(name, {"calls": within})]])
        return json.loads(json.dumps(outcome.result.value))

    return way


def foreign(driver: str) -> Way:
    """Make calls of tools that are those of another framework, with a callable for each."""

    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        tools = [_foreign(each) for each in errands.TOOLS]
        with opened(config, request, tools) as executor:
            return texts(executor, driver, calls)

    return way


def _foreign(own: Tool[Any, Any]) -> ForeignTool:
    function: Any = own

    def call(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return function(**arguments)

    schema = own.params_codec.schema()
    return ForeignTool(own.name, own.description, schema, call, category=own.category)


def behind_a_gateway(driver: str) -> Way:
    """Make calls of tools that a server has, which is another process."""

    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        server = {
            "command": sys.executable,
            "args": SERVED,
            "prefix": "",
            "cwd": str(ERRANDS.parent),
        }
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
        pins = json.dumps(str(config.parent / "pins.json"))
        table = f"[plugins.mcp]\npins = {pins}\nwait = 120\n[plugins.mcp.servers.errands]\n{lines}"
        config.write_text(f"{config.read_text()}\n{table}")
        with opened(config, request) as executor:
            return texts(executor, driver, calls)

    return way


def as_a_server(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
    """Serve the tools in another process, to the official client of the protocol."""
    config.write_text(f'{config.read_text()}\n[plugins.mcp.serve]\nrequest_from = ["*"]\n')
    parameters = StdioServerParameters(command=sys.executable, args=SERVED, cwd=config.parent)

    async def later() -> list[str]:
        meta: Any = {"toolstile/request": request}
        async with Client(parameters) as client:
            results = [
                await client.call_tool(name, dict(arguments), meta=meta)
                for name, arguments in calls
            ]
        return ["\n".join(part.text for part in result.content) for result in results]  # type: ignore[union-attr]

    return asyncio.run(later())


def by_an_agent(driver: str) -> Way:
    def way(config: Path, request: str, calls: Sequence[Call]) -> list[str]:
        section = MarkdownSection(key="errands", title="Errands", tools=errands.TOOLS)
        model = ScriptedModel(*([call] for call in calls), "Done.")
        with Host(config=config, discover=DISCOVER, tools=errands.TOOLS) as host:
            agent = Agent[str](Prompt.of("demo", "errands", [section]), adapter=model, host=host)
            if driver == "sync":
                _, session = agent.execute(request)
            else:
                _, session = asyncio.run(agent.aexecute(request))
        return [event.text for event in session[ToolInvoked].all()]

    return way


WAYS: dict[str, Way] = {
    f"{way.__name__} {driver}": way(driver)
    for way in (by_driver, in_batches, nested, foreign, by_an_agent, behind_a_gateway)
    for driver in ("sync", "async")
} | {"as_a_server": as_a_server}
PROCESSES = {name for name in WAYS if name.startswith(("behind", "as_a"))}
"""The ways that start a process."""
