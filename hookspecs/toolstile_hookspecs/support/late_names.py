"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports names when they are first used.

    Args:
        package: The package, `__name__`.
        homes: By module within the package, its names, separated by spaces.

    Example:
        >>> late_names("toolstile_hookspecs", {"markers": "PROJECT HOOK_PREFIX"})("PROJECT")
        'toolstile'
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807 - of the package
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
