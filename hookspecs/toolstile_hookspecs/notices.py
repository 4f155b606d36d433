"""What people have to hear of though no call fails by it: notices among the log records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_MARK: Final = "toolstile_notice"

NOTICE: Final[Mapping[str, object]] = MappingProxyType({_MARK: True})
"""Makes a log record a notice, as its `extra`.

The command line shows what befalls calls, and so leaves out what is logged of them unless it is
asked for more (`-v`). A notice it always shows: spans that no collector took, say.
"""


def is_notice(record: logging.LogRecord) -> bool:
    """Tell whether a log record is a notice.

    Example:
        >>> import logging
        >>> class Listing(logging.Handler):
        ...     def emit(self, record):
        ...         print(is_notice(record), record.getMessage())
        >>> log = logging.getLogger("demo.notices")
        >>> log.addHandler(Listing())
        >>> log.warning("%d lines are lost", 3, extra=NOTICE)
        True 3 lines are lost
    """
    return getattr(record, _MARK, None) is True
