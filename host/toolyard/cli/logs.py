"""What is logged while a command runs, and how it looks on stderr."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator

from toolyard.cli.text import one_line, printable

LOGGERS = ("toolyard", "toolyard_plugins", "py.warnings")


class _Lines(logging.Formatter):
    """One line per record; the traceback only where it was asked for."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        line = f"toolyard: {record.levelname.lower()}: {one_line(record.getMessage())}"
        if self._tracebacks and record.exc_info:
            line = f"{line}\n{printable(self.formatException(record.exc_info))}"
        return line


@contextlib.contextmanager
def logging_to_stderr(verbosity: int) -> Generator[None]:
    """Log to stderr within the block.

    Args:
        verbosity: 0 for nothing, because what happened to each call is shown anyway;
            1 for what is worth knowing; 2 for all, from everywhere, with tracebacks.
    """
    handler: logging.Handler = logging.NullHandler()
    if verbosity:
        handler = logging.StreamHandler()
        handler.setFormatter(_Lines(tracebacks=verbosity > 1))
    loggers = [logging.getLogger(name) for name in (LOGGERS if verbosity < 2 else ("",))]  # noqa: PLR2004
    before = [(logger.level, logger.propagate) for logger in loggers]
    logging.captureWarnings(capture=True)
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
        logger.propagate = verbosity > 1
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
