"""Both backends keep to the contract: directly, in a call, and in a nested call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolstile_hookspecs import Filesystem
from toolstile_hookspecs.testing import FilesystemContract
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]


@pytest.mark.slow
@pytest.mark.much_alike(2)
class TestOutsideOfCalls(FilesystemContract):
    @pytest.fixture
    def files(self, workspace: VirtualFilesystem) -> Filesystem:
        return workspace


class TestInACall(FilesystemContract):
    @pytest.fixture
    def files(self, workspace: VirtualFilesystem, branch_of: Branch) -> Filesystem:
        return branch_of(workspace).resource


@pytest.mark.slow
@pytest.mark.much_alike(2)
class TestInANestedCall(FilesystemContract):
    @pytest.fixture
    def files(self, workspace: VirtualFilesystem, branch_of: Branch) -> Filesystem:
        outer = branch_of(workspace)
        outer.resource.write("outer.txt", "of the call around")
        outer.resource.delete("outer.txt")
        return branch_of(workspace, outer).resource
