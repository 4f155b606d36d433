"""Workspaces to test: in memory and on disk, used directly or through a call's branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from toolstile_hookspecs import ToolContext
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch


@pytest.fixture(params=["memory", "disk"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VirtualFilesystem]:
    """An empty workspace of each backend."""
    if request.param == "memory":
        yield VirtualFilesystem.in_memory()
        return
    root = tmp_path / "workspace"
    root.mkdir()
    with closing(VirtualFilesystem.on_disk(root)) as files:
        yield files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of `disk`."""
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def disk(root: Path) -> Iterator[VirtualFilesystem]:
    """A workspace on `root`."""
    with closing(VirtualFilesystem.on_disk(root)) as files:
        yield files


@pytest.fixture
def on_disk() -> Iterator[Callable[..., VirtualFilesystem]]:
    """Opens workspaces that are closed at the end."""
    with ExitStack() as stack:

        def open_(root: Path, **options: bool) -> VirtualFilesystem:
            return stack.enter_context(closing(VirtualFilesystem.on_disk(root, **options)))

        yield open_


@pytest.fixture
def branch_of() -> Callable[..., WorkspaceBranch]:
    """Branches as the host asks for them."""

    def branch(
        workspace: VirtualFilesystem, parent: WorkspaceBranch | None = None
    ) -> WorkspaceBranch:
        return workspace.branch(ToolContext(session=None), parent)

    return branch


@pytest.fixture
def commit() -> Callable[[WorkspaceBranch], None]:
    """Ends a call with success."""

    def done(branch: WorkspaceBranch) -> None:
        assert branch.prepare() is None
        branch.commit()

    return done
