"""The tools of a wrapped server: pinned, and asked about unless they only read."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import mcp_types as types

from toolstile_hookspecs import (
    NOTICE,
    DefinitionError,
    MarkdownSection,
    PolicyDecision,
    Tool,
    ToolContext,
    hookimpl,
)
from toolstile_hookspecs.selectors import CONSEQUENCES
from toolstile_hookspecs.tools import Category
from toolstile_plugins.mcp.gateway.errors import is_plain, one_line, told
from toolstile_plugins.mcp.gateway.gateway import LONGEST_NAME
from toolstile_plugins.mcp.gateway.tools import (
    PARTS,
    Call,
    Definition,
    category_of,
    definition_of,
    make_tool,
)
from toolstile_plugins.mcp.gateway.trust import DoubtPolicy, Pins, Standing
from toolstile_plugins.mcp.settings import ServerSettings, names_tool, tool_name

log = logging.getLogger("toolstile.mcp")

Json = dict[str, Any]

# --- The effect of a tool

_VERBS: Final[Mapping[Category, str]] = {
    "read": """
        check compare count describe fetch find get grep inspect list lookup peek read search show
        stat view""",
    "write": """
        add append apply archive assign checkout close commit copy create disable edit enable import
        insert install lock make merge migrate modify move patch put rename replace restore rollback
        save set store sync toggle unlock update upgrade upload upsert write""",
    "side_effect": """
        approve block book broadcast buy call cancel deploy dispatch email eval exec execute forward
        grant invite invoke launch mail message notify order pay post publish push refund reject
        reply restart run schedule send share spawn start stop submit transfer trigger""",
    "delete": """
        clear delete destroy drop erase kill overwrite purge remove reset revert revoke rm terminate
        truncate uninstall unlink wipe""",
}
"""The verbs of each category, from the least effect to the worst."""
_NOUNS: Final = """
    archive block book call commit email import invite lock mail message order patch post reply run
    schedule set share start stop store transfer trigger update upgrade"""
# Behind a verb that reads, as in `get_message`, these may be nouns.
_CATEGORY: Final[Mapping[str, Category]] = {
    verb: category for category, verbs in _VERBS.items() for verb in verbs.split()
}
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_EFFECT: Final[Mapping[Category, str]] = {
    "delete": "may delete or overwrite",
    "write": "may write",
    "side_effect": "may have effects elsewhere",
}


def effect_of(definition: Definition, settings: ServerSettings) -> Category:
    """Return the category of a tool by its hints and the worst verb of its name.

    Because a server may call a tool harmless whose name says that it deletes, a tool only reads if
    neither says otherwise. Without both, the effect is unknown, which counts as a side effect.
    """
    hinted = category_of(definition, settings)
    verbs = [word for word in map(str.lower, _WORD.findall(definition.name)) if word in _CATEGORY]
    if hinted == "read" and verbs and _CATEGORY[verbs[0]] == "read":
        verbs = [word for word in verbs if word not in _NOUNS.split()]
    found: set[Category] = {_CATEGORY[word] for word in verbs}
    named = max(found, key=[*_VERBS].index, default=None)
    has_hints = bool({"readOnlyHint", "destructiveHint"} & definition.annotations.keys())
    if named is None or (has_hints and (named == "read" or hinted != "read")):
        return hinted
    return named


@dataclass(frozen=True, slots=True)
class EffectPolicy(DoubtPolicy):
    """Asks a person about changed tools, and about tools with effects unless they are allowed."""

    allowed: Sequence[str] = ()

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        decision = DoubtPolicy.check(self, tool, params, context=context)
        named = any(names_tool(glob, tool.wire_name or tool.name) for glob in self.allowed)
        if tool.category == "read" or named or decision != PolicyDecision.allow():
            return decision
        effect = _EFFECT[tool.category]
        return PolicyDecision.ask(f"{tool.name} of the MCP server {tool.origin} {effect}.")


# --- The tools of a server


_WIRE: Final = {"input_schema": "inputSchema", "output_schema": "outputSchema"}


class WrappedTools:
    """The plugin with the tools of one server; `call` sends a call to the server."""

    def __init__(
        self, name: str, settings: ServerSettings, pins: Pins, allowed: Sequence[str], call: Call
    ) -> None:
        self.name = name
        self.settings = settings
        self.standing = Standing(name, "first_use", pins)
        self.listed: Sequence[object] = ()  # as the server lists them
        self._raw: dict[str, Json] = {}
        self._policy = EffectPolicy("wrapped/effect", self.standing, allowed)
        self._call = call
        self._made: dict[str, tuple[Definition, Tool[Any, Any]]] = {}

    def meet(self, listed: Iterable[object]) -> None:
        """Take over the tools as the server lists them now; tools that do not fit are left out."""
        self.listed = [*listed]
        found: dict[str, Definition] = {}
        self._raw = {}
        for each in self.listed:
            try:
                definition = definition_of(types.Tool.model_validate(each, by_name=False))
                found.setdefault(definition.name, definition)
                self._raw.setdefault(definition.name, cast("Json", each))
            except (RecursionError, ValueError) as error:
                self._leave_out(str(each), told(error))
        self.standing.meet(found.values())
        before, self._made = self._made, {}
        names: set[str] = set()
        for definition in self.standing.shown():
            name = tool_name("", definition.name)
            is_odd = not is_plain(definition.name) or len(definition.name) > LONGEST_NAME
            if is_odd or name in names:
                self._leave_out(definition.name, "its name is taken, too long or cannot be seen")
                continue
            names.add(name)
            try:
                known = before.get(definition.name)
                tool = known[1] if known and known[0] == definition else self._make(definition)
                self._made[definition.name] = definition, tool
            except (DefinitionError, RecursionError, ValueError) as error:
                self._leave_out(definition.name, str(error))

    def _make(self, definition: Definition) -> Tool[Any, Any]:
        name, category = tool_name("", definition.name), effect_of(definition, self.settings)
        tool = make_tool(name, self.name, self.settings, definition, self._call)
        return replace(tool, category=category, consequence=CONSEQUENCES[category])

    def _leave_out(self, tool: str, why: str) -> None:
        shown = one_line(tool, 80), self.name, one_line(why).rstrip(".")
        log.warning("The tool %s of MCP server %s is left out: %s.", *shown, extra=NOTICE)

    def name_here(self, name: str) -> str | None:
        """Return the name here of a server's tool, None if it is unknown.

        A similar name must not do, because the server would get it in a call that another tool's
        rules have let pass.
        """
        return self._made[name][1].name if name in self._made else None

    def shown(self) -> list[Json]:
        """Return the tools for the client in the server's order, changed ones as approved."""
        return [
            _as_approved(raw, self._made[name][0]) if self.standing.doubt(name) else raw
            for name, raw in self._raw.items()
            if name in self._made
        ]

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        title = f"Tools of {one_line(self.name, 60)}"
        tools = tuple(tool for _, tool in self._made.values())
        if not tools:
            return []
        return [MarkdownSection(key="wrapped", title=title, tools=tools, policies=[self._policy])]


def _as_approved(raw: Json, approved: Definition) -> Json:
    """Return a tool with all that a model sees of it as a person has approved it."""
    names = {part: _WIRE.get(part, part) for part in PARTS}
    kept = {key: value for key, value in raw.items() if key not in names.values()}
    parts = {names[part]: getattr(approved, part) for part in PARTS}
    return kept | {key: value for key, value in parts.items() if value or key == "inputSchema"}
