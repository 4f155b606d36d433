"""`Settings.durable`: what waits, what was paid and what was said survive `kill -9`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolstile import CallFailed, Host, Settings, tool
from toolstile_hookspecs import Answer, ConfigurationError, Principal, ToolContext
from toolstile_plugins.inbox import Inbox

KEY = "a key of forty characters, which is long"
BOB = Principal("os", "bob")


def test_it_sets_all_that_must_agree(tmp_path: Path) -> None:
    settings = Settings.durable(tmp_path / "desk.db", key=KEY)
    file = tmp_path / "desk.db"
    assert (settings.approver, settings.approval_key, settings.approval_spent) == (
        *("inbox", KEY),
        file,
    )
    assert settings.plugins["sessions"] == settings.plugins["ledger"] == {"path": file}
    assert settings.plugins["record"] == {"folder": tmp_path / "desk.records"}
    inbox = settings.plugins["inbox"]
    assert (inbox["path"], inbox["wait"]) == (tmp_path / "desk.inbox.db", "pending")
    assert KEY not in repr(settings)


def test_a_database_has_all_but_the_key_and_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.durable("postgresql://desk:secret@db/desk", key=KEY)
    assert settings.plugins["database"]["url"].get_secret_value().endswith("@db/desk")
    assert settings.plugins["inbox"]["key"] == tmp_path / ".toolstile" / "inbox.key"
    assert settings.approval_spent is None
    assert "secret@" not in repr(settings)


def test_further_settings_and_tables_are_added() -> None:
    more = {"inbox": {"expiry": 5.0}, "ledger": {"lease": 5}, "otel": {"enabled": False}}
    settings = Settings.durable("desk.db", key=KEY, timeout=3, plugins=more)
    assert (settings.timeout, settings.plugins["otel"]) == (3, {"enabled": False})
    assert settings.plugins["inbox"]["expiry"] == 5.0
    assert settings.plugins["inbox"]["wait"] == "pending"
    assert settings.plugins["ledger"] == {"path": Path("desk.db").absolute(), "lease": 5}
    assert settings.plugins["sessions"] == {"path": Path("desk.db").absolute()}


@pytest.mark.parametrize(
    ("place", "key", "told"),
    [
        ("mysql://db/desk", KEY, r"keeps nothing in mysql://.*PostgreSQL"),
        ("desk.db", "short", "approval_key: expected a key that cannot be guessed"),
        ("desk.db", "secret", r"those of: python -c 'import os; print\(os\.urandom"),
    ],
)
def test_a_place_or_a_key_that_does_not_fit_is_an_error(place: str, key: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Settings.durable(place, key=key)


@tool(requires_confirmation=True)
def pay(euros: int, *, context: ToolContext) -> str:
    """Pay."""
    return f"Paid {euros} euros."


def asked(host: Host) -> str:
    with pytest.raises(CallFailed) as waits:
        host.call("pay", euros=5)
    return str(waits.value.outcome.approval_ticket)


def test_hosts_with_one_key_read_each_others_questions_without_a_file_of_it(
    tmp_path: Path,
) -> None:
    settings = Settings.durable(tmp_path / "desk.db", key=KEY)
    with Host(settings=settings, tools=[pay]) as host:
        ticket = asked(host)
    (tmp_path / "desk.inbox.key").unlink()  # another machine
    with Host(settings=settings, tools=[pay]) as host:
        with host.executor() as tools:
            tools.resources.get(Inbox).answer(ticket, Answer.APPROVED, BOB, via="a test")
        assert host.call("pay", euros=5) == "Paid 5 euros."


def test_another_key_than_that_of_the_file_is_refused(tmp_path: Path) -> None:
    with Host(settings=Settings.durable(tmp_path / "desk.db", key=KEY), tools=[pay]) as host:
        asked(host)
    other = Settings.durable(tmp_path / "desk.db", key=KEY[::-1])
    with pytest.raises(ConfigurationError, match=r"desk\.inbox\.key is not the key with which"):
        Host(settings=other, tools=[pay]).open()


DRIVER = '''
import os, signal, sys
from pathlib import Path

from toolstile import Agent, CallFailed, Host, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import Answer, IdempotencyConfig, Principal
from toolstile_plugins.inbox import Inbox

place, bank, step = sys.argv[1:]


@tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="session"))
def pay(euros: int) -> str:
    """Pay."""
    with Path(bank).open("a") as log:
        log.write(f"{euros}\\n")
    return f"Paid {euros} euros."


settings = Settings.durable(place, key="a key of forty characters, which is long")
host = Host(settings=settings, tools=[pay])
if step == "approve":
    with host, host.executor() as tools:
        inbox = tools.resources.get(Inbox)
        for question in inbox.waiting():
            inbox.answer(question.ticket, Answer.APPROVED, Principal("os", "bob"), via="a test")
            print(question.session_id)
else:
    with host:
        try:
            print(host.call("pay", euros=5))
        except CallFailed as waits:
            print(waits.outcome.status)
        replies = ["Thank you."] if step == "again" else [[("pay", {"euros": 7})]]
        result = Agent(adapter=ScriptedModel(*replies), host=host).run("Pay.", session_id="ada")
        print(result.text or result.stop_reason)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "desk.db")
    return str(request.getfixturevalue("database"))


@pytest.mark.slow
def test_a_call_that_asks_is_approved_and_resumed_by_processes_that_are_killed(
    place: str, tmp_path: Path
) -> None:
    def process(step: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, place, tmp_path / "bank.log", step],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        return done.stdout.strip().split("\n")

    assert process("ask") == ["pending", "pending"]
    assert sorted(process("approve")) == ["ada", "host"]
    assert process("again") == ["Paid 5 euros.", "Thank you."]
    assert (tmp_path / "bank.log").read_text().split() == ["5", "7"]
    records: list[Any] = [
        json.loads(line)
        for record in tmp_path.rglob("*.jsonl")
        for line in record.read_text().splitlines()
    ]
    assert sum("pay" in json.dumps(record) for record in records) >= 4
