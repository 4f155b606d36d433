"""Finds and reads the configuration file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, cast

from toolstile.settings.model import HostTable, Settings, folded
from toolstile.settings.table_validation import beside, expanded, validate_table
from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.support.text import nearest

OWN_FILE: Final = "toolstile.toml"
PROJECT_FILE: Final = "pyproject.toml"


def find(start: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the nearest configuration upward from a directory, with its table.

    In one directory `toolstile.toml` comes before `[tool.toolstile]` of `pyproject.toml`.
    `ConfigurationError`: a file that is there cannot be read, or is none.
    """
    for directory in (start, *start.parents):
        own = directory / OWN_FILE
        if _is_there(own):
            return own, _own_table(own)
        project = directory / PROJECT_FILE
        if _is_there(project) and (table := _project_table(project)) is not None:
            return project, table
    return None


def _own_table(path: Path) -> Mapping[str, Any]:
    table = read_toml(path)
    tool = table.get("tool")
    if isinstance(tool, Mapping) and "toolstile" in tool:
        misplaced = "tool.toolstile"
    elif isinstance(table.get("toolstile"), Mapping):
        misplaced = "toolstile"
    else:
        return table
    raise ConfigurationError(
        f"{path}: [{misplaced}] has no place here. Remove that line, so that its keys stand at the "
        f"top of the file, and write [plugins.NAME] for [{misplaced}.plugins.NAME]."
    )


def _project_table(path: Path) -> Mapping[str, Any] | None:
    # Most projects do not configure Toolstile: theirs need not be parsed, nor even be right.
    if b"toolstile" not in _bytes(path):
        return None
    tool = read_toml(path).get("tool")
    table = cast("Mapping[str, Any]", tool).get("toolstile") if isinstance(tool, Mapping) else None
    if table is not None and not isinstance(table, Mapping):
        raise ConfigurationError(f"{path}: tool.toolstile: expected a table, [tool.toolstile].")
    return cast("Mapping[str, Any] | None", table)


def read_toml(path: Path) -> Mapping[str, Any]:
    """Parse a TOML file; `ConfigurationError` if it cannot be read."""
    content = _bytes(path)
    try:
        return deepcopy(_parsed(content))
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise ConfigurationError(f"{path} is not valid TOML: {reason}. Correct it there.")


@cached(64)
def _parsed(content: bytes) -> Mapping[str, Any]:
    # Some editors begin a file with a byte order mark.
    return tomllib.loads(content.decode("utf-8-sig"))


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error
    return True


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or error
    remedy = "Make the file readable, or name another file."
    return ConfigurationError(f"{path} cannot be read: {reason}. {remedy}")


# --- Environment variables


BLOCK: Final = "TOOLSTILE_BLOCK"
OPTIONAL: Final = "TOOLSTILE_OPTIONAL_PLUGINS"
TABLES: Final = "TOOLSTILE_PLUGINS__"

PREFIX: Final = "TOOLSTILE_"
_OF_FILES: Final = frozenset({"plugin_files", "policies", "policy", "prompt_overrides", "tools"})
"""Keys that only a file can give."""
KEYS: Final = {
    f"{PREFIX}{key.upper()}": key
    for key in sorted(
        {*HostTable.model_fields} - {*_OF_FILES, "block", "optional_plugins", "plugins"}
    )
}
"""The variables that stand for a key."""
_TABLES: Final = TABLES.removeprefix(PREFIX).rstrip("_")
_SPELT: Final = (*(variable.removeprefix(PREFIX) for variable in (*KEYS, BLOCK, OPTIONAL)), _TABLES)
_ALIKE: Final = 0.8
"""The similarity at which a variable counts as a misspelling of one of ours."""
_TEXTS: Final = frozenset({"approval_key", "approval_spent", "approver"})


Keys = tuple[str, ...]
"""The keys that lead to a place in a document."""


