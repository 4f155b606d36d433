"""The process of a handler: it finds and runs the handler, and asks the parent for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from toolstile_hookspecs import Tool, tool
from toolstile_plugins.isolation.messages import MAIN, Done, Rest, Start, portable_error
from toolstile_plugins.isolation.proxies import Parent, make_context

log = logging.getLogger("toolstile.isolation")


def main() -> None:
    """Run the handler that the parent names, over the pipe whose descriptor is given."""
    descriptor = int(sys.argv[1])
    # Programs that the handler starts must not keep the pipe open.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - no keyword is taken
    pipe = Connection(descriptor)
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()
    try:
        start = pipe.recv()
        done = Done(_run(start, Parent(pipe)))
    except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
        done = Done(None, portable_error(error), traceback.format_exc())
    for stream in (sys.stdout, sys.stderr):
        # The handler may have closed it, or nobody may read it any more.
        with contextlib.suppress(Exception):
            stream.flush()
    _send(pipe, done)
    os._exit(0)


def _end_with_parent(descriptor: int) -> None:
    """End, with all that was started here, when the other end of the pipe is gone."""
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _run(start: Start, parent: Parent) -> Any:
    sys.path[:] = start.path
    if start.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = start.python_path
    found: Any = functools.reduce(getattr, start.name.split("."), _module(start))
    rest: Rest = pickle.loads(start.rest)  # noqa: S301 - sent by the parent
    invoke, params = _invoked(found, start, rest)
    with contextlib.ExitStack() as stack:
        for crossing in start.crossings:
            _enter(stack, crossing)
        value = invoke(params, context=make_context(rest, parent))
        return asyncio.run(value) if asyncio.iscoroutine(value) else value


def _enter(stack: contextlib.ExitStack, crossing: bytes) -> None:
    """Enter the trace of a plugin; an exception is logged and changes nothing."""
    try:
        trace = pickle.loads(crossing)  # noqa: S301 - sent by the parent
        trace.__enter__()
        stack.callback(_leave, trace)
    except Exception:
        log.exception("A trace failed to go along into a process.")


def _leave(trace: contextlib.AbstractContextManager[None]) -> None:
    try:
        trace.__exit__(None, None, None)
    except Exception:
        log.exception("A trace failed to end in a process.")


def _invoked(found: Any, start: Start, rest: Rest) -> tuple[Callable[..., Any], Any]:
    """Return the handler in its full form, and its params."""
    if start.arguments is None:
        return (found.signature.invoke if isinstance(found, Tool) else found), rest.params
    made: Any = found
    if not isinstance(found, Tool):
        made = tool(name=start.tool, description=start.tool)(found)
    return made.signature.invoke, made.params_codec.copy(start.arguments)


def _module(start: Start) -> ModuleType:
    if start.module == "__main__":
        module = sys.modules["__main__"] = _load(MAIN, start)
        return module
    try:
        return importlib.import_module(start.module)
    except ModuleNotFoundError:
        if start.file is None:
            raise
    return _load(start.module, start)


def _load(name: str, start: Start) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, start.file) if start.file else None
    if spec is None or spec.loader is None:
        msg = f"the module {start.module} of its handler is in no file that could be loaded"
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
        pipe.send(Done(None, RuntimeError(text)))


if __name__ == "__main__":
    main()
