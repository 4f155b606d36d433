"""The parts of Toolstile that keep tables in a database, for its commands."""

from __future__ import annotations

from typing import Final

from toolstile_plugins.database.approval_store import APPROVALS
from toolstile_plugins.database.counter import COUNTS
from toolstile_plugins.database.schema import Part
from toolstile_plugins.database.session_store import SESSIONS
from toolstile_plugins.ledger.stores.postgres import LEDGER
from toolstile_plugins.workers.dbos.tables import WORKERS

PARTS: Final[tuple[Part, ...]] = (SESSIONS, COUNTS, LEDGER, APPROVALS, WORKERS)
"""All parts, in the order in which they are made."""
