"""Records and other sandboxes answer before the plugin does."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from toolstile_hookspecs import Binding, IdempotencyConfig, ToolResult, applies_to, hookimpl
from toolstile_plugins import isolation, ledger
from toolstile_plugins.ledger import EffectLedger, MemoryStore


class Sandbox:
    """Another plugin's sandbox."""

    @hookimpl
    @applies_to(isolation.is_isolated)
    def toolstile_execute(self) -> Any:
        return lambda params, *, context: ToolResult.ok(params.a + 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_another_plugins_sandbox_wins(make_yard: Any, handlers: Any, when: str) -> None:
    yard = make_yard("sync")
    yard.open(handlers.doubled, plugins=(Sandbox(),) if when == "after" else ())
    if when == "before":
        yard.host.unregister("toolstile_plugins.isolation")
        yard.host.register(Sandbox())
        yard.host.register(isolation)

    assert yard.call("doubled", a=41).result.value == 42


@pytest.mark.slow
def test_what_is_recorded_needs_no_second_process(make_yard: Any, handlers: Any) -> None:
    yard = make_yard("sync")
    recorded = dataclasses.replace(handlers.add, idempotency=IdempotencyConfig())
    memory = Binding.instance(EffectLedger, EffectLedger(MemoryStore()))
    yard.open(recorded, plugins=(ledger,), resources=(memory,))

    first, second = yard.call("add", a=1), yard.call("add", a=1)

    assert first.result.value.process != os.getpid()
    assert second.result.value == first.result.value
    assert [each.replayed for each in yard.events] == [False, True]
