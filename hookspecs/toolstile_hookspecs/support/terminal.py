"""The width of a console."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

_WIDTH: Final = re.compile("0*[1-9][0-9]{0,8}")


def environment() -> Mapping[str, str]:
    """Return the variables that rich may go by: without a `COLUMNS` that is not positive.

    Rich takes even 0 for a width, and then shows nothing at all.
    """
    if _WIDTH.fullmatch(os.environ.get("COLUMNS", "")):
        return os.environ
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}
