"""A stranger's plugin selects tools by one value: in a policy's table, and in its own."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolstile import Host, ToolCall
from toolstile.testing import FakeClock
from toolstile_hookspecs import ConfigurationError, PluginError, tool

PLUGIN = Path(__file__).with_name("night_rules.py")
NIGHT = FakeClock(datetime(2026, 3, 1, 2, 0, tzinfo=UTC))


@tool(category="side_effect", tags=("mail",))
def send_letter() -> str:
    """Send a letter."""
    return "sent"


@tool(category="read", tags=("mail",))
def read_letter() -> str:
    """Read a letter."""
    return "read"


TOOLS = (
    send_letter,
    read_letter,
    replace(send_letter, name="post_send_letter", wire_name="send", origin="post"),
)


@pytest.fixture
def host_of(tmp_path):
    def make(*policies: str, workers: str = "{servers = ['post'], category = ['read']}") -> Host:
        tables = "".join(f'[[policies]]\nkind = "night"\n{each}\n' for each in policies)
        table = f"[plugins.night_rules]\non_workers = {workers}\n"
        file = tmp_path / "toolstile.toml"
        file.write_text(f'plugin_files = ["{PLUGIN}"]\n{tables}{table}', encoding="utf-8")
        return Host(config=file, discover=[], tools=TOOLS, clock=NIGHT)

    return make


def test_it_imports_the_contract_alone():
    imported = {
        node.module.partition(".")[0]
        for node in ast.walk(ast.parse(PLUGIN.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
    assert {name for name in imported if name.startswith("toolstile")} == {"toolstile_hookspecs"}


@pytest.mark.parametrize(
    ("table", "denied"),
    [
        ("", {"send_letter", "read_letter", "post_send_letter"}),
        ('tools = ["send_letter"]', {"send_letter"}),
        ('tools = ["*_letter"]\ncategory = ["read"]', {"read_letter"}),
        ('tags = ["mail"]\nservers = ["post"]', {"post_send_letter"}),
        (
            'consequence = ["medium"]\ntools = ["post_*", "read_*"]',
            {"post_send_letter", "read_letter"},
        ),
    ],
)
def test_a_policy_governs_the_tools_that_fit_every_key(host_of, table, denied):
    with host_of(table) as host, host.executor() as tools:
        outcomes = {each.name: tools.dispatch(ToolCall(each.name)) for each in TOOLS}
        assert {name for name, outcome in outcomes.items() if not outcome.success} == denied
        # What does not concern a tool is in no plan of its calls.
        plans = tools.table().plans
        assert {each.name for each in TOOLS if plans[each.name].checks} == denied


def test_a_plugin_selects_by_a_table_of_its_own(host_of):
    table = '{tools = ["*send_letter"], servers = ["post"]}'
    with host_of(workers=table) as host, host.executor() as tools:
        texts = [tools.dispatch(ToolCall(each.name)).text for each in TOOLS]
    assert texts == ["sent", "read", "post_send_letter ran on a worker"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('tools = ["send_lettre"]', "unknown tools: 'send_lettre' (did you mean 'send_letter' or"),
        ('tools = ["fax_*"]', "unknown tools: 'fax_*'"),
        ('tags = ["fax"]', "unknown tags: 'fax'"),
        ('servers = ["pots"]', "unknown servers: 'pots' (did you mean 'post'?)"),
        (
            'tools = ["send_letter"]\ncategory = ["read"]',
            "names 'send_letter', which its other fields leave out",
        ),
        ('tools = "send_letter"', "tools: expected an array"),
        ('category = ["reed"]', "category[0]: expected 'read', 'write', 'delete' or 'side_effect'"),
        ("tags = []", "tags: it names none"),
        ('tool = ["send_letter"]', "tool: is not a known key; did you mean 'tools'?"),
    ],
)
def test_a_slip_in_a_policy_keeps_the_host_from_opening(host_of, table, told):
    with pytest.raises(ConfigurationError) as raised:
        host_of(table).open()
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ('{tool = ["send_letter"]}', "plugins.night_rules.on_workers.tool: is not a known key"),
        ('{tools = "send_letter"}', "plugins.night_rules.on_workers.tools: expected an array"),
        ("{tools = []}", "tools: it names none"),
        ('{tools = ["send_fax"]}', "[plugins.night_rules] on_workers refers to unknown tools"),
    ],
)
def test_a_slip_in_a_table_is_told_with_its_place(host_of, workers, told):
    with pytest.raises((ConfigurationError, PluginError)) as raised:
        host_of(workers=workers).open()
    assert told in str(raised.value)
