"""What a person is asked: the call, its arguments, why it is asked, what it would change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from toolstile_hookspecs import ApprovalRequest, hide, masked, secrets_of
from toolstile_hookspecs.support.text import printable_lines

FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""Nothing has to be filled in: to accept is to approve, to decline is to deny."""
LONGEST: Final = 8_000
"""Characters of the arguments, and of the diff, that are shown."""
MASK: Final = "***"


def question_of(request: ApprovalRequest) -> str:
    """Return the question, without secrets and without anything that could steer a terminal."""
    schema = request.tool.params_codec.secret_schema()
    arguments: dict[str, Any] = json.loads(request.arguments)
    secrets = [*secrets_of(arguments, schema)]
    return "\n".join(_lines(request, masked(arguments, schema, MASK), secrets))


def _lines(request: ApprovalRequest, arguments: Any, secrets: list[str]) -> Iterator[str]:
    tool = request.tool
    kind = tool.category.replace("_", " ")
    if request.diff is None:
        yield f"Run {tool.name}? ({kind}, {tool.consequence} consequence)"
    else:
        yield f"{tool.name} has run ({kind}, {tool.consequence} consequence). Keep what it did?"
    for reason in request.reasons:
        yield from _shown(hide(reason, secrets))
    yield "Arguments:"
    yield from _shown(json.dumps(arguments, ensure_ascii=False, indent=2))
    if request.diff is not None:
        yield "It would change:"
        yield from _shown(hide(request.diff, secrets))


def _shown(text: str) -> Iterator[str]:
    # Indented, so that no line of it passes for one of the question's own.
    for line in printable_lines(text[:LONGEST]):
        yield f"  {line}"
    if len(text) > LONGEST:
        yield f"  ... and {len(text) - LONGEST:,} more characters that are not shown here"
