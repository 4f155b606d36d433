"""Trust in a server's tools: which are known, and which a person has to accept."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ValidationError

from toolstile_hookspecs import ConfigurationError, PolicyDecision, Tool, ToolContext
from toolstile_hookspecs.support.process import replaced
from toolstile_hookspecs.support.text import suggest
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.mcp.gateway.errors import one_line
from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.settings import Trust, names_tool
from toolstile_plugins.policies.checks import Stateless

# --- Pins


log = logging.getLogger("toolstile.mcp")

Pinned = Mapping[str, Definition]
"""A server's tools, by its names for them."""


class _PinFile(BaseModel):
    format: Literal["toolstile.mcp"]
    version: Literal[1]
    servers: dict[str, dict[str, Definition]]


class Pins:
    """The file of servers' tools, with their definitions when they were met or approved.

    It is made when there is something to remember, and lets tools be offered before their server is
    connected.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def of(self, server: str) -> dict[str, Definition]:
        """Return the remembered tools of a server; `ConfigurationError` for an unreadable file."""
        return self._read().get(server, {})

    def keep(self, server: str, tools: Pinned) -> None:
        """Remember a server's tools; if that fails, log it: a person is then asked again."""
        with self._lock:
            try:
                self._write({**self._read(), server: tools})
            except (OSError, ConfigurationError) as error:
                log.warning("The tools of MCP server %s cannot be remembered: %s", server, error)

    def _read(self) -> dict[str, dict[str, Definition]]:
        try:
            return _PinFile.model_validate_json(self.path.read_bytes()).servers
        except FileNotFoundError:
            return {}
        except ValidationError as error:
            raise self._unreadable(error.errors()[0]["msg"]) from error
        except OSError as error:
            raise self._unreadable(str(error)) from error

    def _write(self, servers: Mapping[str, Pinned]) -> None:
        plain = {
            server: {name: tool.plain() for name, tool in tools.items()}
            for server, tools in servers.items()
        }
        make_directory_of(self.path)
        held = {"format": "toolstile.mcp", "version": 1, "servers": plain}
        with replaced(self.path) as file:
            file.write(json.dumps(held, indent=1, sort_keys=True).encode())

    def _unreadable(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path}, the file of approved tools of MCP servers, cannot be read: {why}. "
            "Repair it, or remove it: all tools then count as new."
        )


# --- Standing


REMEMBERED: Final = 1000
"""The most calls about which a person is asked at the same time."""

GONE: Final = 1000
"""The number of gone tools of a server after which a person is asked about new ones."""

CallKey = tuple[str, str]
"""A session's id, and the id of a call in it."""


def call_key(context: ToolContext) -> CallKey:
    """Return the key of the call that a context belongs to."""
    call = context.tool_call
    return str(getattr(context.session, "id", "")), "" if call is None else call.id


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason to ask a person about a tool: its present and its approved definition, if any."""

    found: Definition
    approved: Definition | None

    @property
    def changes(self) -> tuple[str, ...]:
        """The changed parts; none for a new tool."""
        return () if self.approved is None else self.found.changes_from(self.approved)


class Standing:
    """The tools of one server: their approved and their present definitions.

    A model sees a tool as it was approved, and a person is asked about the present definition when
    the tool is called. If the person agrees, the present definition is approved.
    """

    def __init__(self, server: str, trust: Trust, pins: Pins) -> None:
        self._server = server
        self._trust: Trust = trust
        self._pins = pins
        self._approved = pins.of(server)
        self._found: dict[str, Definition] | None = None
        self._asked: OrderedDict[CallKey, str] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """True when the list of the server's tools is known."""
        return self._found is not None or bool(self._approved)

    def shown(self) -> tuple[Definition, ...]:
        """Return the tools to show to a model, in the order of their names."""
        with self._lock:
            found = self._approved if self._found is None else self._found
            shown = [self._approved.get(name, definition) for name, definition in found.items()]
        return tuple(sorted(shown, key=lambda definition: definition.name))

    def found(self, name: str) -> Definition | None:
        """Return a tool as the server defines it now, None if it is gone or not yet met."""
        return None if self._found is None else self._found.get(name)

    def misnamed(self, names: Iterable[str]) -> dict[str, str]:
        """Return the names that match no tool of the connected server, with reasons."""
        found = self._found
        if found is None:
            return {}
        return {
            name: f"the server has no such tool{suggest(name, found)}"
            for name in names
            if not any(names_tool(name, tool) for tool in found)
        }

    def doubt(self, name: str) -> Doubt | None:
        """Return the reason to ask a person about a tool, or None."""
        found = self.found(name)
        approved = self._approved.get(name)
        if found is None or (approved is not None and approved.digest == found.digest):
            return None
        return Doubt(found, approved)

    def doubts(self) -> tuple[Doubt, ...]:
        return tuple(
            doubt for name in sorted(self._found or ()) if (doubt := self.doubt(name)) is not None
        )

    def meet(self, tools: Iterable[Definition]) -> None:
        with self._lock:
            # An unchanged definition is kept once, because a server may have thousands.
            same = {each: each for each in self._approved.values()}
            self._found = {tool.name: same.get(tool, tool) for tool in tools}
            self._approve(self._taken(self._found))

    def asks(self, call: CallKey, name: str) -> Doubt | None:
        """Return the doubt about a call, and remember it."""
        doubt = self.doubt(name)
        if doubt is not None:
            with self._lock:
                self._asked.setdefault(call, doubt.found.digest)
                while len(self._asked) > REMEMBERED:
                    self._asked.popitem(last=False)
        return doubt

    def settles(self, call: CallKey, name: str) -> bool:
        """Tell whether a call may proceed; approve the tool that a person was asked about."""
        with self._lock:
            asked = self._asked.pop(call, None)
        doubt = self.doubt(name)
        if doubt is None:
            return True
        if asked != doubt.found.digest:
            return False
        with self._lock:
            self._approve({name: doubt.found})
        return True

    def accept(self) -> None:
        with self._lock:
            self._approve(self._found or {})

    def _taken(self, found: Mapping[str, Definition]) -> Mapping[str, Definition]:
        # Each is remembered for good, and a server may rename its tools without end.
        few_gone = len(self._approved.keys() - found.keys()) < GONE
        if self._trust == "always":
            return found
        if self._trust == "ask" or not few_gone:
            return {}
        return {name: found[name] for name in found.keys() - self._approved.keys()}

    def _approve(self, tools: Mapping[str, Definition]) -> None:
        # Gone tools stay, so that a tool that comes back changed is not taken as new.
        after = dict(tools) if self._trust == "always" else {**self._approved, **tools}
        if after != self._approved:
            self._approved = after
            self._pins.keep(self._server, after)


# --- The policy


SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class DoubtPolicy(Stateless):
    """Lets a person decide on changed or new tools."""

    wants_params: ClassVar = False

    name: str
    standing: Standing

    def check(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the contract's signature
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        own = tool.wire_name or tool.name
        doubt = self.standing.asks(call_key(context), own)
        if doubt is None:
            return PolicyDecision.allow()
        told = f"{tool.name} of the MCP server {tool.origin}"
        said = one_line(doubt.found.description, SHOWN)
        if doubt.approved is None:
            return PolicyDecision.ask(f"{told} is new. It says of itself: {said}")
        told += f" has changed since it was approved: {', '.join(doubt.changes)}."
        now = f" It now says of itself: {said}" if "description" in doubt.changes else ""
        return PolicyDecision.ask(f"{told}{now}")
