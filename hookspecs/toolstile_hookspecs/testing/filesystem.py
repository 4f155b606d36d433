"""The conformance suite of a `Filesystem`, to subclass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from toolstile_hookspecs.services.filesystem import Filesystem
from toolstile_hookspecs.testing.filesystem_entries import EntryCases
from toolstile_hookspecs.testing.filesystem_files import FileCases
from toolstile_hookspecs.testing.filesystem_paths import PathCases
from toolstile_hookspecs.testing.filesystem_search import FindingCases
from toolstile_hookspecs.testing.filesystem_trees import TreeCases
from toolstile_hookspecs.testing.suite import Contract


class FilesystemContract(Contract, PathCases, FileCases, EntryCases, TreeCases, FindingCases):
    """The tests of a `Filesystem`.

    Subclass it, and give a fixture `files` that returns an empty one.

    Example:
        >>> import pytest
        >>> class TestCloudFilesystem(FilesystemContract):
        ...     @pytest.fixture
        ...     def files(self) -> Filesystem:
        ...         return CloudFilesystem()
    """

    _gives: ClassVar[Mapping[str, type[Any] | None]] = {"files": Filesystem}

    @pytest.fixture
    def files(self) -> Filesystem:
        """Return an empty file system."""
        self._must_give("files", "gives an empty one")
