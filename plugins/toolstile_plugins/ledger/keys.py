"""What makes two calls the same: the key of a call, and the fingerprint of its params."""

from __future__ import annotations

import json
import os
import re
import secrets
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import Any, Final

from toolstile_hookspecs import IdempotencyConfig, Tool, ToolCall, ToolContext
from toolstile_hookspecs.calls import MadeUpId
from toolstile_plugins.ledger.canonical import canonical_json, encoder, recorded_form

LONGEST_PART: Final = 256
"""The most characters of an id or a scope in a key; of a longer one its hash stands there."""
_BETWEEN_HALVES: Final = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
# Nothing else that makes a key has these: Python writes neither in JSON.
_APART: Final = r"\-"
_SLASH: Final = r"\/"


def keys_of(
    tool: Tool[Any, Any], params: Any, context: ToolContext, effect_id: str
) -> tuple[str, str]:
    """Return the key of a call of a tool that is idempotent, and the hash of all its params.

    Args:
        tool: The tool.
        params: The call's params.
        context: The call's context.
        effect_id: What the call would have the effect as, like no other.

    Raises:
        TypeError: The tool's `key_fn` returned no string.
    """
    config = tool.idempotency
    assert config is not None  # noqa: S101 - others are not asked for
    written = encoder(tool)(params)
    params_hash = sha256(written).hexdigest()
    chosen = params_hash
    if config.strategy != "auto":
        chosen = _hash_of_chosen(tool, config, params, written)
    return f"{_scope(config.scope, context, effect_id)}:{tool.name}:{chosen}", params_hash


def recorded_hash(tool: Tool[Any, Any], params: Any) -> str:
    """Return the hash that equal params have where a program has recorded their effect."""
    return sha256(recorded_form(encoder(tool)(params))).hexdigest()


def _hash_of_chosen(
    tool: Tool[Any, Any], config: IdempotencyConfig, params: Any, written: bytes
) -> str:
    if config.key_fn is not None:
        chosen: Any = config.key_fn(params)
        if not isinstance(chosen, str):
            raise TypeError(
                f"the key_fn of {tool.name} returned {type(chosen).__name__}, not a string"
            )
        return sha256(chosen.encode("utf-8", "surrogatepass")).hexdigest()
    fields = json.loads(written)
    return sha256(
        canonical_json({name: fields.get(name) for name in config.param_keys})
    ).hexdigest()


def _scope(scope: str, context: ToolContext, effect_id: str) -> str:
    if scope == "session":
        return _of_session(context.session.id)
    if scope == "call":
        call_id = _brief(_call_id(context.tool_call, effect_id))
        return f"{_of_calls(context.session.id)}/{call_id}"
    return "global" if scope == "global" else f"name/{_brief(printable(scope))}"


@lru_cache(maxsize=256)
def _of_session(session_id: str) -> str:
    return f"session/{_brief(printable(session_id))}"


@lru_cache(maxsize=256)
def _of_calls(session_id: str) -> str:
    # The first slash as such ends it: what follows is the call's.
    return f"call/{_brief(printable(session_id)).replace('/', _SLASH)}"


@lru_cache(maxsize=256)
def printable_session(session_id: str) -> str:
    """Return a session's id as `printable` does; most calls are of a session just met."""
    return printable(session_id)


def printable(text: str) -> str:
    """Return a text that every store and terminal takes; another text gives another one."""
    if text.isprintable() and "\\" not in text:
        return text
    # JSON writes two halves of a character as it writes the character.
    return _APART.join(json.dumps(each)[1:-1] for each in _BETWEEN_HALVES.split(text))


def _brief(shown: str) -> str:
    """Return what is printable, short enough for the index of any database."""
    if len(shown) <= LONGEST_PART:
        return shown
    # Nothing that `printable` returns begins so.
    return f"\\sha256-{sha256(shown.encode()).hexdigest()}"


def _call_id(call: ToolCall | None, effect_id: str) -> str:
    # An id that nobody gave is met again only by chance: in the next process, say.
    if call is None or call.id.__class__ is MadeUpId:
        return f"{'' if call is None else call.id}-{effect_id}"
    return printable(call.id)


class _Ids:
    """Gives ids that are unique among all processes: random once, then counted."""

    def __init__(self) -> None:
        self.begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Count anew, as nobody else does."""
        self._prefix = secrets.token_hex(11)
        self._numbers = count()

    def next(self) -> str:
        return f"{self._prefix}{next(self._numbers):010x}"


_ids: Final = _Ids()

new_effect_id: Final = _ids.next
"""Return an id that no other effect has: 32 hexadecimal digits."""
