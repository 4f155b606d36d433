"""What the host is configured with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolstile.settings import given

DEFAULT_TIMEOUT: Final = 15.0
DEFAULT_MAX_ARGUMENTS: Final = 16 * 1024 * 1024
DEFAULT_APPROVAL_EXPIRY: Final = 60 * 60.0

NO_FILE: Final = "the configuration"


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a host; the defaults are those of a host without any.

    Args:
        path: The file it was read from, if there is one.
        block: Plugins that are switched off.
        timeout: Seconds until a tool's call is given up, None for never; in a file, `"none"`.
        approver: The plugin that answers when a person has to decide.
        approval_timeout: Seconds until an unanswered approval counts as denied, None for never;
            in a file, `"none"`.
        approval_expiry: Seconds for which a call that waits for approval can be resumed.
        approval_key: The secret that seals approvals, for hosts that resume each other's calls, of
            32 characters or more; None for one of the host's own.
        approval_spent: The file in which these hosts note used approvals.
        approve_diff: Whether contained tools run before a person is asked, who is then shown
            what they would change; or the names of those for which it holds.
        max_arguments: The most bytes that the arguments of a call may have.
        policies: The `[[policies]]` tables: `kind`, maybe `name`, and the kind's fields.
        plugins: The `[plugins.NAME]` tables as written, by name.
        plugin_files: Python files to load as plugins.
        prompt_overrides: The file whose texts take the place of those of prompts.
        variables: From a dotted key to the environment variable that its value came from.

    Raises:
        ConfigurationError: When one is not what it should be; names all of these.

    Example:
        >>> Settings().timeout
        15.0
    """

    path: Path | None = None
    block: tuple[str, ...] = ()
    timeout: float | None = DEFAULT_TIMEOUT
    approver: str | None = None
    approval_timeout: float | None = None
    approval_expiry: float = DEFAULT_APPROVAL_EXPIRY
    approval_key: str | None = field(default=None, repr=False)
    approval_spent: Path | None = None
    approve_diff: bool | tuple[str, ...] = False
    max_arguments: int = DEFAULT_MAX_ARGUMENTS
    policies: tuple[dict[str, Any], ...] = ()
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    plugin_files: tuple[Path, ...] = ()
    prompt_overrides: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Check what Python gave, as a file is checked where it is read."""
        given.refuse(
            "Settings",
            (
                given.names_fault("block", self.block),
                given.seconds_fault("timeout", self.timeout),
                given.text_fault("approver", self.approver),
                given.seconds_fault("approval_timeout", self.approval_timeout),
                given.finite_fault("approval_expiry", self.approval_expiry),
                given.key_fault("approval_key", self.approval_key),
                given.pair_fault(
                    approval_key=self.approval_key, approval_spent=self.approval_spent
                ),
                given.path_fault("approval_spent", self.approval_spent),
                None
                if isinstance(self.approve_diff, bool)
                else given.names_fault("approve_diff", self.approve_diff),
                given.count_fault("max_arguments", self.max_arguments),
                given.tables_fault("policies", self.policies),
                given.table_fault("plugins", self.plugins),
                given.several_fault("plugin_files", self.plugin_files),
                given.path_fault("prompt_overrides", self.prompt_overrides),
            ),
        )

    def table_of(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's table, empty where there is none.

        The name may be spelt as an environment variable has to spell it, with `_` for `-`.
        """
        name = self.table_name(plugin)
        return {} if name is None else self.plugins[name]

    def table_name(self, plugin: str) -> str | None:
        """Return the name that a plugin's table goes by, or None where there is none."""
        if plugin in self.plugins:
            return plugin
        wanted = folded(plugin)
        return next((name for name in self.plugins if folded(name) == wanted), None)

    def source_of(self, key: str) -> str:
        """Return what a message calls the place of a dotted key: a variable or the file."""
        at = key
        while at:
            if at in self.variables:
                return self.variables[at]
            at = at.rpartition(".")[0]
        return NO_FILE if self.path is None else str(self.path)


def folded(name: str) -> str:
    """Return a name as environment variables can spell it: lower case, `_` for the rest."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())
