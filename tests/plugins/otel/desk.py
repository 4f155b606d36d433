"""A plugin in a single file: tools that run in processes of their own, and keep secrets."""

from __future__ import annotations

import logging
import os
from typing import Any

from opentelemetry import trace
from pydantic import SecretStr

from toolstile_hookspecs import MarkdownSection, PolicyDecision, ToolContext, hookimpl, tool

log = logging.getLogger("desk")
tracer = trace.get_tracer("desk")


@tool(isolation="process", timeout=60)
def apart(word: str, *, context: ToolContext) -> int:
    """Trace some work in a process of its own, and call another tool."""
    with tracer.start_as_current_span("work apart"):
        log.warning("apart %s", word)
    return context.call("inside", {"word": word}).result.value + 0 * os.getpid()


@tool(isolation="process", timeout=60)
def ids() -> list[str]:
    """Say what a log record made in a process of its own carries."""
    record = log.makeRecord("desk", logging.INFO, "desk.py", 1, "text", (), None)
    return [vars(record)[name] for name in ("otelTraceID", "otelSpanID", "toolstileCallID")]


@tool
def inside(word: str) -> int:
    """Trace some work."""
    with tracer.start_as_current_span("work inside"):
        return len(word)


@tool(timeout=60)
def sign_in(name: str, password: SecretStr) -> dict[str, Any]:
    """Sign in."""
    log.info("signing in %s with %s", name, password)
    if name == "mallory":
        raise PermissionError(f"{password.get_secret_value()} is not Mallory's")
    return {"name": name, "password": password, "token": f"{password.get_secret_value()}-t"}


@hookimpl
def toolstile_check(tool: Any, params: Any) -> PolicyDecision | None:
    """Know whom to refuse, and say too much."""
    if tool.name == "sign_in" and params.name == "eve":
        return PolicyDecision.deny(f"Eve has {params.password.get_secret_value()}.")
    return None


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools."""
    return [MarkdownSection(key="desk", title="Desk", tools=[apart, ids, inside, sign_in])]
