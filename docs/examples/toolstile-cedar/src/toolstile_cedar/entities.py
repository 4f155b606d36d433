"""Cedar's entities of a call: the principal, the action and the tool."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import cedarpy

from toolstile_hookspecs import Tool, ToolContext

Uid = Mapping[str, str]
Entity = dict[str, Any]

ANONYMOUS: Final = {"type": "Anonymous", "id": "anonymous"}
TOOL: Final = "Tool"
CATEGORIES: Final = ("read", "write", "delete", "side_effect")


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a call runs.

    Args:
        user_id: The user, None where nobody is known.
        groups: The groups that the user's credentials name.
    """

    user_id: str | None
    groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, context: ToolContext, groups_claim: str | None) -> Caller:
        """Return for whom a call runs, with the groups that one claim of the credentials lists."""
        claims = context.auth.reveal() if context.auth is not None and groups_claim else None
        listed = claims.get(groups_claim) if isinstance(claims, Mapping) else None
        groups = cast("list[object]", listed) if isinstance(listed, (list, tuple)) else []
        return cls(context.user_id, frozenset(each for each in groups if isinstance(each, str)))

    @property
    def uid(self) -> Uid:
        """The principal; an unknown one is of another type, and so nobody's namesake."""
        return ANONYMOUS if self.user_id is None else {"type": "User", "id": self.user_id}

    def entity(self) -> Entity:
        """Return the principal's entity."""
        parents = [{"type": "Group", "id": name} for name in sorted(self.groups)]
        return {"uid": self.uid, "attrs": {}, "parents": parents}


@dataclass(frozen=True, slots=True)
class Called:
    """The called tool.

    Args:
        name: The tool.
        category: Its category, the action group that it is in.
        consequence: What it may lead to.
        tags: Its tags.
    """

    name: str
    category: str
    consequence: str
    tags: tuple[str, ...]

    @classmethod
    def of(cls, tool: Tool[Any, Any]) -> Called:
        """Return what a call of the tool calls."""
        return cls(tool.name, tool.category, tool.consequence, tool.tags)

    @property
    def action(self) -> Uid:
        """The action: one for each tool."""
        return {"type": "Action", "id": self.name}

    @property
    def resource(self) -> Uid:
        """The resource: the tool."""
        return {"type": TOOL, "id": self.name}

    @property
    def passes_for_a_category(self) -> bool:
        """True where its action would be the group of another category."""
        return self.name in CATEGORIES and self.name != self.category

    def tool_entity(self) -> Entity:
        """Return the tool's entity."""
        attrs = {
            "category": self.category,
            "consequence": self.consequence,
            "tags": list(self.tags),
        }
        return {"uid": self.resource, "attrs": attrs, "parents": []}

    def action_entity(self) -> Entity:
        """Return the action's entity, within the group of its category."""
        parents = [{"type": "Action", "id": self.category}] if self.name not in CATEGORIES else []
        return {"uid": self.action, "attrs": {}, "parents": parents}


class World:
    """The entities of a file, and those that calls add to them.

    Args:
        file: The file, as Cedar writes entities in JSON; none if None.
        schema: What they have to fit; actions are then the schema's.

    Raises:
        ValueError: Naming the file and what is wrong with it.
    """

    def __init__(self, file: Path | None, schema: cedarpy.Schema | None) -> None:
        self._schema = schema
        known = _read(file, schema)
        self._tools = {key: each for key, each in known.items() if key[0] == TOOL}
        self._others = {key: each for key, each in known.items() if key[0] != TOOL}
        self._base = self._parsed(self._others.values())
        self.around = functools.lru_cache(maxsize=256)(self._around)

    def _around(self, caller: Caller, called: Called) -> cedarpy.Entities:
        """Return the entities for a call; kept for the next one like it."""
        tool, principal = called.tool_entity(), caller.entity()
        added = [_merged(self._tools.get(_key(tool)), tool)]
        if self._schema is None:
            added.append(called.action_entity())
        there = self._others.get(_key(principal))
        if there is None:
            added.append(principal)
        elif caller.groups:
            others = {**self._others, _key(principal): _merged(there, principal)}
            return self._parsed([*others.values(), *added])
        return self._base.with_added_json_str(json.dumps(added), self._schema)

    def _parsed(self, entities: Iterable[Entity]) -> cedarpy.Entities:
        return cedarpy.Entities.from_json_str(json.dumps(list(entities)), self._schema)


def _read(file: Path | None, schema: cedarpy.Schema | None) -> dict[tuple[str, str], Entity]:
    if file is None:
        return {}
    try:
        entities = cedarpy.Entities.from_json_str(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(
            f"{file}: not a list of Cedar entities, each with uid, attrs and parents ({error})."
        ) from None
    # As Cedar writes them: there are several ways to write an entity's name.
    known: list[Entity] = json.loads(str(entities))
    faults = [fault for each in known if (fault := _misfit(each, schema)) is not None]
    if faults:
        raise ValueError(f"{file}: {' '.join(faults)}")
    return {_key(each): each for each in known}


def _misfit(entity: Entity, schema: cedarpy.Schema | None) -> str | None:
    kind, name = _key(entity)
    if kind == TOOL:
        return None  # what is known of a tool completes it
    try:
        cedarpy.Entities.from_json_str(json.dumps([entity]), schema)
    except ValueError as error:
        return f"{kind}::{json.dumps(name)} does not fit the schema ({error})."
    return None


def _key(entity: Entity) -> tuple[str, str]:
    uid = entity["uid"]
    named = uid.get("__entity", uid)
    return named["type"], named["id"]


def _merged(there: Entity | None, added: Entity) -> Entity:
    """Return an entity of the file with what a call knows better."""
    if there is None:
        return added
    attrs = {**there.get("attrs", {}), **added["attrs"]}
    return {**there, "attrs": attrs, "parents": [*there.get("parents", []), *added["parents"]]}
