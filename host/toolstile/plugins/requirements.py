"""Which version of the contract a plugin needs, and the fault when there is an older one."""

from __future__ import annotations

import ast
import importlib.util
import logging
from pathlib import Path
from typing import Final

from toolstile._version import __version__
from toolstile.plugins.faults import PluginFault
from toolstile.plugins.records import Origin
from toolstile_hookspecs.markers import CONTRACT_VERSION, REQUIRES, parsed_version

log = logging.getLogger(__name__)

UNSTATED: Final = None


def refuse_newer(stated: object, origin: Origin) -> None:
    """Refuse a plugin that needs a newer contract than there is.

    Args:
        stated: The version that it says it needs, `UNSTATED` for any.
        origin: Where it comes from.

    Raises:
        PluginFault: Naming the version needed and the one present, or what was said instead
            of a version.
    """
    if stated is UNSTATED:
        return
    try:
        needed = parsed_version(stated)
    except ValueError:
        raise PluginFault(
            f"Its {REQUIRES} is {stated!r}, which is no version of the contract.",
            f'Write {REQUIRES} = "MAJOR.MINOR", such as "{CONTRACT_VERSION}".',
        ) from None
    if needed > parsed_version(CONTRACT_VERSION):
        raise PluginFault(
            f"It needs version {stated} of Toolstile's contract, and toolstile {__version__}, "
            f"which is installed, has {CONTRACT_VERSION}.",
            f"Install a newer toolstile, or an older version of {origin.distribution or 'it'}.",
        )


def stated_by(plugin: object) -> object:
    """Return what a plugin that is imported says it needs; `UNSTATED` if nothing."""
    return getattr(plugin, REQUIRES, UNSTATED)


def stated_in_source(origin: Origin) -> object:
    """Return what a plugin's source says it needs, though it cannot be imported.

    Args:
        origin: Where it comes from.

    Returns:
        The text assigned in its module, `UNSTATED` where none is found.
    """
    try:
        source = _source(origin)
        tree = ast.parse("" if source is None else source.read_bytes())
    # Its packages can raise anything when they are imported to find it; that is reported already.
    except (Exception, SystemExit):
        log.debug("The source of plugin %s cannot be read", origin, exc_info=True)
        return UNSTATED
    return next((found for each in tree.body if (found := _assigned(each))), UNSTATED)


def _source(origin: Origin) -> Path | None:
    if origin.location is None:
        return None
    if origin.source == "file":
        return Path(origin.location)
    found = importlib.util.find_spec(origin.location.partition(":")[0].strip())
    return None if found is None or found.origin is None else Path(found.origin)


def _assigned(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
            pass
        case _:
            return None
    return text if name == REQUIRES else None
