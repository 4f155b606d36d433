"""What a subclass of a contract's suite has to give is told where it is missing."""

from __future__ import annotations

from typing import Any

import pytest

from toolyard_hookspecs.testing import (
    FilesystemContract,
    LedgerStoreContract,
    ObserverContract,
    PolicyContract,
    ToolSuiteContract,
)


@pytest.mark.parametrize(
    ("contract", "fixture"),
    [
        (FilesystemContract, "files"),
        (LedgerStoreContract, "store"),
        (ObserverContract, "plugin"),
        (PolicyContract, "policy"),
        (ToolSuiteContract, "plugin"),
    ],
)
def test_what_has_to_be_overridden_is_told(contract: Any, fixture: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"Override the fixture `{fixture}`"):
        getattr(contract, fixture).__wrapped__(contract())
