"""What a tool declares so that a repeated call has its effect once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from toolyard_hookspecs.errors import DefinitionError

Strategy = Literal["auto", "params", "custom", "none"]
STRATEGIES = ("auto", "params", "custom", "none")


@dataclass(frozen=True, slots=True)
class IdempotencyConfig:
    """How the key of a call is made, where it holds and for how long.

    Args:
        strategy: `auto` hashes all params, `params` the named ones, `custom` asks
            `key_fn`, `none` switches it off.
        ttl: How long a recorded result answers; None never expires.
        scope: `session` (this session's id), `global`, `call` (the provider's call id),
            or a name of your own.
        param_keys: The params that make the key, for `params`.
        key_fn: The function from params to key, for `custom`.
        on_unknown: `fail` refuses a call whose earlier run ended without a record;
            `retry` runs it again.
        on_error: `release` gives the key back when the handler itself failed;
            `unknown` keeps it, for handlers that may fail after their effect.

    Raises:
        DefinitionError: When the strategy lacks what it needs, or has what it ignores.

    Example:
        >>> IdempotencyConfig(strategy="params", param_keys=("order_id",)).scope
        'session'
    """

    strategy: Strategy = "auto"
    ttl: timedelta | None = timedelta(hours=24)
    scope: str = "session"
    param_keys: tuple[str, ...] = ()
    key_fn: Callable[[Any], str] | None = None
    on_unknown: Literal["fail", "retry"] = "fail"
    on_error: Literal["release", "unknown"] = "release"

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work."""
        faults = "; ".join(self._faults())
        if faults:
            msg = f"IdempotencyConfig: {faults}."
            raise DefinitionError(msg)

    def _faults(self) -> list[str]:
        faults: list[str] = []
        if self.strategy not in STRATEGIES:
            faults.append(f"strategy {self.strategy!r} is not one of {', '.join(STRATEGIES)}")
        if self.strategy == "params" and not self.param_keys:
            faults.append("strategy 'params' needs param_keys=('field', ...)")
        if self.strategy != "params" and self.param_keys:
            faults.append("param_keys only go with strategy='params'")
        if self.strategy == "custom" and self.key_fn is None:
            faults.append("strategy 'custom' needs key_fn=, a function from params to a string")
        if self.strategy != "custom" and self.key_fn is not None:
            faults.append("key_fn only goes with strategy='custom'")
        if self.ttl is not None and self.ttl <= timedelta(0):
            faults.append("ttl must be positive, or None for never")
        if not self.scope.strip():
            faults.append("scope must not be empty; use 'session', 'global', 'call' or a name")
        return faults
