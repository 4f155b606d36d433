"""Mypy and pyright find what does not fit in what authors write, and no fault in our pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("pyright")

from executing import checkers

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
PAGES = {
    page.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_"): page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```python" in page.read_text("utf-8")
}

REFERENCE = ROOT / "docs" / "reference"
OF_EXCERPTS = re.compile(r"name-defined|reportUndefinedVariable|is declared as Final")
"""Faults of the reference alone: its examples use names of a reader's own, and its parts import
all names of the contract again."""

HANDLERS = """
```python
from dataclasses import dataclass

from toolstile import Tool, ToolContext, ToolHandler, ToolResult


@dataclass(frozen=True)
class Name:
    name: str


def greet(params: Name, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult.ok(f"Hello {params.name}")


async def count(params: Name, *, context: ToolContext) -> ToolResult[int]:
    return ToolResult.ok(len(params.name))


def fail(params: object, *, context: ToolContext) -> ToolResult[None]:
    return ToolResult.error("Nobody is there. Try again tomorrow.")


def plain(name: str) -> str:
    return name


Tool[Name, str](name="a", description="Greet.", handler=greet)
Tool[Name, int](name="b", description="Count.", handler=count)
Tool[Name, object](name="c", description="Count.", handler=count)
Tool[None, None](name="d", description="Fail.", handler=fail)
short = Tool[Name, str](
    name="e", description="Greet.", handler=lambda params, *, context: ToolResult.ok(params.name)
)
handler: ToolHandler[Name, str] = greet

Tool[str, str](name="f", description="Greet.", handler=greet)  # wrong: the params
Tool[Name, int](name="g", description="Greet.", handler=greet)  # wrong: the result
Tool[Name, str](name="h", description="Count.", handler=count)  # wrong: the result of a coroutine
Tool[Name, str](name="i", description="Say it.", handler=plain)  # wrong: the form
```
"""


CONCEPTS = """
```python
import asyncio
from typing import Any, assert_type

from toolstile import Agent, CallFailed, Host, Outcome, Prompt, Settings, tool
from toolstile_plugins.agent import RunResult


@tool
def add(a: int, b: int) -> int:
    return a + b


def plain(a: int) -> int:
    return a


host = Host(tools=[add, plain], settings=Settings.durable("a.db", key="k" * 32))
try:
    assert_type(host.call("add", a=1, b=2), Any)
except CallFailed as failed:
    assert_type(failed.outcome, Outcome)
agent = Agent("openai:gpt-6.2-sol", tools=[add, plain], prompt="Add.")
assert_type(agent, Agent[str])
assert_type(agent.run("Hi."), RunResult[str])
number = Agent[int](Prompt.of("a", "b"), tools=[add])
assert_type(number.run("Hi."), RunResult[int])


async def main() -> None:
    assert_type(await host.acall("add", a=1, b=2), Any)
    assert_type(await agent.arun("Hi."), RunResult[str])
    async for piece in agent.astream("Hi."):
        if isinstance(piece, str):
            assert_type(piece, str)


asyncio.run(main())
Agent(1)  # wrong
agent.run(1)  # wrong
Settings.durable("a.db", key=1)  # wrong
host.call(add, a=1, b=2)  # wrong
```
"""

OWN = {"handlers": HANDLERS, "concepts": CONCEPTS}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    texts = {name: page.read_text("utf-8") for name, page in PAGES.items()}
    files = [
        file
        for name, text in {**texts, **OWN}.items()
        for file in checkers.write_page(text, folder, name)
    ]
    return checkers.errors(folder, files)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_only_the_lines_that_do_not_fit_are_errors(found, checker, name):
    wrong = {line for line, text in enumerate(OWN[name].split("\n"), 1) if "# wrong" in text}
    assert {line for where, line, _ in found[checker] if where == name} == wrong


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_blocks_of_all_pages_are_well_typed(found, checker):
    faults = [
        f"{page.relative_to(ROOT)}:{line}: {why}"
        for name, line, why in found[checker]
        if (page := PAGES.get(name))
        and not (page.is_relative_to(REFERENCE) and OF_EXCERPTS.search(why))
    ]
    assert not faults, "\n".join(faults)
