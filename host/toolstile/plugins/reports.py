"""What is told of every plugin that was met, whatever became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["loaded", "blocked", "failed", "absent"]
Source = Literal["entry point", "file", "python", "configuration"]


@dataclass(frozen=True, slots=True)
class PluginReport:
    """What became of a plugin.

    Args:
        name: The plugin's name; the entry point's, or the file's stem.
        source: Where it was met; `configuration` when it is only spoken of there.
        status: `loaded`; `blocked`, not loaded because it is switched off; `failed`, nothing
            of it is there; `absent`, the configuration names it and it is not installed.
        distribution: The distribution that brings it, if it comes from one.
        version: That distribution's version.
        location: The entry point's value, or the file.
        fault: What is wrong, in one line. A loaded plugin can have one, too: an offer that
            could not be taken.
        remedy: What to do about the fault.
        misconfigured: Whether the fault lies in the configuration.
        hooks: The hooks it implements.
        tools: The names of its tools, as they are called.
        summary: The first line of its documentation.
        deprecations: What it implements that a later version of the contract does not have, and
            what to use instead.
        place: The file and line of the plugin that raised, where the fault is that it did.
    """

    name: str
    source: Source
    status: Status
    distribution: str | None = None
    version: str | None = None
    location: str | None = None
    fault: str | None = None
    remedy: str | None = None
    misconfigured: bool = False
    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    summary: str = ""
    deprecations: tuple[str, ...] = ()
    place: str | None = None

    @property
    def origin(self) -> str:
        """Where it comes from: its distribution, or else its location, or where it was met."""
        named = " ".join(filter(None, (self.distribution, self.version)))
        return named or self.location or self.source

    @property
    def is_unmet(self) -> bool:
        """Whether the configuration asks for something of it that cannot be had.

        A host that left it at that would do without a policy that somebody relies on.
        """
        is_there = self.status != "failed" and bool(self.hooks)
        named = self.source == "file" and self.status != "blocked"
        return self.misconfigured or (named and not is_there)

    def __str__(self) -> str:
        """Return the report as one line for people."""
        status = "" if self.status == "loaded" and self.fault else f" {self.status}."
        return " ".join(
            part
            for part in (
                f"Plugin {described(self.name, self.distribution, self.version)}:{status}",
                self.fault,
                self.remedy,
            )
            if part
        )


def described(name: str, distribution: str | None, version: str | None) -> str:
    """Return a plugin's name with where it comes from.

    Example:
        >>> described("tickets", "toolstile-tickets", "1.2")
        "'tickets' (toolstile-tickets 1.2)"
    """
    if distribution is None:
        return repr(name)
    return f"{name!r} ({' '.join(filter(None, (distribution, version)))})"
