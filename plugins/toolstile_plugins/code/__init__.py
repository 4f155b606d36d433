"""Code mode: `run_python` runs scripts whose functions are the tools of the prompt.

Settings, `[plugins.code]`: see `CodeConfig`. Each function that a script calls is a nested,
governed call of the script's transaction. Monty runs scripts in worker processes (the extra
`code`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import HostHandle, MarkdownSection, Section, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.code.settings import CodeConfig, Workers, monty

if TYPE_CHECKING:
    from toolstile_plugins.code.section import CodeSection, code_tool

__all__ = ["CodeConfig", "CodeSection", "code_tool"]

toolstile_on_request = dict.fromkeys(
    ("run_python",), "the host has no code mode; add [plugins.code] to the configuration"
)

__getattr__ = late_names(__name__, {"section": "CodeSection code_tool"})


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return CodeConfig


@hookimpl
def toolstile_sections(settings: CodeConfig) -> list[Section]:
    """Offer `run_python`; its library is needed once a host that offers it opens."""
    from toolstile_plugins.code.section import section_parts

    return [MarkdownSection(**section_parts(settings))]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: CodeConfig) -> Generator[Workers]:
    """Refuse to open without the library if scripts are offered; yield the workers."""
    if any(host.catalog.plugin_of(name) == "code" for name in host.catalog.names()):
        monty()
    with closing(Workers(settings.workers)) as workers:
        yield workers
