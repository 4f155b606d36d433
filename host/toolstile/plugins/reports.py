"""Reports on every plugin that was found, loaded or not."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, Final, Literal

from toolstile.plugins.contributions import Contribution
from toolstile.plugins.plugin_errors import PluginFault
from toolstile_hookspecs.markers import HOOK_PREFIX

Status = Literal["loaded", "blocked", "failed", "absent"]
Source = Literal["entry point", "file", "python", "configuration"]


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Where a plugin comes from."""

    name: str  # the plugin's name; the entry point's, or the file's stem
    source: Source  # how it was met; `configuration` when it is only named there
    distribution: str | None = None  # the distribution that brings it, if it comes from one
    version: str | None = None  # that distribution's version
    location: str | None = None  # the entry point's value, or the file

    @property
    def title(self) -> str:
        """Its name with its distribution, as messages show it."""
        if self.distribution is None:
            return repr(self.name)
        return f"{self.name!r} ({' '.join(filter(None, (self.distribution, self.version)))})"

    def __str__(self) -> str:
        return self.title

    def report(self, status: Status, **more: Any) -> PluginReport:
        own = {part.name: getattr(self, part.name) for part in fields(PluginSource)}
        return PluginReport(**own, status=status, **more)

    def refused(self, status: Status, fault: PluginFault) -> PluginReport:
        return self.report(
            status,
            fault=fault.cause,
            remedy=fault.remedy,
            misconfigured=fault.misconfigured,
            place=place_of(fault.__cause__),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport(PluginSource):
    """The state of a plugin."""

    # `loaded`; `blocked`, not loaded because it is switched off; `failed`, nothing of it is there;
    # `absent`, the configuration names it and it is not installed.
    status: Status
    # The fault, in one line. A loaded plugin can have one, too: an offer that could not be taken.
    fault: str | None = None
    remedy: str | None = None
    misconfigured: bool = False  # whether the fault lies in the configuration
    # Whether it is asked for by its name, or for a kind of policy that it offers.
    named: bool = False
    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()  # the names of its tools, as they are called
    summary: str = ""  # the first line of its documentation
    # The file and line of the plugin that raised, where the fault is that it did.
    place: str | None = None

    @property
    def is_unmet(self) -> bool:
        """True when the configuration asks for something of it that cannot be had.

        A host that opened in spite of it would lack a policy that an operator relies on.
        """
        is_there = self.status != "failed" and bool(self.hooks)
        named = self.named or self.source == "file"
        return self.misconfigured or (named and not is_there and self.status != "blocked")

    def __str__(self) -> str:
        status = "" if self.status == "loaded" and self.fault else f" {self.status}."
        head = f"Plugin {self.title}:{status}"
        return " ".join(filter(None, (head, self.fault, self.remedy)))


# --- Loaded plugins


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A registered plugin; `complaints` has the faults of its later answers, by hook."""

    origin: PluginSource
    plugin: object
    hooks: tuple[str, ...]
    contribution: Contribution
    complaints: Mapping[str, tuple[PluginFault, ...]] = field(
        default_factory=dict[str, tuple[PluginFault, ...]]
    )

    def report(self) -> PluginReport:
        faults = [fault for several in self.complaints.values() for fault in several]
        if not self.hooks:
            faults.append(PluginFault("It implements no hook.", _where_hooks_stand(self.plugin)))
        return self.origin.report(
            "loaded",
            fault=" ".join(fault.cause for fault in faults) or None,
            remedy=" ".join(dict.fromkeys(fault.remedy for fault in faults))
            or self.contribution.on_request,
            place=place_of(faults[0].__cause__) if len(faults) == 1 else None,
            hooks=self.hooks,
            tools=tuple(tool.name for tool in self.contribution.tools),
            summary=(inspect.getdoc(self.plugin) or "").partition("\n")[0].strip(),
        )


def _where_hooks_stand(plugin: object) -> str:
    if isinstance(plugin, ModuleType):
        for made in vars(plugin).values():
            if isinstance(made, type) and any(name.startswith(HOOK_PREFIX) for name in vars(made)):
                return (
                    f"The hooks of its class {made.__name__} are methods; write them as functions "
                    "of the module, without self."
                )
    return (
        "Mark functions that are named as hooks are with @hookimpl, or name the module that has "
        "them."
    )


# --- Places in an author's file


_LIBRARIES: Final = {"dataclasses", "importlib", "importlib_metadata", "pydantic"}
_MACHINERY: Final = {*_LIBRARIES, "toolstile", "toolstile_hookspecs"}
"""The packages that import an author's modules, or build classes from them."""


def place_of(error: BaseException | None) -> str | None:
    """Return the file and line of an author's own code, `room.py, line 3`, that raised."""
    if error is None:
        return None
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}"
    own = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<")
        and frame.f_globals.get("__name__", "").partition(".")[0] not in _MACHINERY
    ]
    return own[-1] if own else None
