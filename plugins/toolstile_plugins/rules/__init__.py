"""Rules of the configuration over the content of calls: kinds of `[[policies]]` tables.

The library that evaluates expressions comes with the extra `policies`; the first rule imports it.
`toolstile policy` tries the policies of the configuration, of any kind, without any effect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolstile_hookspecs import Command, Diagnostic, HostHandle, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.rules import cli

if TYPE_CHECKING:
    from toolstile_plugins.rules.provenance import (
        AskedForPolicy,
        ConfidentialPolicy,
        ProvenancePolicy,
    )
    from toolstile_plugins.rules.rule import RulePolicy
    from toolstile_plugins.rules.shell.policy import CommandPolicy

__all__ = [
    "AskedForPolicy",
    "CommandPolicy",
    "ConfidentialPolicy",
    "ProvenancePolicy",
    "RulePolicy",
]

__getattr__ = late_names(
    __name__,
    {
        "provenance": "AskedForPolicy ConfidentialPolicy ProvenancePolicy",
        "rule": "RulePolicy",
        "shell.policy": "CommandPolicy",
    },
)


@hookimpl
def toolstile_policies() -> dict[str, str]:
    return {
        "asked_for": f"{__name__}.provenance:AskedForPolicy",
        "command": f"{__name__}.shell.policy:CommandPolicy",
        "confidential": f"{__name__}.provenance:ConfidentialPolicy",
        "provenance": f"{__name__}.provenance:ProvenancePolicy",
        "rule": f"{__name__}.rule:RulePolicy",
    }


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)


@hookimpl
def toolstile_diagnose(host: HostHandle) -> Iterable[Diagnostic]:
    """Show the options that the policies over commands do not allow by themselves."""
    # Not imported, because a host with such a policy has imported it.
    policy = sys.modules.get(f"{__name__}.shell.policy")
    return () if policy is None else policy.findings(host)
