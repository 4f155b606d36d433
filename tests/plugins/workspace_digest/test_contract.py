"""The digest keeps to the contract of suites, over a workspace."""

from __future__ import annotations

from typing import ClassVar

import pytest

from toolstile_hookspecs import Binding, Filesystem, OpenedSections
from toolstile_hookspecs.testing import ToolSuiteContract
from toolstile_plugins import workspace_digest
from toolstile_plugins.vfs import VirtualFilesystem


class TestDigest(ToolSuiteContract):
    arguments: ClassVar = {"refresh_digest": {}}

    @pytest.fixture
    def plugin(self):
        return workspace_digest

    @pytest.fixture
    def options(self):
        files = VirtualFilesystem.in_memory({"src/app.py": "import wire\n", "src/wire.py": ""})
        return {"resources": (Binding.instance(Filesystem, files),)}

    @pytest.fixture
    def prepare(self):
        def prepare(bench, tool):
            bench.session[OpenedSections].seed(OpenedSections(frozenset({"workspace-digest"})))

        return prepare
