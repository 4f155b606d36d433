"""The names that outlive a process keep their spelling: on disk, in spans, in tokens, in a session.

Whoever renames one of them breaks what is stored; so each stands here as a literal.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from toolstile import Session
from toolstile.settings.sources import KEYS
from toolstile_hookspecs import PolicyState, ToolInvoked
from toolstile_hookspecs.codecs import type_name
from toolstile_plugins.planning import Plan, PlanStep

# The source is the same on every Python: once is enough.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
STORED = {
    # Files and folders
    ".toolstile",
    ".toolstile/ledger.db",
    ".toolstile/mcp-tools.json",
    "toolstile.toml",
    "tool.toolstile",
    # Formats
    "toolstile.session",
    "toolstile.record",
    "toolstile.backtest",
    # Environment variables
    "TOOLSTILE_APPROVAL_EXPIRY",
    "TOOLSTILE_APPROVAL_KEY",
    "TOOLSTILE_APPROVAL_SPENT",
    "TOOLSTILE_APPROVAL_TIMEOUT",
    "TOOLSTILE_APPROVER",
    "TOOLSTILE_APPROVE_DIFF",
    "TOOLSTILE_BLOCK",
    "TOOLSTILE_HISTORY_BYTES",
    "TOOLSTILE_HISTORY_EVENTS",
    "TOOLSTILE_MAX_ARGUMENTS",
    "TOOLSTILE_MCP_TOKEN",
    "TOOLSTILE_PLUGINS__",
    "TOOLSTILE_TIMEOUT",
    # Attributes of events and spans
    "toolstile.approval",
    "toolstile.approval_by",
    "toolstile.approval_reason",
    "toolstile.approval_ticket",
    "toolstile.approval_token",
    "toolstile.call.id",
    "toolstile.diff",
    "toolstile.dry_run",
    "toolstile.executed",
    "toolstile.for_operator",
    "toolstile.ledger.state",
    "toolstile.outcome",
    "toolstile.parent.call.id",
    "toolstile.pending_parent",
    "toolstile.policy.names",
    "toolstile.policy.reasons",
    "toolstile.policy.verdicts",
    "toolstile.replayed",
    "toolstile.replayed_effect",
    "toolstile.reruns",
    "toolstile.rolled_back",
    "toolstile.session.id",
    "toolstile.stage",
    "toolstile.tool.version",
    "toolstile.transaction",
    "toolstile.transaction.id",
    "toolstile.usage.cost",
    # In the database of effects
    "toolstile_effects",
    # In the database of calls on workers, and on its channels
    "toolstile_call",
    "toolstile_cancels",
    "toolstile_dbos",
    "toolstile_outcomes",
    # In the metadata of MCP messages
    "toolstile/deadline",
    "toolstile/session",
}
"""Identifiers that are read again by another process, or by somebody else's program."""


def literals() -> set[str]:
    """Return the strings without white space in the product's code that name the project."""
    return {
        node.value
        for folder in ("hookspecs", "host", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"\S*toolstile\S*", node.value, re.IGNORECASE)
    }


def test_what_is_stored_keeps_its_name():
    assert STORED - literals() - set(KEYS) == set()


def test_attributes_of_spans_and_events_are_all_listed():
    attributes = {
        name
        for name in literals()
        if re.fullmatch(r"toolstile\.[a-z_.]+", name) and not is_module(name)
    }
    groups = {
        "toolstile.adapters",
        "toolstile.feedback",
        "toolstile.completion",
        "toolstile.dispatchers",
        "toolstile.gates",
        "toolstile.sandboxes",
    }
    assert attributes - STORED - LOGGERS - groups - {"toolstile.toml"} == set()


LOGGERS = {
    f"toolstile.{name}"
    for name in (
        "agent",
        "console",
        "hook",
        "inbox",
        "isolation",
        "ledger",
        "mcp",
        "otel",
        "pipeline",
        "policies",
        "policies.names",
        "undo",
        "record",
        "rules",
        "settings",
        "state",
        "vfs",
        "webhook",
        "workers",
        "workspace_digest",
    )
}


def is_module(name: str) -> bool:
    path = ROOT / "host" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or path.is_dir()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ToolInvoked, "toolstile_hookspecs:ToolInvoked"),
        (PolicyState, "toolstile_hookspecs:PolicyState"),
        (Plan, "toolstile_plugins.planning:Plan"),
        (PlanStep, "toolstile_plugins.planning:PlanStep"),
        (Session, "toolstile:Session"),
        (Path, "pathlib:Path"),
    ],
)
def test_a_stored_class_is_named_by_the_package_that_exports_it(kind, name):
    assert type_name(kind) == name


def test_nothing_holds_the_projects_first_name():
    first = "tool" + "yard"
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Revisions to compare with have packages of that name.
    may = {"CHANGELOG.md", "bench/against.py", "tests/bench/test_against.py"}
    files = [name for name in listed.stdout.splitlines() if name not in may]
    assert "README.md" in files
    assert [name for name in files if first in name.lower()] == []
    assert [name for name in files if first.encode() in (ROOT / name).read_bytes().lower()] == []
