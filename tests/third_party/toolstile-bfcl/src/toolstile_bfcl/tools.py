"""One tool for each method of a backend."""

from __future__ import annotations

import decimal
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from toolstile_bfcl.backends import Backends
from toolstile_bfcl.json_form import json_form
from toolstile_bfcl.methods import Method, methods_of
from toolstile_hookspecs import Tool, ToolContext, ToolResult

_precision = threading.Lock()


@functools.cache
def tools_of(suite: str) -> tuple[Tool[Any, Any], ...]:
    """Return the tools of a suite, which hold no state and serve all sessions."""
    return tuple(_make_tool(method) for method in methods_of(suite))


def _make_tool(method: Method) -> Tool[Any, Any]:
    return Tool(
        name=method.tool_name,
        wire_name=method.name,
        description=method.summary,
        long_description=method.text,
        params_schema=method.params,
        handler=_make_handler(method),
        category=method.category,
        consequence="low" if method.category == "read" else "medium",
        contained=True,
        concurrency="serial" if method.alone else "parallel",
        tags=("bfcl", method.suite),
    )


def _make_handler(method: Method) -> Callable[..., ToolResult[Any]]:
    reads = method.category == "read"

    def handle(params: dict[str, Any], *, context: ToolContext) -> ToolResult[Any]:
        backends = context.resources.get(Backends)
        backend = backends.view(method.suite) if reads else backends.edit(method.suite)
        with _surroundings(alone=method.alone):
            value = json_form(getattr(backend, method.name)(**params))
        if isinstance(value, dict) and value.keys() == {"error"}:
            return ToolResult.error(str(value["error"]))
        return ToolResult.ok(value)

    return handle


@contextmanager
def _surroundings(*, alone: bool) -> Iterator[None]:
    """Put back the precision of `decimal` and, for what runs alone, of `mpmath`.

    The host runs one call of a serial tool at a time in a session; the lock also keeps the
    sessions of one process apart.
    """
    with decimal.localcontext():
        if not alone:
            yield
            return
        import mpmath

        with _precision, mpmath.workprec(mpmath.mp.prec):
            yield
