"""The backends: what a handler sees of them, and how one is started."""

from __future__ import annotations

import copy
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES


class Backends(ABC):
    """The backends, as a handler's call sees them."""

    @abstractmethod
    def view(self, suite: str) -> Any:
        """Return a backend that must not be changed, because other calls may see it too."""

    @abstractmethod
    def edit(self, suite: str) -> Any:
        """Return a backend of the call's own; what it changes is kept if the call succeeds."""


def start_backend(suite: str, scenario: Mapping[str, Any]) -> Any:
    """Return a new backend in the state that the scenario describes.

    Args:
        suite: The name of the backend's class.
        scenario: The start state; empty for the backend's own defaults. It is copied.
    """
    backend = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[suite]), suite)()
    if suite not in STATELESS_CLASSES:
        backend._load_scenario(copy.deepcopy(dict(scenario)), long_context=False)
    return backend
