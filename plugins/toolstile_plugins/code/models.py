"""The params and the result of `run_python`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

MAX_CODE: Final = 100_000


@dataclass(frozen=True, slots=True)
class RunPython:
    """The params of `run_python`.

    Args:
        code: The script; the value of its last expression is its result.
    """

    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE)]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a script.

    Args:
        value: The value of its last expression as plain data, None where it has none.
        printed: Its printed output.
    """

    value: Any = None
    printed: str = ""

    def render(self) -> str:
        """Return the text for the model."""
        parts = [f"Printed:\n{self.printed.rstrip()}"] if self.printed else []
        if self.value is not None or not parts:
            parts.append(f"Value: {json.dumps(self.value, ensure_ascii=False)}")
        return "\n\n".join(parts)
