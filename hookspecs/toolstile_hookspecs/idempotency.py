"""Idempotency: the declaration by which a repeated call has its effect once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, cast, get_args

Strategy = Literal["auto", "params", "custom", "none"]
OnUnknown = Literal["fail", "retry"]
OnError = Literal["release", "unknown"]


@dataclass(frozen=True, slots=True)
class IdempotencyConfig:
    """The making, the scope and the lifetime of a call's key.

    Args:
        strategy: `auto` hashes all params, `params` the named ones, `custom` asks
            `key_fn`, `none` switches it off.
        ttl: How long a recorded result answers; None never expires.
        scope: `session` (this session's id), `global`, `call` (this session's id and the
            provider's call id), or a name of your own. What has to hold after a restart with
            `session` or `call` needs a session with the same id.
        param_keys: The params that make the key, for `params`.
        key_fn: The function from params to key, for `custom`.
        on_unknown: `fail` refuses a call whose earlier run ended without a record;
            `retry` runs it again.
        on_error: `release` gives the key back when the handler itself failed;
            `unknown` keeps it, for handlers that may fail after their effect.

    A tool that declares it checks it: what a strategy lacks, or has and ignores, is a
    `DefinitionError` that names the tool.

    Example:
        >>> IdempotencyConfig(strategy="params", param_keys=("order_id",)).scope
        'session'
    """

    strategy: Strategy = "auto"
    ttl: timedelta | None = timedelta(hours=24)
    scope: str = "session"
    param_keys: tuple[str, ...] = ()
    key_fn: Callable[[Any], str] | None = None
    on_unknown: OnUnknown = "fail"
    on_error: OnError = "release"

    def faults(self) -> list[str]:
        """Return what is wrong with it, each with its remedy."""
        return [
            *self._choice_faults(),
            *self._key_faults(),
            *self._function_faults(),
            *self._ttl_faults(),
            *self._scope_faults(),
        ]

    def _choice_faults(self) -> list[str]:
        return [
            f"idempotency {name} {value!r} is not one of {', '.join(get_args(kinds))}"
            for name, kinds in _CHOICES.items()
            if (value := getattr(self, name)) not in get_args(kinds)
        ]

    def _key_faults(self) -> list[str]:
        if isinstance(self.param_keys, str):
            return [f"param_keys is one string; write param_keys=({self.param_keys!r},)"]
        if not _are_names(self.param_keys):
            return [f"param_keys {self.param_keys!r} are no names; write param_keys=('field', ...)"]
        if self.strategy == "params" and not self.param_keys:
            return ["idempotency strategy 'params' needs param_keys=('field', ...)"]
        if self.strategy != "params" and self.param_keys:
            return ["param_keys only go with idempotency strategy='params'; remove one of them"]
        return []

    def _function_faults(self) -> list[str]:
        if self.strategy == "custom" and not callable(self.key_fn):
            return [
                "idempotency strategy 'custom' needs key_fn=, a function from params to a string"
            ]
        if self.strategy != "custom" and self.key_fn is not None:
            return ["key_fn only goes with idempotency strategy='custom'; remove one of them"]
        if self.key_fn is not None and not _takes_one(self.key_fn):
            return [
                "key_fn cannot be called with the params alone; write key_fn=lambda params: ..."
            ]
        return []

    def _ttl_faults(self) -> list[str]:
        if self.ttl is None or (isinstance(self.ttl, _DURATION) and self.ttl > timedelta(0)):
            return []
        return [f"idempotency ttl {self.ttl!r} is no positive timedelta; use None for never"]

    def _scope_faults(self) -> list[str]:
        if isinstance(self.scope, _TEXT) and self.scope.strip():
            return []
        return ["idempotency scope must not be empty; use 'session', 'global', 'call' or a name"]


def _are_names(given: Any) -> bool:
    if not isinstance(given, Collection):
        return False
    return all(isinstance(each, str) for each in cast("Collection[object]", given))


def _takes_one(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    except ValueError:  # built-in functions may not tell their signature
        return True
    return True


_CHOICES: Final[dict[str, Any]] = {
    "strategy": Strategy,
    "on_unknown": OnUnknown,
    "on_error": OnError,
}
# What authors give is checked here, whatever the annotations promise.
_DURATION: Final[Any] = timedelta
_TEXT: Final[Any] = str
