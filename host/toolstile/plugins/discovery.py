"""Finds plugins among the installed distributions, and loads each by itself."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from toolstile._version import __version__
from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.plugins.reports import PluginSource
from toolstile_hookspecs.markers import ENTRY_POINT_GROUP, PROJECT
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.support.deprecation import CONTRACT_VERSION, REQUIRES, parsed_version

log = logging.getLogger(__name__)

_SECTION: Final = f"[{ENTRY_POINT_GROUP}]"
_HEADER: Final = re.compile(r"^(Name|Version):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_CONTRACT: Final = "toolstile_hookspecs"


def load_entry_point(found: PluginSource) -> object:
    """Import a plugin that `installed` has found; a `PluginFault` stands for any error."""
    try:
        value = found.location or ""
        if EntryPoint.pattern.match(value) is None:
            msg = "the entry point is neither `module` nor `module:attribute`"
            raise ValueError(msg)  # noqa: TRY301 - reported like an exception of the import
        return cast("object", EntryPoint("", value, ENTRY_POINT_GROUP).load())
    # A script that was taken for a module ends with SystemExit; that must not end the host.
    except (Exception, SystemExit) as error:
        log.debug("Plugin %r cannot be imported", found.name, exc_info=True)
        cause = f"{found.location} cannot be imported:"
        block = f"or switch it off with TOOLSTILE_BLOCK={found.name}"
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            own = re.split(r"[:\s\[]", found.location or "", maxsplit=1)[0]
            if own != error.name and not own.startswith(f"{error.name}."):
                raise PluginFault(
                    f"{cause} it needs the module {error.name!r}, which is not installed.",
                    f"Install the package that provides {error.name!r}, {block}.",
                ) from error
        raise PluginFault(
            f"{cause} {one_line(error)}.",
            f"Reinstall {found.distribution or 'the plugin'} in a version that works here, {block}."
            f" Its author finds the place with `toolstile check {found.name}`.",
        ) from error


def installed() -> tuple[PluginSource, ...]:
    """Return the plugins of the installed distributions; none of them is imported.

    Toolstile's own come first, then all others by name and distribution.
    """
    return _installed(tuple(sys.meta_path), tuple(_stamps()))


@cached(8)
def _installed(*stamps: object) -> tuple[PluginSource, ...]:  # noqa: ARG001 - the key
    return tuple(
        sorted(_scan(), key=lambda found: (found.distribution != PROJECT, found.name, str(found)))
    )


def _stamps() -> Iterator[tuple[object, ...]]:
    """Yield the things that change when a distribution is installed, upgraded or removed."""
    for folder in map(os.path.abspath, sys.path):
        yield _stamp(folder)
        # Because a clock may be coarse, the names count beside the time of the folder.
        with suppress(OSError), os.scandir(folder) as entries:
            for each in entries:
                if each.name.endswith((".dist-info", ".egg-info")):
                    yield _stamp(os.path.join(each.path, "entry_points.txt"))  # noqa: PTH118


def _stamp(path: str) -> tuple[object, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - `Path` costs more than the call
    except OSError:
        return (path,)
    return path, found.st_mtime_ns, found.st_size


def _scan() -> Iterator[PluginSource]:
    seen: set[str] = set()
    for distribution in distributions():
        try:
            # Because most distributions have other entry points, only a few are parsed; and of
            # their metadata the headers alone, because a parser of mails takes ten times as long.
            if _SECTION not in (distribution.read_text("entry_points.txt") or ""):
                continue
            metadata = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO")
            headers = dict(_HEADER.findall((metadata or "").partition("\n\n")[0]))
            name, version = headers["Name"], headers["Version"]
            entries = distribution.entry_points.select(group=ENTRY_POINT_GROUP)
        except Exception:
            log.debug("A distribution cannot be read", exc_info=True)
            continue
        # Python imports from the first on the path; it shadows the others.
        folded = re.sub(r"[-_.]+", "-", name).lower()
        if folded not in seen:
            seen.add(folded)
            for entry in entries:
                yield PluginSource(entry.name, "entry point", name, version, entry.value)


def load_file(path: Path) -> ModuleType:
    """Return a file's module, imported again each time; a `PluginFault` stands for any error."""
    if path.suffix != ".py":
        raise PluginFault(f"{path} is not a Python file.", "Name a file that ends in .py.")
    try:
        path.open("rb").close()
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise PluginFault(cause, "Name a file that can be read.") from error
    # Two files of one name stay apart, and none takes the place of an installed module.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"toolstile_file_{digest}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginFault(f"{path} cannot be imported.", "Name a file that Python can import.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, (Exception, SystemExit)):
            error.add_note(f"{path} was being imported ({type(error).__name__}).")
            raise
        log.debug("%s cannot be imported", path, exc_info=True)
        raise PluginFault(
            f"{path} cannot be imported: {one_line(error)}.", "Fix the file."
        ) from error
    return module


def forget(module: object) -> None:
    """Drop a module that `load_file` has made, when its plugin is not taken."""
    if isinstance(module, ModuleType) and sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def refuse_newer(stated: object, origin: PluginSource) -> None:
    """Refuse a plugin that says it needs a newer contract than this one; None says nothing."""
    if stated is None:
        return
    try:
        needed = parsed_version(stated)
    except ValueError:
        raise PluginFault(
            f"Its {REQUIRES} is {stated!r}, which is not a version of the contract.",
            f'Write {REQUIRES} = "MAJOR.MINOR", such as "{CONTRACT_VERSION}".',
        ) from None
    if needed > parsed_version(CONTRACT_VERSION):
        raise PluginFault(
            f"It needs version {stated} of Toolstile's contract, and toolstile {__version__}, "
            f"which is installed, has {CONTRACT_VERSION}.",
            _remedy_for_newer(origin),
        )


def refuse_unknown(error: BaseException | None, origin: PluginSource) -> None:
    """Refuse a plugin that cannot be imported for a name that only a newer contract has."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == _CONTRACT:
        raise PluginFault(
            f"It needs a newer version of Toolstile's contract: toolstile {__version__}, which is "
            f"installed, has {CONTRACT_VERSION} ({one_line(error)}).",
            _remedy_for_newer(origin),
        )


def _remedy_for_newer(origin: PluginSource) -> str:
    return f"Install a newer toolstile, or an older version of {origin.distribution or 'it'}."
