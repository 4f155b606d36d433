"""Whose fault it is when a function of a section fails, on which every call depends."""

from __future__ import annotations

from toolstile.plugins.faults import one_line
from toolstile.plugins.places import place_of
from toolstile_hookspecs import Catalog, PluginError, Section


def section_failed(
    section: Section, function: str, error: Exception, catalog: Catalog
) -> PluginError:
    """Return what to raise for a function of a section that raised.

    Args:
        section: The section.
        function: The name of the function, `on_session` or `enabled`.
        error: What it raised.
        catalog: Knows which plugin offers the section's tools.
    """
    place = place_of(error)
    where = "" if place is None else f" ({place})"
    owners = (catalog.plugin_of(each.name) for each in section.tools)
    plugin = next((each for each in owners if each is not None), None)
    whose = "" if plugin is None else f" of plugin {plugin}"
    block = "" if plugin is None else f", or block the plugin with TOOLSTILE_BLOCK={plugin}"
    return PluginError(
        f"Section {section.key!r}{whose} keeps every call from running: its {function} raised "
        f"{one_line(error).rstrip('.')}{where}. Mend it{block}."
    )
