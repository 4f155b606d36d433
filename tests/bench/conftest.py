"""The benchmarks' modules."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODULES = (
    "against",
    "contestant",
    "findings",
    "measuring",
    "pages",
    "peers",
    "rounds",
    "sampling",
    "tables",
    "ways",
    "worker",
)


@pytest.fixture(scope="module")
def bench():
    """Bring in the modules, which are a script's and no package's."""
    known = set(sys.modules)
    sys.path[:0] = [str(BENCH / "peers"), str(BENCH)]
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        del sys.path[:2]
        for name in set(sys.modules) - known:
            if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
