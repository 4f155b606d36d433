"""Tools that depend on the other tools of the prompt that they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from toolstile_hookspecs.tools import Tool


class SupportsPrompt(Protocol):
    """An optional part of a `Tool`: it fits itself to its prompt, such as one that runs code.

    The host asks for it whenever it offers a prompt, also one that it has fitted before.
    """

    def within(self, tools: Sequence[Tool[Any, Any]]) -> Tool[Any, Any]:
        """Return the tool as it is among the tools that a prompt offers, itself included."""
        ...
