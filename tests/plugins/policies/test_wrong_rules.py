"""Rules that would rule nothing: none of them lets a host open, so that no call gets by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError

from .suites import Suite

WRITE = "files_write_file"
SLIPS = [
    "write_file",
    "files_wirte_file",
    "files_write_fle",
    "files_writefile",
    "files_write_filez",
    "files_write",
    "file_write_file",
    "flies_write_file",
    "files-write-file",
    "files.write_file",
    "files/write_file",
    "files:write_file",
    "files__write_file",
    "mcp__files__write_file",
    "Files_write_file",
    "FILES_WRITE_FILE",
    "files_writeFile",
    "filesWriteFile",
    " files_write_file",
    "files_write_file ",
    "files_write_file()",
    "'files_write_file'",
    "files_write_file,files_edit_file",
    "files_write_file|files_edit_file",
    "files_wr\u0456te_file",
    "files\u200b_write_file",
    "",
    "fielsystem_*",
    "filesystem_*",
    "file_*",
    "Files_*",
    "files-*",
    "files_*_flie",
    "files_w*_flies",
    "*_write",
    "write_*",
    "*write",
    "files_?rite",
    "files_[xyz]*",
    "files_[0-9]*",
    "**/write_file",
    "files_write_file/*",
    "files_{write,edit}_file",
    "^files_.*$",
    "files_.*",
    "!files_write_file",
]
"""Slips for `files_write_file`, or for all of `files_*`."""


def by(name: str) -> list[dict[str, Any]]:
    """Return rules of each kind that go by a name."""
    return [
        {"kind": "rate_limit", "max_calls": 1, "tools": [name]},
        reading_first(write_tools=[name]),
        {"kind": "category", "consequence": {"high": "ask"}, "tools": [name, WRITE]},
        {"kind": "quota", "per_tool": {name: 0}},
        {"kind": "sequential_dependency", "dependencies": {WRITE: [name]}},
        reading_first(read_tools=["files_read_text_file", name]),
        {"kind": "category", "category": {"delete": "deny"}, "tools": [name]},
        {"kind": "sequential_dependency", "dependencies": {name: ["files_read_text_file"]}},
        {"kind": "quota", "max_calls": 1, "tools": [WRITE, name]},
        reading_first(write_tools=[WRITE, name]),
        reading_first(paths={f"{name}": ["path"]}, write_tools=["files_[!r]*"]),
    ]


def reading_first(**more: Any) -> dict[str, Any]:
    return {
        "kind": "read_before_write",
        "root": "",
        "read_tools": ["files_read_text_file"],
        "write_tools": [WRITE],
        **more,
    }


OTHERS = [
    {"kind": "rate_limit", "max_calls": 1, "tools": []},
    {"kind": "quota", "max_calls": 1, "tools": []},
    {"kind": "quota", "per_tool": {}},
    {"kind": "category", "category": {"delete": "deny"}, "tools": []},
    {"kind": "category", "tools": [WRITE]},
    {"kind": "category", "category": {"delete": "denied"}, "tools": [WRITE]},
    {"kind": "category", "category": {"deletion": "deny"}, "tools": [WRITE]},
    {"kind": "category", "category": {"write": "deny"}, "tools": [WRITE]},
    {"kind": "category", "category": {"side_effect": "ask"}, "tools": ["files_write_*"]},
    {"kind": "category", "consequence": {"medium": "deny"}, "tools": [WRITE]},
    {"kind": "category", "category": {"delete": "deny"}, "tools": ["files_read_*"]},
    {"kind": "category", "category": {"delete": "deny"}, "tool": [WRITE]},
    {"kind": "sequential_dependency", "dependencies": {}},
    {"kind": "sequential_dependency", "dependencies": {WRITE: []}},
    {"kind": "sequential_dependency", "dependencies": {WRITE: [WRITE]}},
    {"kind": "sequential_dependency", "dependency": {WRITE: ["files_read_text_file"]}},
    {"kind": "rate_limits", "max_calls": 1, "tools": [WRITE]},
    reading_first(write_tools=[]),
    reading_first(path_fields=[]),
    reading_first(path_fields=["pth"]),
    reading_first(path_fields=["path", "pgae"]),
    reading_first(path_fields=["Path "]),
    reading_first(source_fields=["origin_of"]),
    reading_first(paths=["pgae"]),
    reading_first(paths={WRITE: ["pth"]}),
    reading_first(paths={WRITE: ["Path"]}),
    reading_first(paths={"files_w*": ["path", "target"]}),
    reading_first(paths={"files_edit_file": ["path"]}),
    reading_first(read_tools=["files_*"], write_tools=["files_write_*"]),
    reading_first(root="nowhere"),
    {"kind": "read_before_write", "root": ""},
]


def shown(rule: dict[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in rule.items() if name != "root")


# Each slip in two kinds of rules, and each kind with slips of every sort.
RULES = [by(slip)[at % 11] for at, slip in enumerate(SLIPS)]
RULES += [by(slip)[(at + 5) % 11] for at, slip in enumerate(SLIPS)] + OTHERS
assert len(SLIPS) + len(OTHERS) >= 60


def opened(suite: Suite, rule: dict[str, Any]) -> Host:
    """Return a host with a rule, open; a relative root is beneath that of the suite."""
    if "root" in rule:
        rule = {**rule, "root": str(Path(suite.root, rule["root"]))}
    return suite.host([rule]).open()


@pytest.fixture(scope="module", autouse=True)
def met(suite: Suite) -> None:
    """Meet a server once: from then on it is known what it offers."""
    with suite.host() as host:
        assert len(host.catalog.names()) >= len(suite.offered)


def test_a_rule_that_rules_nothing_keeps_the_host_from_opening(
    suite: Suite, subtests: pytest.Subtests
) -> None:
    for rule in RULES:
        with subtests.test(rule=rule), pytest.raises(ConfigurationError):
            opened(suite, rule)


def test_a_rule_that_rules_something_lets_the_host_open(
    suite: Suite, subtests: pytest.Subtests
) -> None:
    for name in [
        WRITE,
        "files_write_*",
        "files_*",
        "*_write_file",
        "*",
        "files_[we]*",
        "files_?rite*",
    ]:
        with subtests.test(name=name):
            for rule in by(name):
                if rule.get("dependencies", {}).get(WRITE) != [name]:
                    opened(suite, rule).close()


def test_a_server_without_a_root_is_not_ruled_by_the_workspace(suite: Suite) -> None:
    rule = {**reading_first(), "root": None}
    tools = suite.tools()
    if tools:
        Host(discover=["policies"], settings=Settings(policies=(rule,)), tools=tools).open().close()
    else:
        with pytest.raises(ConfigurationError, match="of servers, whose files are not in the"):
            suite.host([rule]).open()
