"""Masking a call's secrets in the host's messages and logs about the call."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import ToolResult, hide, hide_within, secrets_in, secrets_of
from toolstile_hookspecs.codecs import ValueCodec

if TYPE_CHECKING:
    from toolstile.pipeline.call import ActiveCall


def mask(call: ActiveCall, text: str) -> str:
    """Return the text with every secret of the call masked."""
    return hide(text, secrets_of_call(call))


def note_secrets(call: ActiveCall, value: object, codec: ValueCodec) -> None:
    """Note the secrets in a call's value, which the codec of its type knows."""
    try:
        # The JSON form may not have been made so far.
        plain = json.loads(codec.encode(value) if call.data is None else call.data)
    except (ValueError, TypeError, RecursionError):
        plain = value
    found = [*secrets_in(value), *secrets_of(plain, codec.secret_schema())]
    # Of a masked field, the mask is found.
    call.result_secrets = tuple(each for each in found if each.strip("*"))


def holds_secrets(call: ActiveCall, *written: str | bytes | None) -> bool:
    """Tell whether anything in the texts is a secret of the call."""
    secrets = secrets_of_call(call)
    if not secrets:
        return False
    texts = [each.decode() if isinstance(each, bytes) else each or "" for each in written]
    return any(hide(each, secrets) != each for each in texts)


def without_masked(
    result: ToolResult[Any], changes: str | None
) -> tuple[ToolResult[Any], str | None]:
    """Return a result, and the changes of its call, without the secrets that its JSON masks.

    A later reader has the mask only, and could not tell them apart from other words.
    """
    secrets = tuple(secrets_in(result.value))
    message = hide(result.message, secrets)
    if message != result.message:
        result = replace(result, message=message)
    if changes is not None:
        changes = json.dumps(hide_within(json.loads(changes), secrets))
    return result, changes


def log_failure(
    call: ActiveCall,
    log: logging.Logger,
    message: str,
    *args: object,
    extra: Mapping[str, object] | None = None,
) -> None:
    """Log the exception that is being handled, with its traceback and without secrets."""
    text = mask(call, f"{message % args}\n{traceback.format_exc().rstrip()}")
    log.error("%s", text, extra=extra)


def secrets_of_call(call: ActiveCall) -> list[str]:
    """Return the secrets in a call's params and value, and its user's credentials."""
    found = [*call.result_secrets]
    if call.params is not None and call.plan is not None:
        # Nothing that can be shared is of a type that hides its value.
        if not call.plan.shares_params:
            found += secrets_in(call.params)
        if schema := call.plan.tool.params_codec.secret_schema():
            found += secrets_of(json.loads(call.arguments), schema)
    if call.executor.auth is not None:
        found += secrets_in(call.executor.auth)
    return found
