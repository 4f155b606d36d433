"""How a request says which session it belongs to."""

from __future__ import annotations

from typing import Final

SESSION_META: Final = "toolstile/session"
"""Where a request names its session in `_meta`, and where a result says which one was begun."""
NEW: Final = "new"
"""What stands there in a request that begins a session."""
SESSION_HEADER: Final = "mcp-session-id"
"""The header of the older era."""
