"""Whatever hosts do to one session in PostgreSQL, they come to what one session would come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.plugins.sessions.test_model import Hosts, Model

from .conftest import made_schema


class Shared(Model):
    """The hosts of the model for SQLite, over a database."""

    server: Any

    def _made_hosts(self, folder: Path) -> Hosts:
        hosts = Hosts(folder, self.stack)
        hosts.tables = {"database": {"url": made_schema(self.server)}}
        return hosts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("examples", "steps"), [(4, 12), pytest.param(60, 25, marks=pytest.mark.long)]
)
def test_hosts_come_to_what_the_model_has(postgres: Any, examples: int, steps: int) -> None:
    made: Callable[[], Model] = type("Over", (Shared,), {"server": postgres})
    run_state_machine_as_test(
        made, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )
