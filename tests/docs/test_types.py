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


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    texts = {name: page.read_text("utf-8") for name, page in PAGES.items()}
    files = [
        checkers.write_page(text, folder, name)
        for name, text in {**texts, "handlers": HANDLERS}.items()
    ]
    return checkers.errors(folder, files)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_handler_that_does_not_fit_its_tool_is_an_error(found, checker):
    wrong = {line for line, text in enumerate(HANDLERS.split("\n"), 1) if "# wrong" in text}
    assert {line for name, line, _ in found[checker] if name == "handlers"} == wrong


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_blocks_of_all_pages_are_well_typed(found, checker):
    faults = [
        f"{page.relative_to(ROOT)}:{line}: {why}"
        for name, line, why in found[checker]
        if (page := PAGES.get(name))
        and not (page.is_relative_to(REFERENCE) and OF_EXCERPTS.search(why))
    ]
    assert not faults, "\n".join(faults)
