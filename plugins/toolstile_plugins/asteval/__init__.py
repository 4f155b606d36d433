"""Calculations: `evaluate_python` runs code of a model by asteval, in a process of its own.

Settings, `[plugins.asteval]`: see `AstevalConfig`. It is a calculator, and no boundary against
hostile code. It needs the extra `asteval`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from pydantic import BaseModel

from toolstile_hookspecs import (
    ConfigurationError,
    Diagnostic,
    HostHandle,
    MarkdownSection,
    Section,
    hookimpl,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.asteval.section import NAME, AstevalSection, asteval, section_parts
from toolstile_plugins.asteval.settings import AstevalConfig

__all__ = ["AstevalConfig", "AstevalSection"]

toolstile_on_request = "there is no calculator; add [plugins.asteval] to the configuration"


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return AstevalConfig


@hookimpl
def toolstile_sections(settings: AstevalConfig) -> list[Section]:
    """Offer `evaluate_python`; its library is needed once a host that offers it opens."""
    return [MarkdownSection(**section_parts(settings))]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle) -> Generator[None]:
    """Refuse to open without the library, where code is evaluated."""
    if any(host.catalog.plugin_of(name) == "asteval" for name in host.catalog.names()):
        asteval()
    yield


@hookimpl
def toolstile_diagnose() -> Iterator[Diagnostic]:
    """Find out whether code can be evaluated."""
    try:
        library = asteval()
    except ConfigurationError:
        text = f"asteval is not installed, so {NAME} cannot evaluate code."
        yield Diagnostic.note("calculations", text, f"{extra_remedy('asteval')}.")
        return
    told = f"asteval {library.__version__} evaluates code; it is no boundary against hostile code."
    yield Diagnostic.ok("calculations", told)
