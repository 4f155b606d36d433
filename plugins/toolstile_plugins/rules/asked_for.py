"""The policy on the user's request: tools that the request must mention."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from toolstile_hookspecs import DefinitionError, PolicyDecision, Tool, ToolContext, ToolResult
from toolstile_hookspecs.selectors import ToolSelector
from toolstile_hookspecs.support.patterns import bounded
from toolstile_plugins.policies.checks import (
    Otherwise,
    check_fields,
    entries_for,
    objection,
    refuse_none,
)

NO_REQUEST = "no request was given, so the wishes of the user are unknown"


@dataclass(frozen=True, kw_only=True)
class AskedForPolicy:
    """Lets tools be called if a turn of the request mentions their purpose.

    Args:
        words: From a tool, also as a glob, to a pattern of RE2. It is searched for in each turn,
            in letters of either case, with white space as single spaces.
        otherwise: The decision if no turn has it, or without a request: a person decides (`ask`),
            or the call is denied (`deny`).
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When a pattern is not one of RE2, or matches any text.

    Example:
        >>> AskedForPolicy(words={"send_email": "send|e-?mail .* to"}, otherwise="deny").name
        ''
    """

    wants_params: ClassVar = False

    words: Mapping[str, str]
    otherwise: Otherwise = "ask"
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_none(self, "words")
        for tool, pattern in self._patterns.items():
            if pattern.search(""):
                raise DefinitionError(
                    f"AskedForPolicy: words: the pattern of {tool!r} matches any text, so "
                    "the policy would allow everything; write words that the user must say."
                )

    @cached_property
    def _patterns(self) -> Mapping[str, Any]:
        made: dict[str, Any] = {}
        for tool, pattern in self.words.items():
            try:
                made[tool] = bounded(f"(?i){pattern}")
            except ValueError as error:
                raise DefinitionError(
                    f"AskedForPolicy: words: the pattern of {tool!r} is not one of RE2: {error}. "
                    "Correct it; look-around and back-references are not known there."
                ) from None
        return made

    @property
    def selector(self) -> ToolSelector:
        """The governed tools."""
        return ToolSelector(tools=frozenset(self.words))

    def check(
        self,
        tool: Tool[Any, Any],
        params: Any,
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        """Allow if a turn has the words of the tool."""
        patterns = entries_for(tool, self._patterns)
        turns = (unicodedata.normalize("NFC", turn.text) for turn in context.request)
        texts = [" ".join(text.split()) for text in turns]
        if any(pattern.search(text) for pattern in patterns for text in texts):
            return PolicyDecision.allow()
        why = "the request does not ask for it" if texts else NO_REQUEST
        return objection(tool, why, self.otherwise, "here")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing: the policy has no state."""
