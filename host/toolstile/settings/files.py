"""Finds and reads the configuration file."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from toolstile_hookspecs import ConfigurationError

OWN_FILE: Final = "toolstile.toml"
PROJECT_FILE: Final = "pyproject.toml"


def find(start: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the nearest configuration upward from a directory, with its table.

    In one directory `toolstile.toml` comes before `[tool.toolstile]` of `pyproject.toml`.

    Raises:
        ConfigurationError: When a file that is there cannot be read, or is none.
    """
    for directory in (start, *start.parents):
        own = directory / OWN_FILE
        if _is_file(own):
            return own, _own_table(own)
        if own.is_dir():
            msg = (
                f"{own} is a directory, not a configuration file; give the directory another name, "
                "or name a file with --config."
            )
            raise ConfigurationError(msg)
        project = directory / PROJECT_FILE
        if _is_file(project) and (table := _project_table(project)) is not None:
            return project, table
    return None


def read_given(path: Path) -> Mapping[str, Any]:
    """Return the table of a file that was named, which therefore must be there.

    Raises:
        ConfigurationError: When it is not there, cannot be read, or is a `pyproject.toml`
            without `[tool.toolstile]`.
    """
    if not _is_file(path):
        what = "is not a file" if path.exists() else "does not exist"
        msg = f"{path} {what}; name an existing configuration file with --config."
        raise ConfigurationError(msg)
    if path.name != PROJECT_FILE:
        return _own_table(path)
    table = _project_table(path)
    if table is None:
        msg = f"{path} has no table [tool.toolstile]; add it, or name another file with --config."
        raise ConfigurationError(msg)
    return table


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
    if table is None:
        return None
    if not isinstance(table, Mapping):
        msg = f"{path}: tool.toolstile: expected a table, [tool.toolstile]."
        raise ConfigurationError(msg)
    return cast("Mapping[str, Any]", table)


def read_toml(path: Path) -> Mapping[str, Any]:
    """Return what a TOML file holds.

    Raises:
        ConfigurationError: When it cannot be read, or is no TOML.
    """
    content = _bytes(path)
    try:
        # Some editors begin a file with a byte order mark.
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = str(error)
    msg = f"{path} is not valid TOML: {reason}. Correct it there."
    raise ConfigurationError(msg)


def _is_file(path: Path) -> bool:
    """Tell whether a file is there; that it cannot be found out is no reason to go on without."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        if path.is_symlink():
            msg = f"{path} is a link to what is not there; mend the link, or remove it."
            raise ConfigurationError(msg) from None
        return False
    except (NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    told = f"{path} cannot be read: {error.strerror or error}. See to it that it can be."
    return ConfigurationError(told)
