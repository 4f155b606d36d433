"""The conformance suites of a ledger's store, and claims for tests."""

from __future__ import annotations

from toolstile_hookspecs.testing.ledger.ledger_settlement import SettlesUnknownContract
from toolstile_hookspecs.testing.ledger.ledger_store import (
    HOUR,
    NOW,
    LedgerStoreContract,
    claim_of,
)

__all__ = ["HOUR", "NOW", "LedgerStoreContract", "SettlesUnknownContract", "claim_of"]
