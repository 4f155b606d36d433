"""The base and the fields of policies, and tools that are named in policies."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile_hookspecs import (
    DefinitionError,
    HostHandle,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolPolicy,
    ToolResult,
    ToolSelector,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.selectors import fits

log = logging.getLogger("toolstile.policies")

_TYPE: Final = re.compile(r"\.(?:dict|set|frozenset)\[.*\](?=: )")
Count = Annotated[int, Field(strict=True)]
"""A number of calls."""
Seconds = Annotated[float, Field(strict=True)]
"""A time in seconds, whole or not."""
Amount = Annotated[float, Field(strict=True)]
"""An amount of anything, whole or not."""


Otherwise = Literal["ask", "deny"]


def check_fields(policy: Any) -> None:
    """Raise `DefinitionError` for the first field of a policy that has another type."""
    given = {field.name: getattr(policy, field.name) for field in fields(policy)}
    try:
        _adapter(policy.__class__).validate_python(given)
    except ValidationError as error:
        # Name a field of several types without the types.
        told = _TYPE.sub("", first_fault(error))
        raise DefinitionError(f"{type(policy).__name__}: {told}.") from None


@cache
def _adapter(type_: type[Any]) -> TypeAdapter[Any]:
    hints = get_type_hints(type_, include_extras=True)
    types = {field.name: hints[field.name] for field in fields(type_)}
    return TypeAdapter(TypedDict(type_.__name__, types))  # type: ignore[operator]


T = TypeVar("T")


def entries_for(tool: Tool[Any, Any], entries: Mapping[str, T]) -> list[T]:
    """Return the entry of a tool's name, or its wire name; otherwise of the globs that match."""
    own = [entries[name] for name in tool.policy_names if name in entries]
    return own[:1] or [entry for name, entry in entries.items() if fits(tool, name)]


def objection(tool: Tool[Any, Any], why: str, otherwise: Otherwise, way: str) -> PolicyDecision:
    """Return the decision on a call that the user may not want; `way` is like `here`."""
    if otherwise == "ask":
        return PolicyDecision.ask(f"A person decides on {tool.label}: {why}.")
    return PolicyDecision.deny(
        f"{tool.label} cannot be called {way}: {why}. Continue without it, and tell the user "
        "that it was left undone."
    )


def refuse_none(policy: Any, *fields: str) -> None:
    """Raise `DefinitionError` for a field that names no tool: the policy would rule nothing."""
    for field in fields:
        value = getattr(policy, field)
        if value is not None and not value:
            raise DefinitionError(
                f"{type(policy).__name__}: {field}: it names none, so nothing would be ruled; "
                "name some, or leave it out."
            )


def rules_over(host: HostHandle, tool: Tool[Any, Any]) -> list[str]:
    """Return the names of the host's policies that check calls of a tool."""
    return [policy.name for policy in host.policies if _governs(policy, tool)]


def _governs(policy: ToolPolicy, tool: Tool[Any, Any]) -> bool:
    selector, checks = getattr(policy, "selector", None), getattr(policy, "checks", None)
    if isinstance(selector, ToolSelector) and not selector.selects(tool):
        return False
    try:
        return not callable(checks) or checks(tool) is not False
    except Exception:
        # The host keeps such a policy on, too.
        log.exception("checks of policy %s failed; the policy stays on.", policy.name)
        return True


class Stateless:
    """A policy that remembers no success."""

    __slots__ = ()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class SelectingPolicy(Stateless, ToolSelector):
    """A policy on the tools that it selects; it remembers nothing by itself.

    Args:
        tools: The tools it governs, also as globs; by default all.
        tags: Each of these tools has one of these tags.
        servers: Each of these tools comes from one of these servers, or other origins.
        category: Their categories.
        consequence: Their consequences.
        name: The instance's name; made of kind, place and position if not given.
    """

    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        super().__post_init__()

    @property
    def selector(self) -> ToolSelector | None:
        """The governed tools."""
        return self
