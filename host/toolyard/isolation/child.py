"""The process a handler runs in: finds the handler, runs it, asks the parent for the rest."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
import traceback
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from toolyard.isolation.messages import Done, Start, portable_error
from toolyard.isolation.proxies import Parent, make_context
from toolyard_hookspecs import Tool


def main() -> None:
    """Run the handler that the parent names, over the pipe whose descriptor is given."""
    pipe = Connection(int(sys.argv[1]))
    start = pipe.recv()
    try:
        value = _run(start, Parent(pipe))
        done = Done(value)
    except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
        done = Done(None, portable_error(error), traceback.format_exc())
    _send(pipe, done)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(start: Start, parent: Parent) -> Any:
    sys.path[:] = start.path
    handler = _find(start)
    context = make_context(start, parent)
    value = handler(start.params, context=context)
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


def _find(start: Start) -> Any:
    found: Any = _module(start)
    for part in start.name.split("."):
        found = getattr(found, part)
    return found.signature.invoke if isinstance(found, Tool) else found


def _module(start: Start) -> ModuleType:
    name = "__toolyard_main__" if start.module == "__main__" else start.module
    if start.module != "__main__":
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            if start.file is None:
                raise
    spec = importlib.util.spec_from_file_location(name, start.file or "")
    if spec is None or spec.loader is None:
        msg = f"the module {start.module} of the handler cannot be loaded from {start.file}"
        raise ImportError(msg)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _send(pipe: Connection, done: Done) -> None:
    try:
        pipe.send(done)
    except (OSError, EOFError):
        return
    except Exception as error:  # noqa: BLE001 - a value that cannot be pickled
        text = f"its result cannot be sent to the parent process ({error}); return plain data"
        pipe.send(Done(None, TypeError(text)))


if __name__ == "__main__":
    main()
