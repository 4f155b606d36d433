"""A host records and replays as its settings say, while it is open."""

from __future__ import annotations

import os

from toolstile import Host, ToolCall
from toolstile_plugins.record import RecordSettings
from toolstile_plugins.record.recorder import at_work


def test_calls_are_answered_only_in_their_order_where_the_settings_say_so(desk, path):
    desk.record(path, ("add", {"a": 1}), ("add", {"a": 2}))
    with Host(discover=False, plugins=[desk.Desk()]) as host:
        for strict in (False, True):
            with at_work(host, RecordSettings(replay=path, strict=strict)):
                assert host.kept_apart is not None
                with host.executor() as tools:
                    answered = tools.dispatch(ToolCall("add", {"a": 2}))
            assert answered.success is not strict
            assert host.kept_apart is None


def test_each_line_is_on_the_disk_with_power(desk, path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Host(discover=False, plugins=[desk.Desk()]) as host:
        for durability, lines in (("process", 0), ("power", 3)):
            settings = RecordSettings(file=path, durability=durability)
            with at_work(host, settings), host.executor() as tools:
                desk.call(tools, "add", a=1)
            assert len(synced) == lines


def test_a_folder_of_records_is_its_owner_s_alone(desk, tmp_path):
    folder = tmp_path / "records"
    with Host(discover=False) as host, at_work(host, RecordSettings(folder=folder)):
        assert folder.stat().st_mode & 0o777 == 0o700
