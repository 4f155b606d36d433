"""Finds plugins among the installed distributions, and loads each by itself."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from toolstile.plugins.faults import PluginFault, one_line
from toolstile_hookspecs.markers import ENTRY_POINT_GROUP, PROJECT

log = logging.getLogger(__name__)

_SECTION: Final = f"[{ENTRY_POINT_GROUP}]"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """An entry point of the group.

    Args:
        name: The plugin's name.
        value: `module` or `module:attribute`.
        distribution: The distribution that has it.
        version: That distribution's version.
        fault: Why it cannot even be tried, if so.
    """

    name: str
    value: str
    distribution: str | None
    version: str | None
    fault: PluginFault | None = None

    def load(self) -> object:
        """Import it.

        Raises:
            PluginFault: Whatever goes wrong; the traceback is logged at debug level.
        """
        if self.fault is not None:
            raise self.fault
        try:
            return _imported(self.value)
        # A script that was taken for a module ends with SystemExit; that must not end the host.
        except (Exception, SystemExit) as error:
            log.debug("Plugin %r cannot be imported", self.name, exc_info=True)
            raise self._import_fault(error) from error

    def _import_fault(self, error: BaseException) -> PluginFault:
        reinstall = f"Reinstall {self.distribution or 'the plugin'}"
        block = f"or switch it off with TOOLSTILE_BLOCK={self.name}"
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            own = re.split(r"[:\s\[]", self.value, maxsplit=1)[0]
            if own != error.name and not own.startswith(f"{error.name}."):
                return PluginFault(
                    f"{self.value} cannot be imported: it needs the module {error.name!r}, "
                    "which is not installed.",
                    f"Install what provides {error.name!r}, {block}.",
                )
        return PluginFault(
            f"{self.value} cannot be imported: {one_line(error)}.",
            f"{reinstall} in a version that works here, {block}. "
            f"Its author finds the place with `toolstile check {self.name}`.",
        )


def _imported(value: str) -> object:
    from importlib_metadata import EntryPoint

    if EntryPoint.pattern.match(value) is None:
        msg = "the entry point is neither `module` nor `module:attribute`"
        raise ValueError(msg)
    return cast("object", EntryPoint("", value, ENTRY_POINT_GROUP).load())


class _Distribution(Protocol):
    """What is read of a distribution."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Its metadata."""
        ...

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of its metadata, None when it is not there."""
        ...


_Fingerprint = tuple[tuple[str, int | None], ...]
_scanned: dict[_Fingerprint, tuple[FoundPlugin, ...]] = {}


def installed() -> tuple[FoundPlugin, ...]:
    """Return the plugins of the installed distributions; none of them is imported.

    Toolstile's own come first, then all others by name and distribution. The scan is kept
    until the import path, or a directory on it, changes.
    """
    fingerprint = tuple((entry, _modified(entry)) for entry in sys.path)
    found = _scanned.get(fingerprint)
    if found is None:
        found = tuple(sorted(_scan(), key=_rank))
        _scanned.clear()
        _scanned[fingerprint] = found
    return found


def _rank(found: FoundPlugin) -> tuple[bool, str, str]:
    return found.distribution != PROJECT, found.name, found.distribution or ""


def _modified(entry: str) -> int | None:
    try:
        return os.stat(entry or os.curdir).st_mtime_ns  # noqa: PTH116 - a hundred times per start
    except OSError:
        return None


def _scan() -> Iterator[FoundPlugin]:
    import importlib_metadata

    seen: set[str] = set()
    distributions = cast("Iterable[_Distribution]", cast("Any", importlib_metadata).distributions())
    for distribution in distributions:
        text = _entry_points(distribution)
        if _SECTION not in text:
            continue
        name, version = _identity(distribution)
        # The first on the path is the one that is imported from; the others are shadowed.
        if name is not None:
            folded = re.sub(r"[-_.]+", "-", name).lower()
            if folded in seen:
                continue
            seen.add(folded)
        yield from _plugins_in(text, name, version)


def _entry_points(distribution: _Distribution) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except Exception:
        log.debug("A distribution's entry points cannot be read", exc_info=True)
        return ""


def _identity(distribution: _Distribution) -> tuple[str | None, str | None]:
    try:
        metadata = distribution.metadata
        return metadata["Name"], metadata["Version"]
    except Exception:
        log.debug("A distribution's metadata cannot be read", exc_info=True)
        return None, None


def _plugins_in(text: str, distribution: str | None, version: str | None) -> Iterator[FoundPlugin]:
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == _SECTION
            continue
        if not inside or not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        fault = None
        if not equals or not name:
            fault = PluginFault(
                f"The line {line!r} of its entry points is not `name = module`.",
                "Correct it in the distribution's pyproject.toml, and install it again.",
            )
        yield FoundPlugin(name, value, distribution, version, fault)
