"""The process of a handler: finds and runs the handler, which asks the parent for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import json
import logging
import os
import sys
from types import ModuleType
from typing import Any, cast

from toolstile_hookspecs import Tool, ToolResult, tool
from toolstile_hookspecs.codecs import imported_from
from toolstile_plugins.isolation.child_process import outcome_of, parent_socket, tell
from toolstile_plugins.isolation.messages import (
    MAIN,
    Call,
    Done,
    HandlerValues,
    SocketChannel,
    Start,
    result_codec,
    written,
)
from toolstile_plugins.isolation.proxies import Parent, make_context

log = logging.getLogger("toolstile.isolation")


def main() -> None:
    """Run the handler that the parent names, over the socket whose descriptor is given."""
    channel = SocketChannel(parent_socket())
    done = outcome_of(lambda: _run(cast("Start", channel.receive()), Parent(channel)))
    with contextlib.suppress(OSError):  # The parent may be gone.
        tell(channel, done)
    os._exit(0)


def _run(start: Start, parent: Parent) -> Done:
    sys.path[:] = start.path
    if start.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = start.python_path
    found: Any = functools.reduce(getattr, start.name.split("."), _module(start))
    if issubclass(found.__class__, Tool):
        found_tool: Tool[Any, Any] = found
    elif start.decorated:
        found_tool = tool(name=start.tool, description=start.tool)(found)
    else:
        # A type without a place is `Any` here; the handler's annotations name it.
        types = [Any if place is None else imported_from(place) for place in start.types]
        make: Any = Tool
        found_tool = make[tuple(types)](name=start.tool, description=start.tool, handler=found)
    return run_handler(found_tool, start.call, parent)


def run_handler(tool: Tool[Any, Any], call: Call, parent: Parent) -> Done:
    """Run a tool's handler, with the parent's answers; `RuntimeError`: its result is unsendable."""
    params = tool.params_codec.copy(call.arguments)
    with contextlib.ExitStack() as stack:
        context = make_context(call, parent, stack)
        for crossing in call.crossings:
            # Exceptions are only logged, because a trace must not change the outcome.
            try:
                trace = HandlerValues().read(json.loads(crossing))
                trace.__enter__()
                stack.callback(_leave, trace)
            except Exception:
                log.exception("A trace failed to go along into a process.")
        value = tool.signature.invoke(params, context=context)
        if asyncio.iscoroutine(value):
            value = asyncio.run(value)
        return _done(tool, value)


def _done(tool: Tool[Any, Any], result: Any) -> Done:
    type_: Any = result.__class__
    if not issubclass(type_, ToolResult):
        if not tool.signature.wraps:
            raise RuntimeError(f"its handler returned {type_.__name__}, not a ToolResult")
        return Done(_written(tool, result))
    if type_ is not ToolResult:
        told = f"its handler returned {type_.__name__}, which would come back as ToolResult"
        raise RuntimeError(f"{told}; return a ToolResult")
    if not isinstance(result.message, str):
        name = type(result.message).__name__
        raise RuntimeError(f"its handler returned a ToolResult whose message is {name}, not str")  # noqa: TRY004 - as the host does
    # The value of a failure is never read.
    text = _written(tool, result.value) if result.success else None
    excluded = result.exclude_value_from_context
    return Done(text, result.message, success=result.success, excluded=excluded)


def _written(tool: Tool[Any, Any], value: Any) -> str | None:
    if value is None:
        return None
    try:
        return written(result_codec(tool), value, "value")
    except ValueError as error:
        raise RuntimeError(f"its result cannot be sent to its host: {error}") from error


def _leave(trace: contextlib.AbstractContextManager[None]) -> None:
    try:
        trace.__exit__(None, None, None)
    except Exception:
        log.exception("A trace failed to end in a process.")


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
        raise ImportError(f"the module {start.module} of its handler has no file to load")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
