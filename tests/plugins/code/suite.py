"""Tools that scripts call, and a host that offers them to code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolstile import Executor, Host
from toolstile_hookspecs import (
    MarkdownSection,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_plugins.code import CodeConfig, CodeSection


@dataclass(frozen=True)
class Note:
    """A note, which a session keeps."""

    text: str


@dataclass(frozen=True)
class Offer:
    """The price of an item."""

    item: str
    price: float

    def render(self) -> str:
        return f"{self.item}: {self.price}"


OUTSIDE: list[str] = []


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> int:
    """Write a note down, and return how many there are."""
    context.session[Note].append(Note(text))
    return len(context.session[Note].all())


@tool(category="read")
def offer(item: str, currency: str = "EUR") -> Offer:
    """Return the price of an item."""
    return Offer(item, {"mug": 4.5, "kettle": 58.0}[item])


@tool(category="write", contained=True)
def note_and_fail(text: str, *, context: ToolContext) -> ToolResult[None]:
    """Write a note down, and fail."""
    context.session[Note].append(Note(text))
    return ToolResult.error(f"There is no ink for {text}. Buy some, then retry.")


@tool(category="side_effect")
def send(text: str) -> None:
    """Send something, for good."""
    OUTSIDE.append(text)


@tool(category="write", contained=True, requires_confirmation=True)
def sign(text: str, *, context: ToolContext) -> str:
    """Sign something, once a person has agreed."""
    context.session[Note].append(Note(f"signed {text}"))
    return f"signed {text}"


@tool(category="read")
def look_closer() -> None:
    """Ask for a section."""
    raise VisibilityExpansionRequired(("more",), "to see it")


CONTAINED = (note, offer, note_and_fail, sign, look_closer)


@contextmanager
def running(
    tools: Sequence[Tool[Any, Any]] = CONTAINED,
    *,
    config: CodeConfig | None = None,
    **options: Any,
) -> Iterator[Executor]:
    prompt = Prompt.of(
        "shop",
        "main",
        [MarkdownSection(key="t", title="Tools", tools=tools), CodeSection(config=config)],
    )
    with Host(discover=False, **options) as host, host.executor(prompt=prompt) as executor:
        yield executor


def run(executor: Executor, code: str, **options: Any) -> Any:
    return executor.dispatch(ToolCall("run_python", {"code": code}, **options))


def notes(executor: Executor) -> list[str]:
    return [each.text for each in executor.session[Note].all()]


def run_python_of(executor: Executor) -> Tool[Any, Any]:
    return next(each for each in executor.prompt.tools() if each.name == "run_python")
