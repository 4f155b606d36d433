"""A host with a workspace on disk and a shell over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import Diagnostic, Outcome, ToolCall
from toolstile_plugins.sandbox import CommandResult, SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of


def sandbox_fault() -> str | None:
    """Say why no sandbox can be made on this machine; None where one can."""
    found: Sequence[Diagnostic] = list(backend_of(SandboxSettings()).findings())
    return next((each.text for each in found if each.severity == "error"), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a sandbox where none can be made."""
    fault = sandbox_fault()
    for item in items:
        if fault and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=fault))


class Shell:
    """A shell over a directory."""

    def __init__(self, root: Path, host: Host, executor: Executor) -> None:
        self.root = root
        self.host = host
        self.executor = executor

    def __call__(self, script: str | Sequence[str], **arguments: Any) -> CommandResult:
        """Run a script, which has to succeed as a call."""
        outcome = self.outcome(script, **arguments)
        assert outcome.result.success, outcome.text
        assert isinstance(outcome.result.value, CommandResult)
        return outcome.result.value

    def outcome(self, script: str | Sequence[str], **arguments: Any) -> Outcome:
        words = ["sh", "-c", script] if isinstance(script, str) else list(script)
        return self.call("shell_execute", command=words, **arguments)

    def call(self, name: str, **arguments: Any) -> Outcome:
        return self.executor.dispatch(ToolCall(name, json.dumps(arguments)))

    def files(self) -> list[str]:
        found = (path.relative_to(self.root) for path in self.root.rglob("*"))
        return sorted(str(path) for path in found if path.parts[0] != ".toolstile")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The directory in which commands leave what they write."""
    return tmp_path / "scratch"


@pytest.fixture
def open_shell(tmp_path: Path, scratch: Path) -> Iterator[Callable[..., Shell]]:
    root = tmp_path / "workspace"
    root.mkdir()
    with ExitStack() as stack:

        def open_(
            vfs: dict[str, Any] | None = None,
            host: dict[str, Any] | None = None,
            settings: dict[str, Any] | None = None,
            **sandbox: Any,
        ) -> Shell:
            plugins = {
                "vfs": {"root": str(root)} if vfs is None else vfs,
                "sandbox": {"scratch": str(scratch), **sandbox},
            }
            given = Settings(plugins=plugins, **(settings or {}))
            opened = stack.enter_context(Host(settings=given, **(host or {})))
            return Shell(root, opened, stack.enter_context(opened.executor()))

        yield open_


@pytest.fixture
def shell(open_shell: Callable[..., Shell]) -> Shell:
    return open_shell()
