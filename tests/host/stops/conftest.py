"""Hosts whose calls can be stopped."""

from __future__ import annotations

import pytest

from toolstile import Host, Settings


@pytest.fixture
def place(tmp_path):
    """A folder with a configuration, by which hosts share their stops."""
    (tmp_path / "toolstile.toml").write_text("")
    return tmp_path


@pytest.fixture
def host_in(place):
    """Make hosts of one configuration; each is closed at the end."""
    hosts = []

    def make(*tools, **more):
        names = more.keys() & {"approval_timeout", "approve_by", "approve_diff"}
        keys = {"approval_timeout": None, **{name: more.pop(name) for name in names}}
        settings = Settings(path=place / "toolstile.toml", **keys)
        hosts.append(Host(settings=settings, tools=tools, discover=False, **more).open())
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()
