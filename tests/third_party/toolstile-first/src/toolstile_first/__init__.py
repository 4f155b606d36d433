"""A plugin written for the first release: every hook, each with all its arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from toolstile_first.parts import (
    HEARD,
    TOOLS,
    Curfew,
    Lines,
    Mark,
    Notebook,
    Settings,
    Span,
    prepare_session,
)
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Binding,
    Catalog,
    Command,
    Diagnostic,
    Dialect,
    HostHandle,
    MarkdownSection,
    Participant,
    PolicyDecision,
    Section,
    SnapshotError,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    applies_to,
    hookimpl,
)

toolstile_requires = "1.0"


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the table."""
    HEARD.append("toolstile_settings")
    return Settings


@hookimpl
def toolstile_sections(settings: Settings) -> list[Section]:
    """Offer the tools."""
    HEARD.append("toolstile_sections")
    return [
        MarkdownSection(
            key="first",
            title=settings.title,
            template="Note what matters.",
            tools=TOOLS,
            on_session=prepare_session,
        )
    ]


@hookimpl
def toolstile_policies(settings: Settings) -> Mapping[str, type[Any]]:
    """Offer a kind of policy."""
    HEARD.append("toolstile_policies")
    return {"first_curfew": Curfew}


@hookimpl
def toolstile_resources(settings: Settings) -> list[Binding[Any]]:
    """Offer the notebook."""
    HEARD.append("toolstile_resources")
    return [Binding(Notebook, lambda resources: Notebook(settings.title))]


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add a command."""
    HEARD.append("toolstile_commands")
    return [Command("first", "count what the first plugin offers", run=_count, configure=_options)]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--twice", action="store_true")


def _count(host: HostHandle, args: argparse.Namespace) -> int:
    sys.stdout.write(f"{len(TOOLS) * (2 if args.twice else 1)}\n")
    return 0


@hookimpl
def toolstile_dialects() -> list[Dialect]:
    """Offer a dialect."""
    HEARD.append("toolstile_dialects")
    return [Lines()]


@hookimpl
def toolstile_diagnose(settings: Settings) -> Iterator[Diagnostic]:
    """Be well."""
    HEARD.append("toolstile_diagnose")
    yield Diagnostic.ok("notes", f"They are called {settings.title}.")


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: Settings) -> Generator[None]:
    """Be there while the host is open."""
    HEARD.append("toolstile_lifespan")
    yield


@hookimpl
def toolstile_trace(call: ToolCall, settings: Settings) -> Span:
    """Trace the call."""
    HEARD.append("toolstile_trace")
    return Span()


@hookimpl
def toolstile_lookup(call: ToolCall, catalog: Catalog) -> Tool[Any, Any] | None:
    """Know another name of `note`."""
    HEARD.append("toolstile_lookup")
    return catalog.get("note") if call.name == "write_down" else None


@hookimpl(wrapper=True)
def toolstile_parse(tool: Tool[Any, Any], call: ToolCall) -> Generator[None, Any, Any]:
    """Go around the parsing."""
    HEARD.append("toolstile_parse")
    params = yield
    return params


@hookimpl
def toolstile_check(
    tool: Tool[Any, Any], params: Any, context: ToolContext
) -> PolicyDecision | None:
    """Have no opinion."""
    HEARD.append("toolstile_check")
    return None


@hookimpl
def toolstile_approve(request: ApprovalRequest, settings: Settings) -> ApprovalAnswer:
    """Approve."""
    HEARD.append("toolstile_approve")
    return ApprovalAnswer.approve()


@hookimpl
def toolstile_snapshot(context: ToolContext, tool: Tool[Any, Any]) -> Participant:
    """Take part."""
    HEARD.append("toolstile_snapshot")
    return Mark()


@hookimpl
@applies_to(lambda tool: "remote" in tool.tags)
def toolstile_execute(tool: Tool[Any, Any], params: Any, context: ToolContext) -> ToolResult[str]:
    """Answer in the handler's place."""
    HEARD.append("toolstile_execute")
    return ToolResult.ok("far away")


@hookimpl(wrapper=True)
def toolstile_render(tool: Tool[Any, Any], result: ToolResult[Any]) -> Generator[None, str, str]:
    """Go around the rendering."""
    HEARD.append("toolstile_render")
    text = yield
    return text


@hookimpl
def toolstile_on_result(
    tool: Tool[Any, Any], params: Any, result: ToolResult[Any], context: ToolContext
) -> None:
    """Veto nothing."""
    HEARD.append("toolstile_on_result")


@hookimpl
def toolstile_rollback(
    tool: Tool[Any, Any], params: Any, context: ToolContext, reason: str
) -> None:
    """Hear of it."""
    HEARD.append("toolstile_rollback")


@hookimpl
def toolstile_telemetry(
    event: ToolInvoked, changes: str | SnapshotError, settings: Settings
) -> None:
    """Observe."""
    HEARD.append("toolstile_telemetry")
