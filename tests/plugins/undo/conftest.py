"""Desks of one test, closed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.undo.desks import CONFIGURATION, STORED, TOOLS, Desk

from toolstile import Host


@pytest.fixture
def make_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Desk]]:
    """Makes desks over one folder; `more` is added to the configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    with ExitStack() as stack:

        def make(more: str = "", *, undo: str = "", tools: list[Any] = TOOLS) -> Desk:
            text = CONFIGURATION.format(folder=tmp_path) + undo + more.format(folder=tmp_path)
            (tmp_path / "toolstile.toml").write_text(text)
            host = Host(config=tmp_path / "toolstile.toml", tools=tools)
            return Desk(tmp_path, stack.enter_context(host))

        yield make


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """A desk with a session in memory."""
    return make_desk()


@pytest.fixture(params=["memory", "stored"])
def any_desk(request: pytest.FixtureRequest, make_desk: Callable[..., Desk]) -> Desk:
    """A desk with a session of each kind."""
    return make_desk(STORED if request.param == "stored" else "")
