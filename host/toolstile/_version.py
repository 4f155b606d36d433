"""The version, where the command line finds it without reading any metadata."""

from typing import Final

__version__: Final = "0.1.0"
