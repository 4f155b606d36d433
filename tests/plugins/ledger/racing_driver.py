"""One of several processes: eight threads that call every key in an order of their own.

Prints one line of JSON: what each thread was told under each key.
"""

from __future__ import annotations

import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import toolstile_plugins.ledger as ledger_plugin
from toolstile import Host, Session
from toolstile_hookspecs import Binding, IdempotencyConfig, MarkdownSection, Prompt, ToolCall, tool
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

THREADS = 8
place, effects, keys, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


@tool(idempotency=IdempotencyConfig(scope="global"), timeout=None)
def act(key: int) -> str:
    """Have an effect that is counted outside of the ledger, one line each, never torn."""
    number = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(number, f"{key}\n".encode())
    os.close(number)
    return f"{key} by {os.getpid()}, {random.random()}"


def work(number: int) -> dict[str, str]:
    order = list(range(keys))
    random.Random(f"{seed} {number}").shuffle(order)
    told = {}
    with host.executor(
        session=Session(), prompt=prompt, resources=(Binding.instance(EffectLedger, ledger),)
    ) as tools:
        for key in order:
            outcome = tools.dispatch(ToolCall("act", {"key": key}))
            told[str(key)] = outcome.text
    return told


store = PostgresStore(place) if place.startswith("postgresql:") else SqliteStore(place)
ledger = EffectLedger(store, wait=120)
prompt = Prompt.of("tests", "race", (MarkdownSection(key="t", title="T", tools=[act]),))
with Host(discover=False, plugins=[ledger_plugin]) as host, ThreadPoolExecutor(THREADS) as pool:
    told = list(pool.map(work, range(THREADS)))
ledger.shut()
sys.stdout.write(json.dumps(told) + "\n")
