"""What our spans and metrics are known by."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

SCOPE: Final = "toolstile_plugins.otel"
VERSION: Final = version("toolstile")
