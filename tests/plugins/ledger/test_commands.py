"""`toolstile ledger`, as a person and as a program uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolstile_hookspecs.services.ledger import Claim, EffectState, RecordedResult
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

PLUGIN = '''
import os
from pathlib import Path
from pydantic import BaseModel, SecretStr
from toolstile_hookspecs import IdempotencyConfig, MarkdownSection, ToolResult, hookimpl, tool


@tool(idempotency=IdempotencyConfig(scope="global"))
def order(item: str) -> dict[str, int]:
    """Order something."""
    done = Path("done.txt")
    with done.open("a") as stream:
        stream.write(f"{item}\\n")
    if item == "poison":
        os.kill(os.getpid(), 9)
    return {"number": len(done.read_text().splitlines())}


@tool(category="read")
def find_order(item: str) -> dict[str, object]:
    """Find an order."""
    return {"happened": item in Path("done.txt").read_text(), "value": {"number": 7}}


@tool(idempotency=IdempotencyConfig(scope="global"))
def sign_in(password: SecretStr) -> dict[str, str]:
    """Sign in."""
    told = password.get_secret_value()
    return ToolResult.ok({"with": told}, message=f"In with {told}.")


class Badge(BaseModel):
    name: str
    token: SecretStr


@tool(idempotency=IdempotencyConfig(scope="global"))
def mint(name: str) -> Badge:
    """Make a badge."""
    os.kill(os.getpid(), 9)


@hookimpl
def toolstile_sections():
    tools = [order, find_order, sign_in, mint]
    return [MarkdownSection(key="shop", title="Shop", template="Order.", tools=tools)]
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PLUGIN)
    return tmp_path


def toolstile(folder: Path, *arguments: str | bytes, ok: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", *arguments],
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
    return toolstile(folder, "call", "--plugin", "shop.py", "--json", "order", arguments, ok=ok)


def error_in(shown: str) -> str:
    """Return the error that the model reads, without the advice for the operator beside it."""
    envelope = next(line for line in shown.splitlines() if line.startswith("{"))
    error: str = json.loads(envelope)["error"]
    return error


def test_it_is_the_same_ledger_for_every_process(shop):
    first, second = call(shop, "tea"), call(shop, "tea")
    assert json.loads(first)["data"] == json.loads(second)["data"] == {"number": 1}
    assert "replayed" not in json.loads(first)
    assert json.loads(second)["replayed"] is True
    assert (shop / "done.txt").read_text() == "tea\n"
    assert (shop / ".toolstile" / "ledger.db").exists()


def test_a_run_without_such_tools_makes_no_file(shop):
    toolstile(shop, "tools", "--plugin", "shop.py")
    assert not (shop / ".toolstile").exists()


def test_a_killed_call_is_unknown_until_a_person_resolves_it(shop):
    call(shop, "poison", ok=False)
    shown = call(shop, "poison", ok=False)
    told = error_in(shown)
    assert "may have happened" in told
    assert "requires human intervention" in told
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    assert entry["state"] == "unknown"
    assert f"toolstile ledger resolve '{entry['key']}'" in shown
    assert entry["key"] not in told
    hash_of_key = entry["hash"]
    assert hash_of_key[:12] in toolstile(shop, "ledger", "list", "--state", "unknown")
    assert "No done is recorded in" in toolstile(shop, "ledger", "list", "--state", "done")
    toolstile(
        shop,
        *("ledger", "resolve", "--plugin", "shop.py", hash_of_key[:12]),
        *("--done", "--message", "Found in the books.", "--value", '{"number": 7}'),
    )
    assert json.loads(call(shop, "poison"))["data"] == {"number": 7}
    assert (shop / "done.txt").read_text() == "poison\n"


@pytest.mark.long
def test_or_the_tool_that_the_configuration_names_says_it(shop):
    (shop / "toolstile.toml").write_text(
        '[plugins.ledger]\nowner = "the on-call"\nsettle_within = 0.001\n'
        '[plugins.ledger.reconcile.order]\ntool = "find_order"\n'
        'arguments = { item = "params.item" }\n'
    )
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    assert (entry["params"], entry["overdue"], entry["owner"]) == (
        {"item": "poison"},
        True,
        "the on-call",
    )
    assert ", by the on-call" in toolstile(shop, "ledger", "show", entry["key"])
    assert "overdue since" in toolstile(shop, "doctor")
    asked = ("ledger", "reconcile", "--plugin", "shop.py", "--json")
    (told,) = map(json.loads, toolstile(shop, *asked, entry["hash"]).splitlines())
    assert (told["found"], told["key"]) == ("happened", entry["key"])
    assert toolstile(shop, *asked) == ""
    assert json.loads(call(shop, "poison"))["data"] == {"number": 7}
    assert (shop / "done.txt").read_text() == "poison\n"


@pytest.mark.long
def test_or_says_that_it_has_not_happened(shop):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    toolstile(shop, "ledger", "resolve", entry["key"], "--not-done")
    call(shop, "poison", ok=False)
    assert (shop / "done.txt").read_text() == "poison\npoison\n"


def fill(folder: Path) -> None:
    store = SqliteStore(folder / ".toolstile" / "ledger.db")
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


@pytest.mark.long
def test_entries_are_listed_shown_pruned_and_removed(shop):
    fill(shop)
    table = toolstile(shop, "ledger", "list")
    assert table.splitlines() == [line.rstrip() for line in table.splitlines()]
    assert "(over)" in table
    assert "\x1b" not in table
    assert len(toolstile(shop, "ledger", "list", "--tool", "pay", "--json").splitlines()) == 1
    assert "global:pay:2abcdef" in toolstile(shop, "ledger", "show", "2ab")
    wire = json.loads(toolstile(shop, "ledger", "show", "2ab", "--json"))
    assert (wire["tool"], wire["state"], wire["value"]) == ("pay", EffectState.DONE, None)
    assert toolstile(shop, "ledger", "prune") == "1 removed.\n"
    assert json.loads(toolstile(shop, "ledger", "invalidate", "1abc", "--json")) == {"removed": 1}
    assert toolstile(shop, "ledger", "invalidate", "--tool", "order") == "0 removed.\n"
    assert toolstile(shop, "ledger", "invalidate", "--all") == "1 removed.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "zzz"), "No call has the key 'zzz'"),
        (("resolve", "2ab", "--done"), "nothing to resolve"),
        (("resolve", "2ab"), "--done"),
        (("invalidate",), "required"),
        (("show", b"2\xff"), r"argument KEY: '2\udcff' is not UTF-8; write it in UTF-8"),
        (("list", "--tool", b"\xff"), "is not UTF-8"),
        (("invalidate", "--tool", b"\xff"), "is not UTF-8"),
        (("resolve", "2ab", "--done", "--message", b"\xff"), "is not UTF-8"),
        (("resolve", "2ab", "--not-done", "--value", "1"), "Give --done, or neither"),
    ],
)
def test_what_cannot_be_done_says_why(shop, arguments, words):
    fill(shop)
    assert words in toolstile(shop, "ledger", *arguments, ok=False)


@pytest.mark.long
def test_a_value_that_does_not_fit_the_tool_is_refused(shop):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    told = toolstile(
        shop,
        *("ledger", "resolve", "--plugin", "shop.py", entry["key"], "--done"),
        *("--value", '{"number": "x"}'),
        ok=False,
    )
    assert "does not fit" in told
    assert ".." not in told
    assert "unknown" in toolstile(shop, "ledger", "list")


@pytest.mark.long
def test_a_value_that_was_not_checked_and_does_not_fit_can_be_corrected(shop):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    key = entry["key"]
    resolving = ("ledger", "resolve", key, "--done", "--value")
    told = toolstile(shop, *resolving, '"nonsense"')
    assert "load the plugin that does, with --plugin FILE.py" in told
    told = call(shop, "poison", ok=False)
    assert "does not fit" in error_in(told)
    assert "toolstile ledger" not in error_in(told)
    assert f"toolstile ledger resolve '{key}' --done --value JSON, with the plugin" in told
    told = toolstile(shop, *resolving, '{"number": 7}', ok=False)
    assert "If its value does not fit, load the plugin that offers order" in told
    again = (*resolving[:2], "--plugin", "shop.py", *resolving[2:])
    told = toolstile(shop, *again, '{"number": "x"}', ok=False)
    assert 'does not fit: number: input should be a valid integer, got "x". Nothing' in told
    toolstile(shop, *again, '{"number": 7}')
    assert json.loads(call(shop, "poison"))["data"] == {"number": 7}
    assert "nothing to resolve" in toolstile(shop, *again, '{"number": 8}', ok=False)
    assert (shop / "done.txt").read_text() == "poison\n"


def test_what_has_happened_cannot_be_told_not_to_have_when_its_tool_returns_something_else(shop):
    call(shop, "tea")
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    plugin = shop / "shop.py"
    plugin.write_text(plugin.read_text().replace("-> dict[str, int]:", "-> list[int]:"))
    resolving = ("ledger", "resolve", "--plugin", "shop.py", entry["key"])
    told = toolstile(shop, *resolving, "--not-done", ok=False)
    assert f"The call {entry['key']} is done: it has happened" in told
    assert "order now returns another type than the recorded one" in told
    assert "--done --value JSON" in told
    assert f"toolstile ledger invalidate '{entry['key']}'" in told
    assert "done" in toolstile(shop, "ledger", "list")
    toolstile(shop, *resolving, "--done", "--value", "[1]")
    assert json.loads(call(shop, "tea"))["data"] == [1]
    assert (shop / "done.txt").read_text() == "tea\n"


def test_no_secret_is_shown(shop):
    arguments = ("call", "sign_in", json.dumps({"password": "hunter2"}), "--plugin", "shop.py")
    assert "In with ***." in toolstile(shop, *arguments)
    [entry] = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    assert (entry["message"], entry["value"], entry["changes"]) == ("***", "***", "***")
    told = toolstile(shop, "ledger", "list") + toolstile(shop, "ledger", "show", entry["key"])
    assert "hunter2" not in told
    assert told.count("***") == 3
    # It has to be there all the same: the model is told it again.
    with closing(SqliteStore(shop / ".toolstile/ledger.db")) as store:
        [kept] = store.entries()
    assert kept.result is not None
    assert kept.result.message == "In with hunter2."


@pytest.mark.long
def test_secrets_of_a_value_that_a_person_gives_are_recorded_as_masks(shop):
    making = ("call", "--plugin", "shop.py", "mint", '{"name": "Ada"}')
    toolstile(shop, *making, ok=False)
    [entry] = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    toolstile(
        shop,
        *("ledger", "resolve", "--plugin", "shop.py", entry["key"], "--done"),
        *("--message", "It is hunter2.", "--value", '{"name": "Ada", "token": "hunter2"}'),
    )
    shown = json.loads(toolstile(shop, "ledger", "show", entry["key"], "--json"))
    assert (shown["message"], shown["value"]) == ("It is ***.", {"name": "Ada", "token": "*" * 10})
    assert "It is ***." in toolstile(shop, *making)


def test_nobody_else_may_read_the_file(shop):
    store = SqliteStore(shop / "made" / "ledger.db")
    assert store.get("nothing") is None
    modes = {each.stat().st_mode & 0o777 for each in (shop / "made").iterdir()}
    store.close()
    assert modes == {0o600}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("NaN", marks=pytest.mark.long),
        pytest.param("[Infinity]", marks=pytest.mark.long),
        "{'a': 1}",
        pytest.param("", marks=pytest.mark.long),
        "[1e999]",
        pytest.param("[" * 100_000, id="nested too deeply"),
    ],
)
def test_a_value_that_is_no_json_is_refused(shop, value):
    call(shop, "poison", ok=False)
    (entry,) = map(json.loads, toolstile(shop, "ledger", "list", "--json").splitlines())
    resolving = ("ledger", "resolve", entry["key"], "--done", "--value")
    assert "does not fit" in toolstile(shop, *resolving, value, ok=False)
    assert "was not checked" in toolstile(shop, *resolving, '"x"')


@pytest.mark.long
def test_equal_params_of_two_tools_are_told_apart(shop):
    store = SqliteStore(shop / ".toolstile" / "ledger.db")
    now = datetime.now(UTC)
    for number, name in enumerate(("order", "pay")):
        claim = Claim(f"global:{name}:abcdef", name, "hash", f"{number:032x}", "s", "c", now)
        store.claim(claim, now=now)
        store.finish(claim.key, claim.effect_id, RecordedResult("Done."), None)
    store.close()
    told = toolstile(shop, "ledger", "show", "abc", ok=False)
    assert "2 calls have keys like 'abc': global:order:abcdef, global:pay:abcdef." in told
    rows = toolstile(shop, "ledger", "list").splitlines()[1:]
    for row in rows:
        shown, tool = row.split()[:2]
        assert f"global:{tool}:abcdef" in toolstile(shop, "ledger", "show", shown)


@pytest.mark.parametrize("what", [("list",), ("list", "--json"), ("prune",), ("show", "a")])
def test_a_place_where_no_ledger_can_be_is_an_error(shop, what):
    (shop / ".toolstile").write_text("")
    told = toolstile(shop, "ledger", *what, ok=False)
    assert "error: The ledger .toolstile/ledger.db cannot be used: " in told
    assert ".toolstile is not a directory. Configure a path within a directory." in told


@pytest.mark.long
def test_looking_makes_no_file(shop):
    for arguments in (("list",), ("list", "--json"), ("prune",), ("invalidate", "--all")):
        toolstile(shop, "ledger", *arguments)
    assert "No call has the key 'a'" in toolstile(shop, "ledger", "show", "a", ok=False)
    assert "Nothing is recorded in" in toolstile(shop, "ledger", "list")
    assert not (shop / ".toolstile").exists()
