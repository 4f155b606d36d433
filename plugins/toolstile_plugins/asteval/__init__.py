"""Calculations: `evaluate_python` runs code of a model by asteval, in an isolated process.

Settings, `[plugins.asteval]`: see `AstevalConfig`. It is a calculator, and no boundary against
hostile code. It needs the extra `workspace`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pydantic import BaseModel

from toolstile_hookspecs import HostHandle, MarkdownSection, Section, hookimpl
from toolstile_plugins.asteval.section import AstevalSection, asteval, section_parts
from toolstile_plugins.asteval.settings import AstevalConfig

__all__ = ["AstevalConfig", "AstevalSection"]

toolstile_on_request = dict.fromkeys(
    ("evaluate_python",), "the host has no calculator; add [plugins.asteval] to the configuration"
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return AstevalConfig


@hookimpl
def toolstile_sections(settings: AstevalConfig) -> list[Section]:
    """Offer `evaluate_python`; its library is needed once a host that offers it opens."""
    return [MarkdownSection(**section_parts(settings))]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle) -> Generator[None]:
    """Refuse to open without the library if code is evaluated."""
    if any(host.catalog.plugin_of(name) == "asteval" for name in host.catalog.names()):
        asteval()
    yield
