"""A plugin whose tools do what the tests of the server need; it is served by real processes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainSerializer, computed_field

from toolstile_hookspecs import (
    Contents,
    Interrupt,
    MarkdownSection,
    PromptEvaluationError,
    ResourceLink,
    TextContent,
    Tool,
    ToolContext,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)

LONGEST = 120.0

print("a plugin that prints while it is imported")  # noqa: T201 - that is what it is for


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Sum:
    total: int
    parts: tuple[int, ...]

    @property
    def links(self) -> tuple[str, ...]:
        """Links of another kind than those to resources."""
        return ("https://example.org",)


class Kept(dict[str, str]):
    """A value that stays here, with its links."""

    links = (ResourceLink("workspace:///never shown", "never shown"),)


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(category="read")
async def add_up(parts: list[int]) -> Sum:
    """Add up integers."""
    return Sum(sum(parts), tuple(parts))


@tool(category="write")
def keep_note(text: str, *, context: ToolContext) -> int:
    """Keep a note, and count the notes."""
    context.session[Note].append(Note(text))
    return len(context.session[Note].all())


@tool(category="read")
def read_notes(*, context: ToolContext) -> list[str]:
    """Read the notes."""
    return [each.text for each in context.session[Note].all()]


@tool(category="read")
def who(*, context: ToolContext) -> str:
    """Say for whom this runs."""
    asks = context.principal
    return "nobody" if asks is None else f"{asks.source}: {asks.id}"


@tool(category="read")
def came_along(*, context: ToolContext) -> dict[str, str]:
    """Say what came along with the call."""
    assert context.tool_call is not None
    return {name: str(value) for name, value in context.tool_call.meta.items()}


@tool
def fail(text: str = "It did not work. Try another way, then retry.") -> ToolResult[None]:
    """Answer with a failure."""
    return ToolResult.error(text)


@tool
def breaks(*, context: ToolContext) -> None:
    """Keep a note, then raise."""
    context.session[Note].append(Note("never"))
    raise RuntimeError("broken")


@tool
def refuse() -> None:
    """Refuse the arguments."""
    raise ToolValidationError("Not like this. Ask first, then retry.")


@tool
def leave() -> None:
    """End the process."""
    sys.exit(3)


@tool
def interrupt() -> None:
    """Interrupt the process, or so it thinks."""
    raise KeyboardInterrupt


@tool
async def interrupt_loop() -> None:
    """Interrupt the process from its event loop."""
    raise KeyboardInterrupt


@tool
def stop_evaluation() -> None:
    """End the evaluation."""
    raise PromptEvaluationError("enough of it")


@tool
def pause() -> None:
    """Wait for a person."""
    raise Interrupt("a person is needed")


@tool
def chatter() -> str:
    """Write to standard output in every way there is."""
    print("printed")  # noqa: T201 - that is what it is for
    sys.stdout.write("written\n")
    sys.stdout.flush()
    os.write(1, b"to the descriptor\n")
    os.system("echo from a child")
    return "done"


@tool(category="read")
def steps(count: int, *, context: ToolContext) -> int:
    """Report every step."""
    for number in range(1, count + 1):
        context.progress(number, count, f"step {number}")
    return count


@tool(timeout=None)
def wait_for_cancellation(began: str, ended: str, *, context: ToolContext) -> str:
    """Keep a note, touch a file, and wait until the call is cancelled; then touch another."""
    context.session[Note].append(Note("never"))
    Path(began).touch()
    cancelled = threading.Event()
    context.abort_signal.on_cancel(cancelled.set)
    if cancelled.wait(LONGEST):
        Path(ended).touch()
    return "not kept"


@tool(timeout=None)
async def sleep_on(began: str, seconds: float = LONGEST) -> str:
    """Touch a file, then sleep."""
    await asyncio.to_thread(Path(began).touch)
    await asyncio.sleep(seconds)
    return "slept"


@tool(category="read")
def hide_value() -> ToolResult[dict[str, str]]:
    """Answer with a value that stays here."""
    return ToolResult.ok({"secret": "never shown"}, "Done.", exclude_value_from_context=True)


@tool(category="read", exclude_value_from_context=True)
def hide_all_values() -> dict[str, str]:
    """Answer with values that always stay here."""
    return Kept(secret="never shown")


@tool
def miscount() -> int:
    """Count, and answer with no number."""
    return "many"


class Square(BaseModel, extra="forbid"):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        """The area."""
        return self.side**2


class Priced(BaseModel):
    price: Annotated[int, PlainSerializer(lambda price: f"{price} EUR", return_type=str)]


class Secretive(BaseModel):
    shown: int
    kept: int = Field(0, exclude=True)


class Open(BaseModel, extra="allow"):
    size: int


@tool(category="read")
def squares(sides: list[int]) -> list[Square]:
    """Make squares."""
    return [Square(side=side) for side in sides]


@tool(category="read")
def price() -> Priced:
    """Give a price."""
    return Priced(price=3)


@tool(category="read")
def secretive() -> Secretive:
    """Give what is shown."""
    return Secretive(shown=1, kept=2)


@tool(category="read")
def open_ended() -> Open:
    """Give more than is declared."""
    return Open.model_validate({"size": 1, "colour": "red"})


@tool
def misdate() -> datetime:
    """Give the time, and answer with no time."""
    return 12


def contain_total(total: object) -> Tool[None, Any]:
    """Return a tool that answers with contents, and declares what is structured in them."""

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        return ToolResult.ok(Contents((TextContent("one"),), structured={"total": total}))

    return Tool[None, Any](
        name="contain" if total == 1 else "miscontain",
        description="Answer with contents.",
        handler=handler,
        result_schema={"type": "object", "properties": {"total": {"type": "integer"}}},
    )


@tool(category="read")
def list_structured() -> Contents:
    """Answer with contents and a list of what is in them."""
    return Contents((TextContent("one, two"),), structured=[1, 2])


@hookimpl
def toolstile_sections():
    return [
        MarkdownSection(
            key="desk",
            title="Desk",
            template="Use add to add.",
            tools=[
                *(add, add_up, keep_note, read_notes, who, came_along, fail, breaks, refuse),
                *(
                    leave,
                    interrupt,
                    interrupt_loop,
                    stop_evaluation,
                    pause,
                    chatter,
                    steps,
                    wait_for_cancellation,
                    sleep_on,
                ),
                *(hide_value, hide_all_values, miscount, list_structured),
                *(squares, price, secretive, open_ended, misdate),
                *(contain_total(1), contain_total("one")),
            ],
        ),
        MarkdownSection(key="greeting", title="Greeting", template="Greet $name in $language."),
    ]
