"""Puts the file and the environment together to the settings of a host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from toolstile.settings import environment, files
from toolstile.settings.host_table import HostTable
from toolstile.settings.model import Settings
from toolstile.settings.paths import expanded
from toolstile.settings.tables import validate_table
from toolstile_hookspecs import ConfigurationError


def load(
    start: Path | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings that hold in a directory.

    Args:
        start: Where to look for a file, going upward; the working directory by default.
        config: The file to read instead; it must be there.
        environ: The environment, whose variables override the file; by default this
            process's.

    Raises:
        ConfigurationError: Naming the file or variable, the key, what was expected and
            what was found.
    """
    variables = os.environ if environ is None else environ
    path, document = _document(start, config)
    tables: object = document.get("plugins", {})
    known = cast("Mapping[str, object]", tables if isinstance(tables, Mapping) else {})
    overrides = list(environment.overrides(variables, known))
    origins = {".".join(each.path): each.variable for each in overrides}
    host = validate_table(
        HostTable,
        environment.apply(iter(overrides), document),
        plugin=None,
        source=Settings(path=path, variables=origins).source_of,
    )
    return _settings(path, host, environment.blocked(variables), origins)


def _document(start: Path | None, config: Path | None) -> tuple[Path | None, Mapping[str, Any]]:
    if config is not None:
        path = expanded(config).absolute()
        return path, files.read_given(path)
    return files.find(_existing(start)) or (None, {})


def _existing(start: Path | None) -> Path:
    try:
        return (start or Path.cwd()).absolute()
    except FileNotFoundError as error:
        msg = "The working directory is gone: it was removed. Change to one that is there."
        raise ConfigurationError(msg) from error


def _settings(
    path: Path | None, host: HostTable, blocked: tuple[str, ...], origins: Mapping[str, str]
) -> Settings:
    beside = Path.cwd() if path is None else path.parent
    return Settings(
        path=path,
        # Whatever switches a plugin off does so: nothing switches it on again.
        block=tuple(dict.fromkeys((*host.block, *blocked))),
        timeout=host.timeout,
        approver=host.approver,
        approval_timeout=host.approval_timeout,
        approval_expiry=host.approval_expiry,
        approval_key=host.approval_key,
        approval_spent=_spent(host.approval_spent, beside, origins),
        approve_diff=host.approve_diff,
        max_arguments=host.max_arguments,
        policies=host.policies,
        plugins=MappingProxyType(
            {name: MappingProxyType(table) for name, table in host.plugins.items()}
        ),
        plugin_files=tuple(beside / expanded(each) for each in host.plugin_files),
        prompt_overrides=(
            None if host.prompt_overrides is None else beside / expanded(host.prompt_overrides)
        ),
        variables=MappingProxyType(origins),
    )


def _spent(file: Path | None, beside: Path, origins: Mapping[str, str]) -> Path | None:
    if file is None:
        return None
    # What a variable says is relative to where the process was started.
    return (Path.cwd() if "approval_spent" in origins else beside) / expanded(file)
