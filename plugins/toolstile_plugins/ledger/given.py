"""Results that a person or a program gives to be recorded, with no more secrets than a call's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Never

from toolstile_hookspecs import LedgerError, Tool, ToolValidationError, hide, secrets_in, secrets_of
from toolstile_hookspecs._schema.serialize import why_unwritable
from toolstile_hookspecs._schema.validation_errors import in_one_line
from toolstile_hookspecs.services.ledger import RecordedResult


def read_result(
    message: str, value: str | None, tool: Tool[object, object] | None
) -> RecordedResult:
    """Return a result as it is recorded, checked as far as its tool is known.

    Args:
        message: Its message.
        value: Its value as JSON, None where there is none.
        tool: The tool, None where nobody offers it.

    Raises:
        LedgerError: The value is no JSON, or the tool cannot return it.
    """
    if value is None:
        return RecordedResult(message)
    try:
        plain = json.loads(value, parse_constant=_refuse, parse_float=_finite)
        if tool is None:
            return RecordedResult(message, value.encode())
        typed = tool.result_codec.decode(value)
        written = tool.result_codec.encode(typed)
        tool.result_codec.decode(written)
    except ToolValidationError as error:
        raise _misfit(in_one_line(error)) from error
    except (ValueError, RecursionError) as error:
        raise _misfit(why_unwritable(error)) from error
    shown = secrets_of(plain, tool.result_codec.secret_schema())
    return with_masks(RecordedResult(message, written), masked=secrets_in(typed), others=shown)


def with_masks(
    result: RecordedResult, *, masked: Iterable[str], others: Iterable[str]
) -> RecordedResult:
    """Return a result whose message tells no secret that its value masks.

    Args:
        result: The result.
        masked: The secrets that are masked in its value. Whoever reads that again could not tell
            them apart from other words.
        others: Secrets that stay where they are; what holds one is shown to nobody.
    """
    message = hide(result.message, masked)
    # Of a masked field, the mask may have been given.
    secrets = [each for each in others if each.strip("*")]
    texts = (message, (result.value or b"").decode())
    holds_secret = any(hide(each, secrets) != each for each in texts)
    return result._replace(message=message, secret=holds_secret)


def _misfit(reason: str) -> LedgerError:
    return LedgerError(f"The value does not fit: {reason}. Nothing was resolved.")


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _refuse(number: str) -> Never:
    msg = f"{number} is no finite number"
    raise ValueError(msg)
