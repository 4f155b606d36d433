"""Arguments given in Python, as the JSON that a model would have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from toolstile_hookspecs._schema.codec import Json
from toolstile_hookspecs._schema.serialize import strange_values, why_unwritable
from toolstile_hookspecs._schema.validation_errors import listing, not_json
from toolstile_hookspecs.errors import ToolValidationError

_ENCODER: Final = json.JSONEncoder(allow_nan=False)


def as_json(arguments: object) -> Json:
    """Return arguments as JSON text; a mapping is encoded as a provider would have.

    What is no mapping is encoded as it is, so that it is refused for what it is.

    Raises:
        ToolValidationError: When it holds what JSON cannot say.
    """
    if isinstance(arguments, (str, bytes)):
        return arguments
    plain = arguments
    if isinstance(arguments, Mapping):
        plain = dict(cast("Mapping[str, Any]", arguments))
    try:
        return _ENCODER.encode(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolValidationError(_why_not_json(plain, error)) from None


def _why_not_json(plain: object, error: Exception) -> str:
    try:
        strange = list(strange_values(plain))
    except RecursionError:
        strange = []
    return listing(strange) if strange else not_json(why_unwritable(error))
