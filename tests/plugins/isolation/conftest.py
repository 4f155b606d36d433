"""The bench of the pipeline, with the plugin."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.host.pipeline.conftest import Yard, nesting

from toolstile import Executor
from toolstile_hookspecs import Tool
from toolstile_plugins import isolation

__all__ = ["nesting"]


class IsolatingYard(Yard):
    """A yard whose host has the plugin."""

    def open(
        self, *tools: Tool[Any, Any], plugins: tuple[object, ...] = (), **options: Any
    ) -> Executor:
        return super().open(*tools, plugins=(isolation, *plugins), **options)


@pytest.fixture(params=["sync", "async"])
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    with ExitStack() as stack:
        yield IsolatingYard(request.param, stack)


@pytest.fixture
def make_yard() -> Iterator[Callable[[str], Yard]]:
    with ExitStack() as stack:
        yield lambda driver: IsolatingYard(driver, stack)


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the handlers, where the other process finds it, too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("isolated_handlers")
