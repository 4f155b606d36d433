"""`toolyard ledger`, as a person and as a program uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolyard_hookspecs.ledger import Claim, EffectState, RecordedResult
from toolyard_plugins.ledger.stores.sqlite import SqliteStore

PLUGIN = '''
import os
from pathlib import Path
from toolyard_hookspecs import IdempotencyConfig, MarkdownSection, hookimpl, tool


@tool(idempotency=IdempotencyConfig(scope="global"))
def order(item: str) -> dict[str, int]:
    """Order something."""
    done = Path("done.txt")
    with done.open("a") as stream:
        stream.write(f"{item}\\n")
    if item == "poison":
        os.kill(os.getpid(), 9)
    return {"number": len(done.read_text().splitlines())}


@hookimpl
def toolyard_sections():
    return [MarkdownSection(key="shop", title="Shop", template="Order.", tools=[order])]
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PLUGIN)
    return tmp_path


def toolyard(folder: Path, *arguments: str, ok: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout + done.stderr


def call(folder: Path, item: str, *, ok: bool = True) -> str:
    arguments = json.dumps({"item": item})
    return toolyard(folder, "call", "--plugin", "shop.py", "--json", "order", arguments, ok=ok)


def test_it_is_the_same_ledger_for_every_process(shop):
    first, second = call(shop, "tea"), call(shop, "tea")
    assert json.loads(first)["data"] == json.loads(second)["data"] == {"number": 1}
    assert "replayed" not in json.loads(first)
    assert json.loads(second)["replayed"] is True
    assert (shop / "done.txt").read_text() == "tea\n"
    assert (shop / ".toolyard" / "ledger.db").exists()


def test_a_run_without_such_tools_makes_no_file(shop):
    toolyard(shop, "tools", "--plugin", "shop.py")
    assert not (shop / ".toolyard").exists()


def test_a_killed_call_is_unknown_until_a_person_resolves_it(shop):
    call(shop, "poison", ok=False)
    told = json.loads(call(shop, "poison", ok=False))["error"]
    assert "may have happened" in told
    assert "requires human intervention" in told
    (entry,) = map(json.loads, toolyard(shop, "ledger", "list", "--json").splitlines())
    assert entry["state"] == "unknown"
    assert entry["key"] in told
    hash_of_key = entry["key"].rpartition(":")[2]
    assert hash_of_key[:12] in toolyard(shop, "ledger", "list", "--state", "unknown")
    assert "Nothing is recorded" in toolyard(shop, "ledger", "list", "--state", "done")
    toolyard(
        shop,
        *("ledger", "resolve", "--plugin", "shop.py", hash_of_key[:12]),
        *("--done", "--message", "Found in the books.", "--value", '{"number": 7}'),
    )
    assert json.loads(call(shop, "poison"))["data"] == {"number": 7}
    assert (shop / "done.txt").read_text() == "poison\n"


def test_or_says_that_it_has_not_happened(shop):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolyard(shop, "ledger", "list", "--json").splitlines())
    toolyard(shop, "ledger", "resolve", entry["key"], "--not-done")
    call(shop, "poison", ok=False)
    assert (shop / "done.txt").read_text() == "poison\npoison\n"


def fill(folder: Path) -> None:
    store = SqliteStore(folder / ".toolyard" / "ledger.db")
    now = datetime.now(UTC)
    for number, (tool, end) in enumerate(
        [("order", now - timedelta(hours=1)), ("order", None), ("pay", now + timedelta(hours=1))]
    ):
        claim = Claim(
            f"global:{tool}:{number}abcdef", tool, "hash", f"{number:032x}", "s", "c", now
        )
        store.claim(claim, now=now)
        store.finish(claim.key, claim.effect_id, RecordedResult("Done.\x1b[31m"), end)
    store.close()


def test_entries_are_listed_shown_pruned_and_removed(shop):
    fill(shop)
    table = toolyard(shop, "ledger", "list")
    assert "(over)" in table
    assert "\x1b" not in table
    assert len(toolyard(shop, "ledger", "list", "--tool", "pay", "--json").splitlines()) == 1
    assert "global:pay:2abcdef" in toolyard(shop, "ledger", "show", "2ab")
    wire = json.loads(toolyard(shop, "ledger", "show", "2ab", "--json"))
    assert (wire["tool"], wire["state"], wire["value"]) == ("pay", EffectState.DONE, None)
    assert toolyard(shop, "ledger", "prune") == "1 removed.\n"
    assert json.loads(toolyard(shop, "ledger", "invalidate", "1abc", "--json")) == {"removed": 1}
    assert toolyard(shop, "ledger", "invalidate", "--tool", "order") == "0 removed.\n"
    assert toolyard(shop, "ledger", "invalidate", "--all") == "1 removed.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "zzz"), "No call has the key 'zzz'"),
        (("resolve", "2ab", "--done"), "nothing to resolve"),
        (("resolve", "2ab"), "--done"),
        (("invalidate",), "required"),
    ],
)
def test_what_cannot_be_done_says_why(shop, arguments, words):
    fill(shop)
    assert words in toolyard(shop, "ledger", *arguments, ok=False)


def test_a_value_that_does_not_fit_the_tool_is_refused(shop):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolyard(shop, "ledger", "list", "--json").splitlines())
    told = toolyard(
        shop,
        *("ledger", "resolve", "--plugin", "shop.py", entry["key"], "--done"),
        *("--value", '{"number": "x"}'),
        ok=False,
    )
    assert "does not fit" in told
    assert "unknown" in toolyard(shop, "ledger", "list")
