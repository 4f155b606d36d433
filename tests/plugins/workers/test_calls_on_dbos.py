"""Calls of a host through DBOS, which workers run that the command has started."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from toolstile import ConfigurationError, Host, Settings, Status

from .conftest import Site
from .test_calls import PATIENCE, call, while_paying

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def shared_database(site: Site, database: str) -> Site:
    site.workers = {"dispatcher": "dbos", "lease": 1.5, "options": {"poll": 0.02}}
    lines = [
        f'[plugins.database]\nurl = "{database}"',
        '[plugins.workers]\ndispatcher = "dbos"\nlease = 1.5',
        "[plugins.workers.options]\npoll = 0.02",
    ]
    (site.folder / "toolstile.toml").write_text("\n".join(lines), encoding="utf-8")
    site.plugins = {"database": {"url": database}}
    return site


def test_an_effect_of_a_killed_worker_is_unknown_and_not_repeated(shared_database: Site):
    site = shared_database
    worker = site.start()
    with site.host() as host:
        assert call(host, "pay", order=1).text == call(host, "pay", order=1).text == "1"
        told = while_paying(host, site, lambda _: worker.kill(), order=2, seconds=60)
        assert told.status is Status.FAILED
        assert "its outcome is unknown: Its worker was lost while it ran." in told.text
        site.start()
        assert "its outcome is unknown" in call(host, "pay", order=2).text
        assert call(host, "pay", order=3).text == "3"
    assert [line.rpartition(" ")[0] for line in site.noted()] == ["paid 1", "paid 2", "paid 3"]


def test_a_worker_that_is_asked_to_end_ends_its_calls_first(shared_database: Site):
    worker = shared_database.start()
    end = partial(worker.send_signal, signal.SIGTERM)
    with shared_database.host() as host:
        told = while_paying(host, shared_database, lambda _: end(), order=1, seconds=0.5)
    assert told.text == "1"
    assert worker.wait(PATIENCE) == 0


def test_without_a_database_it_is_said_where_to_name_one():
    settings = Settings(plugins={"workers": {"dispatcher": "dbos", "runs": {}}})
    with pytest.raises(ConfigurationError, match=r"\[plugins.database\]"):
        Host(settings=settings).open()


def test_an_option_that_there_is_not_is_refused(shared_database: Site):
    with pytest.raises(ConfigurationError, match=r"plugins\.workers\.options: pool"):
        shared_database.host(options={"pool": 1}).open()
