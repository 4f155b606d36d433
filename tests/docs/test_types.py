"""Mypy and pyright find what does not fit in what authors write."""

from __future__ import annotations

import pytest

pytest.importorskip("mypy")
pytest.importorskip("pyright")

from executing import checkers

pytestmark = pytest.mark.docs

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


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    return checkers.errors(folder, [checkers.write_page(HANDLERS, folder, "handlers")])


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_handler_that_does_not_fit_its_tool_is_an_error(found, checker):
    wrong = {line for line, text in enumerate(HANDLERS.split("\n"), 1) if "# wrong" in text}
    assert {line for name, line, _ in found[checker] if name == "handlers"} == wrong
