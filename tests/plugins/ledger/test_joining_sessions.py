"""The ledger is kept in the file of stored sessions, and takes earlier entries along."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolstile import Host, Settings, ToolCall, tool
from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError, IdempotencyConfig
from toolstile_hookspecs.services.ledger import Claim, RecordedResult
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

PAID: list[str] = []
STORED = Settings(plugins={"sessions": {"path": "sessions.db"}})
DAY = timedelta(days=1)


@tool(idempotency=IdempotencyConfig(scope="global"))
def pay(order: str) -> str:
    """Pay an order."""
    PAID.append(order)
    return order


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PAID.clear()


def paid(settings: Settings) -> str:
    """Pay the order, and return the file of the ledger."""
    with Host(settings=settings, tools=[pay]) as host, host.executor(session_id="one") as tools:
        outcome = tools.dispatch(ToolCall("pay", '{"order": "7"}'))
        assert outcome.success, outcome.text
        return str(tools.resources.get(EffectLedger).database)


def noted(expires: datetime | None, *, ends: bool = True) -> SqliteStore:
    """Note an effect in the ledger's own file."""
    store, now = SqliteStore(".toolstile/ledger.db"), datetime.now(UTC)
    store.claim(Claim("key", "pay", "h", "e", "s", "c", now), now=now)
    if ends:
        store.finish("key", "e", RecordedResult("Done."), expires)
        store.close()
    return store


def test_a_host_with_stored_sessions_alone_opens_and_decides_in_their_file() -> None:
    assert paid(STORED) == str(Path("sessions.db").absolute())
    assert not Path(".toolstile").exists()


def test_a_ledger_that_is_configured_stays() -> None:
    elsewhere = {**STORED.plugins, "ledger": {"path": "other.db"}}
    with pytest.raises(ConfigurationError, match=r"decide beside it, in .*other\.db"):
        paid(Settings(plugins=elsewhere))
    assert paid(Settings(plugins={"sessions": {}})) == str(Path(".toolstile/ledger.db").absolute())


def test_entries_that_count_keep_the_host_from_opening_until_they_are_moved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paid(Settings())
    told = r"ledger\.db has entries that still count.*`toolstile ledger move`"
    with pytest.raises(ConfigurationError, match=told):
        paid(STORED)
    Path("toolstile.toml").write_text("[plugins.sessions]\npath = 'sessions.db'\n")
    assert main(["doctor"]) == 1
    assert "still count" in " ".join(capsys.readouterr().out.split())
    assert main(["ledger", "move"]) == 0
    assert "1 moved from .toolstile/ledger.db to" in capsys.readouterr().out
    paid(STORED)
    assert PAID == ["7"]
    assert main(["ledger", "move"]) == 0
    assert "Nothing is to be moved." in capsys.readouterr().out


def test_expired_entries_do_not_count_and_a_running_call_is_not_moved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noted(datetime.now(UTC) - DAY)
    paid(STORED)
    Path(".toolstile/ledger.db").unlink()
    store = noted(None, ends=False)
    Path("toolstile.toml").write_text("[plugins.sessions]\npath = 'sessions.db'\n")
    assert main(["ledger", "move"]) == 2
    assert "A host runs a call that is recorded in" in capsys.readouterr().err
    store.close()
