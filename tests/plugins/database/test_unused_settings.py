"""Where a database keeps what hosts share, settings that name other places are told of."""

from __future__ import annotations

from contextlib import suppress

import pytest

from toolstile import Host, Settings
from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.database.session_store import PostgresApprovals
from toolstile_plugins.inbox import Inbox

NOWHERE = {"database": {"url": "postgresql://127.0.0.1:1/nowhere"}}
"""An address that nobody has to reach for this."""


def host(**plugins):
    settings = Settings.model_validate({"plugins": plugins})
    return Host(settings=settings, discover=["database", "inbox", "ledger", "sessions"])


def test_two_places_for_sessions_are_refused_with_the_settings_that_name_them(tmp_path):
    sessions = {"path": tmp_path / "state.db"}
    with (
        pytest.raises(ConfigurationError, match=r"out of \[plugins\.sessions\] or the other's"),
        host(sessions=sessions, **NOWHERE),
    ):
        pass


@pytest.mark.parametrize("command", ["run", "call", "ask"])
def test_where_a_session_can_be_stored_is_said_of_both_places(capsys, command):
    with suppress(SystemExit):
        main([command, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "see [plugins.sessions], [plugins.database]" in told


@pytest.mark.parametrize("names", [["key"], ["path"], ["path", "key"]])
def test_questions_are_kept_there_where_there_is_a_key_or_was_a_file(tmp_path, caplog, names):
    files = {name: tmp_path / f"inbox.{name}" for name in names}
    with host(inbox=files, **NOWHERE) as opened, opened.executor() as tools:
        for _ in range(2):
            inbox = tools.resources.get(Inbox)
            assert isinstance(inbox.store, PostgresApprovals)
    told = [text for text in caplog.messages if "path of [plugins.inbox] is not used" in text]
    assert len(told) == ("path" in names)


def test_a_key_of_an_inbox_without_anything_that_keeps_questions_is_told_of(tmp_path):
    with (
        host(inbox={"key": tmp_path / "inbox.key"}) as opened,
        opened.executor() as tools,
        pytest.raises(ConfigurationError, match="nothing that keeps questions"),
    ):
        tools.resources.get(Inbox)


def test_the_lease_of_the_ledger_is_that_of_the_database(caplog):
    with host(ledger={"lease": 5}, **NOWHERE):
        assert "lease of [plugins.ledger] is not used" in caplog.text


def test_the_doctor_looks_at_the_key_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolstile.toml").write_text('[plugins.inbox]\nkey = "inbox.key"\n')
    main(["doctor"])
    told = capsys.readouterr().out
    assert "key of the inbox" in told
    assert "No questions are kept" not in told
