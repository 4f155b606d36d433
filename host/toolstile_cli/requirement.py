"""The requirement of Toolstile that a package of a plugin writes down."""

from __future__ import annotations

from toolstile import _version


def requirement() -> str:
    """Return how a package says that it needs this version, such as `toolstile>=0.1,<0.2`."""
    major, minor = (int(part) for part in _version.__version__.split(".")[:2])
    end = f"0.{minor + 1}" if major == 0 else f"{major + 1}"
    return f"toolstile>={major}.{minor},<{end}"
