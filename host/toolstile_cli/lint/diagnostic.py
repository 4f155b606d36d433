"""A fault that an author should fix."""

from __future__ import annotations

from dataclasses import dataclass

from toolstile.plugins.plugin_errors import PluginFault


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an author should fix.

    Args:
        where: The part of the plugin that it is about: `import`, `hooks`, `offers`, `tool NAME`,
            `policy KIND`, `policies`, `resource KIND`, `settings`, `prompt`, `commands`,
            `package` or `imports`; `configuration` where it is not the plugin's fault.
        cause: What is wrong, a sentence.
        remedy: What to do about it, a sentence.
    """

    where: str
    cause: str
    remedy: str


def of_fault(where: str, fault: PluginFault) -> Finding:
    """Return the finding for a fault that keeps a plugin, or a part of it, from being taken."""
    return Finding(where, fault.cause, fault.remedy)
