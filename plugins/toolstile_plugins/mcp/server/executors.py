"""Executors as the server needs them: progress goes to whoever asked for the call."""

from __future__ import annotations

from contextlib import AbstractContextManager

from toolstile_hookspecs import ExecutorHandle, HostHandle, ToolCall
from toolstile_plugins.mcp.server.request import current_request
from toolstile_plugins.mcp.server.sessions import OpenExecutor


def executors_of(host: HostHandle) -> OpenExecutor:
    """Return what makes an executor, with a session of its own, for a principal."""

    def open_executor(
        principal: str | None, session_id: str | None
    ) -> AbstractContextManager[ExecutorHandle]:
        return host.executor(session_id=session_id, user_id=principal, on_progress=_report)

    return open_executor


def _report(call: ToolCall, done: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - the request knows
    request = current_request()
    if request is not None:
        request.progress.report(done, total, message)
