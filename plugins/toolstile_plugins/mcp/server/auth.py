"""Authentication: bearer tokens and their principals."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from pydantic import SecretStr

from toolstile_plugins.mcp.server.request import RequestContext


class Tokens:
    """The tokens that are known, and whose they are.

    Args:
        tokens: By the principal's name.
    """

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        self._tokens = {name: token.get_secret_value().encode() for name, token in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token grants, None for one that is not known."""
        given = token.encode()
        found: str | None = None
        for name, known in self._tokens.items():
            # All are compared, each in constant time, so that time tells nothing.
            if hmac.compare_digest(given, known):
                found = name
        return None if found is None else AccessToken(token=token, client_id=found, scopes=[])


def principal_of(context: RequestContext) -> str | None:
    """Return who makes a request, None where nobody has to say."""
    return user_of(getattr(context.request, "scope", {}))


def user_of(scope: Mapping[str, Any]) -> str | None:
    """Return who is behind a connection, None where nobody has to say."""
    user = scope.get("user")
    return user.username if isinstance(user, AuthenticatedUser) else None
