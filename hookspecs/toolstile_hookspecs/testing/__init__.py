"""Suites that the author of a plugin subclasses, to show that it keeps to the contract.

They need pytest, which the contract itself does not. In a `conftest.py`, before the suite is
imported, `pytest.register_assert_rewrite("toolstile_hookspecs.testing")` makes failures say more.
"""

from __future__ import annotations

from toolstile_hookspecs.testing.approval_store import ApprovalStoreContract
from toolstile_hookspecs.testing.counter import CounterContract
from toolstile_hookspecs.testing.dispatcher import DispatcherContract, StartMarksContract
from toolstile_hookspecs.testing.filesystem import FilesystemContract
from toolstile_hookspecs.testing.frameworks import FrameworkAdapterContract
from toolstile_hookspecs.testing.ledger import LedgerStoreContract, SettlesUnknownContract
from toolstile_hookspecs.testing.observers import ObserverContract
from toolstile_hookspecs.testing.policies import PolicyContract
from toolstile_hookspecs.testing.provider_adapter import ProviderAdapterContract
from toolstile_hookspecs.testing.session_store import JoinsDecisionContract, SessionStoreContract
from toolstile_hookspecs.testing.tools import ToolSuiteContract

__all__ = [
    "ApprovalStoreContract",
    "CounterContract",
    "DispatcherContract",
    "FilesystemContract",
    "FrameworkAdapterContract",
    "JoinsDecisionContract",
    "LedgerStoreContract",
    "ObserverContract",
    "PolicyContract",
    "ProviderAdapterContract",
    "SessionStoreContract",
    "SettlesUnknownContract",
    "StartMarksContract",
    "ToolSuiteContract",
]
