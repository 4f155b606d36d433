"""The framework of an adapter: what the adapter works with, and what is installed."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final

from importlib_metadata import PackageNotFoundError, requires, version

from toolstile_hookspecs.support.text import extra_remedy

_NAME: Final = re.compile(r"[\w.-]+")


class FrameworkImport:
    """Says in one sentence why a framework cannot be imported, and with what releases it can.

    Args:
        extra: The extra of ours that installs it.

    Example:
        >>> with FrameworkImport("llm"):
        ...     from llm import no_such_name
        Traceback (most recent call last):
        ImportError: ...
    """

    def __init__(self, extra: str) -> None:
        self._extra = extra

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Raise the sentence, where an import has failed.

        Raises:
            ImportError: With the releases that work, and what is installed.
        """
        if not isinstance(error, ImportError):
            return
        needed = _needed(self._extra)
        here = " and ".join(_installed(_NAME.findall(each)[0]) for each in needed)
        raise ImportError(
            f"The adapter works with {' and '.join(needed)}, and here is {here} ({error}). "
            f"{extra_remedy(self._extra)}.",
            name=error.name,
        ) from error


def _needed(extra: str) -> list[str]:
    stated = [each.partition("; extra == ") for each in requires("toolstile") or ()]
    return [needed for needed, _, of in stated if of.strip("\"'") == extra]


def _installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"
