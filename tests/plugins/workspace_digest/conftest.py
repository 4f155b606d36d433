"""Workspaces, and executors over them that show a digest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import Binding, Filesystem, Prompt, Visibility
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.workspace_digest import DigestConfig, WorkspaceDigestSection

PROJECT = {
    "README.md": "# Bakery\n\nBakes rye bread.\n",
    "pyproject.toml": (
        '[project]\nname = "bakery"\ndescription = "Bread by post."\n'
        '[project.scripts]\nbake = "bakery.oven:main"\n[tool.pytest.ini_options]\n'
    ),
    "Makefile": "VERSION := 1\nall: test\n\ntest:\n\tpytest\n",
    "src/oven.py": "def main(): ...\n",
    "src/dough.py": "FLOUR = 500\n",
    "tests/test_oven.py": "def test(): ...\n",
}
"""A small project."""


class Counting:
    """A workspace that counts what is asked of it."""

    def __init__(self, files: Filesystem) -> None:
        self.files = files
        self.asked: Counter[str] = Counter()
        self.read_paths: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.files, name)

        def counted(path: str = "", *args: Any, **kwargs: Any) -> Any:
            self.asked[name] += 1
            if name in {"read", "read_bytes", "open"}:
                self.read_paths.append(path)
            return method(path, *args, **kwargs)

        return counted


class Shown:
    """An executor whose prompt has a digest."""

    def __init__(self, tools: Any) -> None:
        self.tools = tools
        self.session = tools.session

    def text(self) -> str:
        rendered = self.tools.prompt.render(self.session, self.tools.resources).text
        return rendered.partition("# Workspace digest\n\n")[2]

    def summary(self) -> str:
        return self.text().partition("\n\n(This is a summary.")[0]


@pytest.fixture
def project() -> dict[str, str | bytes]:
    return dict(PROJECT)


@pytest.fixture
def counting():
    return Counting


@pytest.fixture
def show():
    @contextmanager
    def opened(
        files: Any = None,
        *,
        settings: Settings | None = None,
        session: Any = None,
        visibility: Visibility = Visibility.FULL,
        **bounds: Any,
    ):
        section = WorkspaceDigestSection(config=DigestConfig(**bounds), visibility=visibility)
        resources = () if files is None else (Binding.instance(Filesystem, files),)
        prompt = Prompt.of("tests", "main", [section])
        with (
            Host(discover=False, settings=settings or Settings()) as host,
            host.executor(prompt=prompt, resources=resources, session=session) as tools,
        ):
            yield Shown(tools)

    return opened


@pytest.fixture(params=["memory", "disk"])
def make_files(request, tmp_path):
    """Return a function that makes a workspace with files."""
    made: list[VirtualFilesystem] = []

    def make(files: Mapping[str, str | bytes]) -> VirtualFilesystem:
        if request.param == "memory":
            return VirtualFilesystem.in_memory(files)
        for path, content in files.items():
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        made.append(VirtualFilesystem.on_disk(tmp_path))
        return made[-1]

    yield make
    for files in made:
        files.close()
