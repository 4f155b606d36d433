"""A plugin that lets the host have one more tool while it is served."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

from toolstile_hookspecs import HostHandle, MarkdownSection, hookimpl, tool

hosts: list[HostHandle] = []


@tool(category="read")
def grown() -> str:
    """Say that it has grown."""
    return "grown"


@tool
def grow() -> None:
    """Register one more plugin."""
    section = MarkdownSection(key="grown", title="Grown", tools=[grown])
    hosts[0].register(SimpleNamespace(toolstile_sections=hookimpl(lambda: [section])), "grown")


@hookimpl
@contextmanager
def toolstile_lifespan(host):
    hosts.append(host)
    yield


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="growing", title="Growing", tools=[grow])]
