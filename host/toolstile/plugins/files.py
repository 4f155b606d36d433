"""Loads a single Python file as a plugin."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType

from toolstile.plugins.faults import PluginFault, one_line

log = logging.getLogger(__name__)


def load_file(path: Path) -> ModuleType:
    """Return the module that a file makes; it is imported anew each time.

    Raises:
        PluginFault: When there is no such file, or it cannot be imported. The traceback is
            logged at debug level.
    """
    _check_file(path)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginFault(f"{path} cannot be imported.", "Name a file that Python can import.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, (Exception, SystemExit)):
            error.add_note(f"{path} was being imported ({type(error).__name__}).")
            raise
        log.debug("%s cannot be imported", path, exc_info=True)
        raise PluginFault(
            f"{path} cannot be imported: {one_line(error)}.", "Mend the file."
        ) from error
    return module


def forget(module: object) -> None:
    """Drop a module that `load_file` has made, when its plugin is not taken."""
    if isinstance(module, ModuleType) and sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def _check_file(path: Path) -> None:
    try:
        if path.suffix == ".py" and path.is_file():
            path.open("rb").close()
            return
        is_there = path.exists()
    except OSError as error:
        raise PluginFault(
            f"{path} cannot be read: {error.strerror}.", "See to it that it can be."
        ) from error
    cause = f"{path} is not a Python file." if is_there else f"There is no file {path}."
    raise PluginFault(cause, "Name an existing file that ends in .py.")


def _module_name(path: Path) -> str:
    # Two files of one name stay apart, and none takes the place of an installed module.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    return f"toolstile_file_{digest}_{path.stem}"