def names_in(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """Return the plugins that a variable such as TOOLSTILE_BLOCK names, separated by commas."""
    return tuple(name for part in environ.get(variable, "").split(",") if (name := part.strip()))


def overrides(
    environ: Mapping[str, str], plugins: Mapping[str, object]
) -> Iterator[tuple[str, Keys, Any]]:
    """Yield the variables that override something, in order, each with place and value.

    Empty variables count as unset. The names of existing tables are recognised in upper case.
    `ConfigurationError`: a variable names no key, is misspelt, or sets a key that only a file can
    set.
    """
    for variable in sorted(environ):
        text = environ[variable]
        if not text:
            continue
        if variable in KEYS:
            key = KEYS[variable]
            value = text if key in _TEXTS else as_toml(text)
            if key == "approval_spent":
                # The path of a variable is relative to the working directory of the process.
                value = str(Path.cwd() / expanded(Path(text)))
            yield variable, (key,), value
        elif variable.startswith(TABLES):
            name, *keys = (part.lower() for part in variable.removeprefix(TABLES).split("__"))
            if not name or not keys or not all(keys):
                raise ConfigurationError(
                    f"{variable}: write TOOLSTILE_PLUGINS__NAME__KEY, a plugin's name and one of "
                    "its keys."
                )
            table = next((plugin for plugin in plugins if folded(plugin) == name), name)
            yield variable, ("plugins", table, *keys), as_toml(text)
        elif variable.startswith(PREFIX) and variable not in {BLOCK, OPTIONAL}:
            _refuse_slip(variable)


def as_toml(text: str) -> Any:
    """Return the TOML value that a text stands for, or the text when it is none.

    Example:
        >>> as_toml("5"), as_toml("[1, 2]"), as_toml("https://example.org")
        (5, [1, 2], 'https://example.org')
    """
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if document.keys() == {"value"} else text


def apply(values: Mapping[Keys, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document with values in their places."""
    result = dict(document)
    for keys, value in values.items():
        at = result
        for key in keys[:-1]:
            below = at.get(key)
            at[key] = dict(cast("Mapping[str, Any]", below)) if isinstance(below, Mapping) else {}
            at = at[key]
        at[keys[-1]] = value
    return result


def _refuse_slip(variable: str) -> None:
    first, *keys = variable.removeprefix(PREFIX).split("__")
    if first.lower() in _OF_FILES:
        raise ConfigurationError(
            f"{variable} is not a setting of Toolstile; write {first.lower()} in the configuration "
            "file."
        )
    near = nearest(first, _SPELT, _ALIKE)
    if near is not None:
        meant = TABLES + ("__".join(keys) or "NAME__KEY") if near == _TABLES else PREFIX + near
        raise ConfigurationError(f"{variable} is not a setting of Toolstile; did you mean {meant}?")


# --- Command-line options


SOURCE: Final = "the command line"
TOO_LATE: Final = frozenset({"block", "plugin_files"})
"""The keys that decide which plugins are loaded, and so which options exist."""


def overridden(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with other values for dotted keys, such as `plugins.vfs.root`.

    `ConfigurationError`: one of the host's own keys is unknown, comes too late, or has a value that
    does not fit. A plugin's keys are checked with the rest of its table.
    """
    found = {_override_path(settings, key): value for key, value in values.items()}
    document = apply(found, {"plugins": settings.plugins})
    host = validate_table(HostTable, document, plugin=None, source=SOURCE)
    changed: dict[str, Any] = {name: getattr(host, name) for name in document}
    origins = dict.fromkeys(map(".".join, found), SOURCE)
    changed["variables"] = {**settings.variables, **origins}
    return settings.replaced(**changed)


def _override_path(settings: Settings, key: str) -> Keys:
    first, *rest = key.split(".")
    if first in TOO_LATE or (rest and first == "plugins" and rest[1:] == ["enabled"]):
        raise ConfigurationError(
            f"{SOURCE}: {key} decides which plugins are loaded, which they are already. Give it "
            "in the configuration file, or with --block or --plugin."
        )
    if first != "plugins" or not rest:
        return (first, *rest)
    return (first, settings.table_name(rest[0]) or rest[0], *rest[1:])


# --- Settings from all sources


def load(
    start: Path | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of a directory, or of a named file.

    A file is looked for upward from `start`, by default the working directory. The variables of the
    environment override it. A `ConfigurationError` names the file or variable, the key, the
    expected and the found value.
    """
    variables = os.environ if environ is None else environ
    path, document = _document(start, config)
    directory = Path.cwd() if path is None else path.parent
    tables: object = document.get("plugins", {})
    known = cast("Mapping[str, object]", tables if isinstance(tables, Mapping) else {})
    found = list(overrides(variables, known))
    origins = {".".join(keys): variable for variable, keys, _ in found}
    values = {keys: value for _, keys, value in found}
    host = validate_table(
        HostTable,
        apply(values, beside(directory, document, HostTable)),
        plugin=None,
        source=Settings(path=path, variables=origins).source_of,
    )
    settled = dict(host)
    # Names of both places hold: a variable switches no plugin on that the file switches off.
    for key, variable in (("block", BLOCK), ("optional_plugins", OPTIONAL)):
        settled[key] = tuple(dict.fromkeys((*settled[key], *names_in(variables, variable))))
    return Settings(path=path, variables=origins, **settled)


def _document(start: Path | None, config: Path | None) -> tuple[Path | None, Mapping[str, Any]]:
    if config is not None:
        path = expanded(config).absolute()
        table = _project_table(path) if path.name == PROJECT_FILE else _own_table(path)
        if table is None:
            raise ConfigurationError(
                f"{path} has no table [tool.toolstile]; add it, or name another file with --config."
            )
        return path, table
    try:
        directory = (start or Path.cwd()).absolute()
    except FileNotFoundError as error:
        msg = "The working directory is gone: it was removed. Change to one that is there."
        raise ConfigurationError(msg) from error
    return find(directory) or (None, {})
