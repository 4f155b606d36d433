"""The version, where the command line finds it without reading any metadata."""

from typing import Final

__version__: Final = "0.1.0"


def requirement() -> str:
    """Return how a package says that it needs this version, such as `toolstile>=0.1,<0.2`."""
    major, minor = (int(part) for part in __version__.split(".")[:2])
    end = f"0.{minor + 1}" if major == 0 else f"{major + 1}"
    return f"toolstile>={major}.{minor},<{end}"
