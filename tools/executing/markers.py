"""The markers in comments just above a block."""

from __future__ import annotations

import re
from collections import defaultdict

_KNOWN = {"file", "exit", "typed", "instead", "of", "client", "needs"}
_ABOVE = re.compile(r"(?:^ *<!-- \w+: [^\n]* -->\n)+\Z", re.MULTILINE)
_MARKER = re.compile(r"^ *<!-- (\w+): ([^\n]*) -->$", re.MULTILINE)


def markers(text: str, start: int) -> dict[str, list[str]]:
    """Return what is said of the block that starts at a place of a page's text.

    Raises:
        ValueError: When it is nothing that is known.
    """
    above = _ABOVE.search(text[:start])
    said: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in _MARKER.findall(above[0]) if above else ():
        if name not in _KNOWN:
            raise ValueError(f"a comment says {name!r}; known are {', '.join(sorted(_KNOWN))}")
        said[name].append(value)
    return said
