"""Hosts that share stored sessions, a ledger and a workspace, as several processes would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import Binding, Filesystem, Outcome, Tool, ToolCall, ToolPolicy
from toolstile_plugins.sessions.sqlite import SqliteSessions
from toolstile_plugins.vfs.workspace import VirtualFilesystem


@dataclass(frozen=True, slots=True)
class Note:
    """An item of a slice."""

    text: str


class Hosts:
    """Hosts on one file of sessions and one workspace; each as in a process of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.file = folder / "state.db"
        self.workspace = folder / "work"
        self.workspace.mkdir(exist_ok=True)
        self._stack = stack
        self.tables: dict[str, dict[str, Any]] = {
            "sessions": {"path": self.file},
            "ledger": {"path": self.file},
        }

    def open(
        self,
        *tools: Tool[Any, Any],
        plugins: tuple[object, ...] = (),
        resources: Sequence[Binding[Any]] = (),
        policies: Sequence[ToolPolicy] = (),
        approve_diff: bool = False,
    ) -> Host:
        settings = Settings.model_validate(
            {"approve_diff": approve_diff, "plugins": self.tables},
        )
        files = Binding[Filesystem](
            Filesystem,  # type: ignore[type-abstract]
            lambda resources: VirtualFilesystem.on_disk(self.workspace),
        )
        host = Host(
            settings=settings,
            discover=["database", "sessions", "ledger"],
            tools=tools,
            plugins=plugins,
            resources=[files, *resources],
            policies=policies,
        )
        return self._stack.enter_context(host)

    def executor(
        self,
        *tools: Tool[Any, Any],
        session_id: str = "s",
        resources: Sequence[Binding[Any]] = (),
        policies: Sequence[ToolPolicy] = (),
        **options: Any,
    ) -> Executor:
        host = self.open(*tools, resources=resources, policies=policies)
        return self._stack.enter_context(host.executor(session_id=session_id, **options))

    def store(self) -> SqliteSessions:
        """Return one more store over the file."""
        return self._stack.enter_context(closing(SqliteSessions(self.file)))

    def close(self) -> None:
        """Close all hosts, as processes that end."""
        self._stack.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(tmp_path, stack)


def call(executor: Executor, name: str, **arguments: Any) -> Outcome:
    return executor.dispatch(ToolCall(name, arguments))


def texts(executor: Executor) -> list[str]:
    return [note.text for note in executor.session[Note].all()]
