"""The record of a host as a resource, for plugins with more to record than calls."""

from datetime import UTC, datetime
from pathlib import Path

from toolstile import Host
from toolstile.settings import Settings
from toolstile_hookspecs.services.replay import Recorder
from toolstile_plugins.inbox import ApprovalEvent
from toolstile_plugins.record.reader import Reader


def test_a_plugin_writes_lines_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    settings = Settings.model_validate({"plugins": {"record": {"file": str(path)}}})
    event = ApprovalEvent("1", "granted", datetime.now(UTC), "pay", "g", "s", reason="two keys")
    with Host(settings=settings, discover=["record"]) as host, host.executor() as tools:
        tools.resources.get(Recorder).note("approval", event.wire())
    record = Reader(path)
    assert [*record] == []
    (line,) = record.approvals.values()
    assert (line.act, line.reason) == ("granted", "two keys")


def test_a_host_that_records_nothing_has_none(tmp_path: Path) -> None:
    settings = Settings.model_validate({"plugins": {"record": {"file": str(tmp_path / "r")}}})
    idle = Host(discover=["record"])
    looking = Host(settings=settings, discover=["record"], purpose="look")
    for host in (idle, looking):
        with host, host.executor() as tools:
            assert tools.resources.get(Recorder, None) is None
