"""Code mode: `run_python` runs scripts whose functions are the tools of the prompt.

Settings, `[plugins.code]`: see `CodeConfig`. Each function that a script calls is a nested,
governed call of the script's transaction. Monty runs scripts in processes of their own (the extra
`code`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pydantic import BaseModel

from toolstile_hookspecs import HostHandle, MarkdownSection, Section, hookimpl
from toolstile_plugins.code.section import CodeSection, code_tool, section_parts
from toolstile_plugins.code.settings import CodeConfig, monty

__all__ = ["CodeConfig", "CodeSection", "code_tool"]

toolstile_on_request = "there is no code mode; add [plugins.code] to the configuration"


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return CodeConfig


@hookimpl
def toolstile_sections(settings: CodeConfig) -> list[Section]:
    """Offer `run_python`; its library is needed once a host that offers it opens."""
    return [MarkdownSection(**section_parts(settings))]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: CodeConfig) -> Generator[None]:
    """Refuse to open without the library, where scripts are offered; end the workers at the end."""
    if any(host.catalog.plugin_of(name) == "code" for name in host.catalog.names()):
        monty()
    try:
        yield
    finally:
        settings.pool.close()
