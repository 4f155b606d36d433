"""The client that made a call as a way to ask beside an inbox."""

from __future__ import annotations

import sys
from typing import Final

from toolstile_plugins.approval.beside import Reached

SERVER: Final = "toolstile_plugins.mcp.server.elicitation"


class ClientWay:
    """The person at the client whose request is being answered; an `AtClient`.

    Args:
        longest: The seconds for which they are waited for.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest

    def reach(self) -> Reached | None:
        """Return the person, None where no client is served that can ask them."""
        if SERVER not in sys.modules:
            # Nothing is served, and the SDK is heavy.
            return None
        from toolstile_plugins.mcp.server.elicitation import reached

        return reached(self._longest)
