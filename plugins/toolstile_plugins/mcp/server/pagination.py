"""Lists in pages: a cursor names the last item that was given."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

T = TypeVar("T")


def page_of(
    items: Sequence[T], cursor: str | None, size: int, name_of: Callable[[T], str]
) -> tuple[Sequence[T], dict[str, str]]:
    """Return a page of items, and what an answer says of the next one, if there is any.

    Args:
        items: All of them, in an order that stays.
        cursor: Where the page before ended; None for the first.
        size: How many a page has.
        name_of: What names an item among the others.

    Raises:
        MCPError: When the cursor was not given out here, or what it names is gone.
    """
    start = 0 if cursor is None else _after(items, cursor, name_of)
    page = items[start : start + size]
    more = start + size < len(items)
    return page, {"nextCursor": _cursor(name_of(page[-1]))} if more else {}


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _after(items: Sequence[T], cursor: str, name_of: Callable[[T], str]) -> int:
    try:
        name = base64.urlsafe_b64decode(cursor.encode()).decode()
    except (binascii.Error, ValueError):
        name = None
    for place, item in enumerate(items):
        if name_of(item) == name:
            return place + 1
    raise MCPError(
        INVALID_PARAMS, "This cursor is unknown, or the list has changed. List from the start."
    )
