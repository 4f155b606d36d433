"""Idempotency: the declaration that a repeated call has its effect once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final, Literal

from toolstile_hookspecs._tools.field_checks import call_fault, type_faults
from toolstile_hookspecs.results import ToolResult

Strategy = Literal["auto", "params", "custom", "none"]
OnUnknown = Literal["fail", "retry"]
OnError = Literal["release", "unknown"]

_NEEDED: Final = {
    "params": "param_keys=('field', ...)",
    "custom": "key_fn=, a function to a string",
}


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The finding of a `reconcile` about an unknown effect.

    Args:
        has_happened: Whether the effect has happened; None if still unknown.
        result: The result for later calls, if it has happened.
        reason: Why it is still unknown, for a person.

    Example:
        >>> Reconciled.happened({"number": 7}).has_happened
        True
        >>> Reconciled.cannot_tell("The shop does not answer.").has_happened is None
        True
    """

    has_happened: bool | None
    result: ToolResult[Any] | None = None
    reason: str = ""

    @classmethod
    def happened(cls, result: Any = None) -> Reconciled:
        """Return that it has happened, with a result, or a value as the handler returns it."""
        is_result = issubclass(result.__class__, ToolResult)
        return cls(has_happened=True, result=result if is_result else ToolResult.ok(result))

    @classmethod
    def did_not(cls) -> Reconciled:
        """Return that it has not happened, and will not any more: the next call runs."""
        return cls(has_happened=False)

    @classmethod
    def cannot_tell(cls, reason: str) -> Reconciled:
        """Return that it is still unknown; `reconcile` is called again later."""
        return cls(has_happened=None, reason=reason)


Reconcile = Callable[[Any, str, Any], Reconciled | Awaitable[Reconciled]]
"""A function of an effect's params, its key and a `ToolContext`, sync or async."""


@dataclass(frozen=True, slots=True)
class IdempotencyConfig:
    """The making, the scope and the lifetime of a call's key.

    Args:
        strategy: `auto` hashes all params, `params` the named ones, `custom` asks
            `key_fn`, `none` switches it off.
        ttl: How long a recorded result answers; None never expires.
        scope: `session` (this session's id), `global`, `call` (this session's id and the
            host's id of the call), or another name. After a restart, `session` and `call` need a
            session with the same id.
        param_keys: The params that make the key, for `params`.
        key_fn: The function from params to key, for `custom`.
        same_params: Whether a call with the same key and other params is refused; else the
            recorded result answers it.
        version: Whether the major number of the tool's version makes the key, too, so that no
            result of an older one answers.
        reconcile: The function `(params, key, context)` that finds out whether a call without a
            record had its effect; it only reads. The params are kept until there is a record.
        on_unknown: `fail` refuses a call whose earlier run ended without a record;
            `retry` runs it again.
        on_error: `release` gives the key back after each failure of the handler itself,
            `unknown` after none. Unset, a failure that the handler returns or raises as
            `ToolError` gives the key back, and an exception if it shows that nothing was sent;
            after others the effect is unknown with `reconcile`, and if an answer was lost.

    A missing or ignored option of a strategy is a `DefinitionError` that names the tool.

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
    on_error: OnError | None = None
    same_params: bool = False
    version: bool = False
    reconcile: Reconcile | None = None

    def faults(self) -> list[str]:
        """Return the faults, each with its remedy."""
        if typed := type_faults(self, IdempotencyConfig, [field.name for field in fields(self)]):
            return [f"idempotency {fault}" for fault in typed]
        faults: list[str] = []
        for strategy, needed in _NEEDED.items():
            name = needed.partition("=")[0]
            if self.strategy == strategy and not getattr(self, name):
                faults.append(f"idempotency strategy {strategy!r} needs {needed}")
            if self.strategy != strategy and getattr(self, name):
                only = f"{name} only goes with idempotency strategy={strategy!r}"
                faults.append(f"{only}; remove one of them")
        if not faults and self.key_fn is not None and call_fault(self.key_fn, None):
            faults.append(
                "key_fn cannot be called with params alone; write key_fn=lambda params: ..."
            )
        if self.reconcile is not None and call_fault(self.reconcile, None, "", None):
            takes = "params, key and context; write def reconcile(params, key, context): ..."
            faults.append(f"reconcile cannot be called with {takes}")
        if self.reconcile is not None and self.on_unknown == "retry":
            faults.append("reconcile only goes with on_unknown='fail'; remove one of them")
        if self.ttl is not None and self.ttl <= timedelta(0):
            faults.append(f"idempotency ttl {self.ttl!r} is not positive; use None for never")
        if not self.scope.strip():
            faults.append("idempotency scope is empty; use 'session', 'global', 'call' or a name")
        return faults
