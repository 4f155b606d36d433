"""A help desk: its tickets, the policies that say who may ask, and work that goes on later."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolstile_hookspecs import (
    Command,
    Heartbeat,
    HostHandle,
    MarkdownSection,
    PolicyDecision,
    Principal,
    PromptSchema,
    RunContext,
    Section,
    SessionProtocol,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    append_all,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Ticket:
    """A ticket of a session."""

    title: str

    def render(self) -> str:
        """Return the text for a model."""
        return f"# {self.title}"


@dataclass
class Printer:
    """A resource: where tickets are printed."""

    pages: list[str] = field(default_factory=list)


@tool(category="read", tags=["print"])
def print_tickets(*, context: ToolContext) -> str:
    """Print all tickets."""
    context.beat()
    pages = [ticket.render() for ticket in context.session[Ticket].all()]
    context.resources.get(Printer).pages.extend(pages)
    run = context.run_context
    assert run is not None
    return f"{len(pages)} for {context.user_id} in {run.run_id} by {context.adapter}"


@tool(category="write", consequence="low")
def open_ticket(title: str) -> ToolResult[Ticket]:
    """Open a ticket."""
    return ToolResult.ok(Ticket(title))


def prepare_session(session: SessionProtocol) -> None:
    """Register the reducer of tickets."""
    session[Ticket].register(Ticket, append_all)


@dataclass
class Members:
    """A policy: only active members of a group call tools, as one source tells them."""

    source: str
    group: str
    name: str = "desk_members"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Look at source, group and claims of the principal."""
        asks = context.principal
        if asks is None or asks.source != self.source or self.group not in asks.groups:
            return PolicyDecision.deny(f"Only members of {self.group} may call {tool.name}.")
        if asks.claims.reveal().get("suspended"):
            return PolicyDecision.deny(f"{asks.id} is suspended and cannot call {tool.name}.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


@dataclass
class AskedFor:
    """A policy: a title of a ticket takes its words from what staff asked for."""

    group: str
    name: str = "desk_asked_for"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Compare the title with the turns of the request, unless nobody of the group asks."""
        asks = context.principal
        if asks is None or self.group not in asks.groups:
            return PolicyDecision.deny(f"Only members of {self.group} may call {tool.name}.")
        own = [turn.text for turn in context.request if turn.user_id == asks.id]
        asked = " ".join(own).casefold().split()
        missing = [word for word in params.title.casefold().split() if word not in asked]
        if missing:
            return PolicyDecision.deny(f"{asks.id} did not ask for {', '.join(missing)}.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


@hookimpl
def toolstile_sections() -> Sequence[Section]:
    """Offer the tickets."""
    return [
        MarkdownSection(
            key="desk", title="Desk", tools=[open_ticket, print_tickets], on_session=prepare_session
        )
    ]


def work(host: HostHandle, args: argparse.Namespace) -> int:
    """Go on in a saved session: open a ticket, print all, and save the session again."""
    file: Path = args.file
    printer, beats = Printer(), list[str]()
    asks = Principal("desk", args.user, {"staff"})
    with host.executor(
        session=host.session(file.read_text(encoding="utf-8")),
        principal=asks,
        request=f"Open a ticket: {args.title}",
        resources={Printer: printer},
        run_context=RunContext(run_id="night"),
        heartbeat=Heartbeat(lambda: beats.append("beat")),
        adapter="desk",
        client=None,
    ) as tools:
        opened = tools.dispatch(ToolCall("open_ticket", {"title": args.title}))
        tools.request("Print all of them.")
        printed = tools.dispatch(ToolCall("print_tickets"))
        file.write_text(tools.session.snapshot().to_json(), encoding="utf-8")
        schema = PromptSchema.of(tools.prompt, tools.session)
    with host.executor(tags=["print"]) as tools:
        offered = [shown.name for shown in PromptSchema.of(tools.prompt).tools]
    told = {
        "texts": [opened.text, printed.text],
        "pages": printer.pages,
        "beats": len(beats),
        "tools": {shown.name: sorted(shown.parameters["properties"]) for shown in schema.tools},
        "offered": offered,
    }
    sys.stdout.write(f"{json.dumps(told)}\n")
    return 0 if opened.success and printed.success else 1


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument("--user", default="ada")
    parser.add_argument("--title", default="broken printer")


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add the command that goes on in a saved session."""
    return [Command("desk-work", "go on in a saved session", run=work, configure=_options)]


@hookimpl
def toolstile_policies() -> Mapping[str, type[Any]]:
    """Offer the kinds of policies."""
    return {"desk_members": Members, "desk_asked_for": AskedFor}
