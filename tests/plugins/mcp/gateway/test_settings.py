"""A wrong table of a server is refused, with a remedy."""

import pytest

from toolstile.settings import validate_table
from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.settings import McpSettings


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "x: give either a command, which is started, or the url of a server."),
        ({"url": "http://a", "args": ["b"]}, "x: args does not go with url; take it out."),
        ({"commandd": "a"}, "x.commandd: is not a known key; did you mean 'command'?"),
        (
            {"command": "a", "tools": {"b": {"categry": "read"}}},
            "x.tools.b.categry: is not a known key; did you mean 'category'?",
        ),
    ],
)
def test_a_fault_of_a_servers_table_says_what_to_do(table, told):
    with pytest.raises(ConfigurationError) as raised:
        validate_table(
            McpSettings, {"servers": {"x": table}}, plugin="mcp", source="toolstile.toml"
        )
    assert str(raised.value) == f"toolstile.toml: plugins.mcp.servers.{told}"
