"""Another tool that says what became of a call, named in the configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from toolstile_hookspecs import Reconciled, Tool, ToolContext, ToolResult, ToolValidationError
from toolstile_hookspecs.codecs import in_one_line
from toolstile_hookspecs.services.ledger import LedgerEntry
from toolstile_plugins.ledger.settings import OtherTool

_SHAPE: Final = (
    '{"happened": true, false or null}, with "value" and "message" where it has happened, and '
    '"reason" where that cannot be told'
)


class Answer(BaseModel):
    """The value of the other tool.

    Args:
        happened: Whether it has happened; None where that cannot be told.
        value: The value that calls get from here on.
        message: Their message.
        reason: Why it cannot be told.
    """

    model_config = ConfigDict(strict=True)

    happened: bool | None
    value: Any = None
    message: str = ""
    reason: str = "It gives no reason."


async def ask_other(
    tool: Tool[Any, Any], other: OtherTool, entry: LedgerEntry, context: ToolContext
) -> Reconciled:
    """Ask another tool what became of an effect of a tool."""
    known: dict[str, Any] = {"key": entry.claim.key}
    if entry.claim.params is not None:
        known["params"] = json.loads(entry.claim.params)
    try:
        arguments = {name: _at(path, known) for name, path in other.arguments.items()}
    except LookupError as error:
        return Reconciled.cannot_tell(f"There is no {error.args[0]} to ask {other.tool} with.")
    outcome = await context.acall(other.tool, arguments)
    if not outcome.success:
        return Reconciled.cannot_tell(f"{other.tool} failed: {outcome.text}")
    try:
        answer = Answer.model_validate_json(outcome.data or b"null")
        if not answer.happened:
            told = Reconciled.cannot_tell(f"{other.tool} cannot tell: {answer.reason}")
            return told if answer.happened is None else Reconciled.did_not()
        value = answer.value
        typed = None if value is None else tool.result_codec.decode(json.dumps(value))
    except ValidationError:
        return Reconciled.cannot_tell(f"The value of {other.tool} has to be {_SHAPE}.")
    except ToolValidationError as error:
        return Reconciled.cannot_tell(f"The value that {other.tool} tells: {in_one_line(error)}.")
    return Reconciled.happened(ToolResult(answer.message, typed))


def _at(path: str, known: object) -> Any:
    """Return the part of the known data that a path such as `params.item` names.

    Raises:
        LookupError: It is not there.
    """
    found = known
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise LookupError(path)
        found = cast("Mapping[str, object]", found)[name]
    return found
