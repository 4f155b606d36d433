"""`toolstile tools` lists what can be called."""

import json
import re
import subprocess
import sys

import pytest


def test_tools_are_listed_with_their_arguments(toolstile):
    status, out, err = toolstile("tools")
    assert (status, err) == (0, "")
    assert re.search(r" add +read +medium +desk +Add two integers\.\n +\(a, b\)", out)
    assert "(text?)" in out
    assert "(left, right?)" in out


def test_json_is_an_object_for_each_tool(toolstile):
    _, out, _ = toolstile("tools", "--json")
    found = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert found["add"]["plugin"] == "desk"
    assert found["add"]["category"] == "read"
    assert set(found["add"]["schema"]["properties"]) == {"a", "b"}


def test_json_has_the_fields_of_a_definition(toolstile, tmp_path):
    plugin = tmp_path / "holdings.py"
    plugin.write_text(HOLDINGS)
    _, out, _ = toolstile("tools", "--json", "--plugin", plugin, plugin=False)
    found = {each["name"]: each for each in map(json.loads, out.splitlines())}
    told = found["get_holdings"]
    del told["schema"]
    assert told == {
        "name": "get_holdings",
        "description": "Look holdings up.",
        "plugin": "holdings",
        "category": "read",
        "consequenceLevel": "low",
        "requiresConfirmation": True,
        "timeout": 2500,
        "tags": ["portfolio", "risk"],
        "version": "1.2.0",
        "dependsOn": ["check_market"],
    }
    assert (found["wait"]["timeout"], found["wait"]["version"]) == (None, None)
    assert found["check_market"]["timeout"] == 15_000


def test_tools_are_listed_by_their_tags(toolstile, tmp_path):
    plugin = tmp_path / "holdings.py"
    plugin.write_text(HOLDINGS)

    def listed(*options, command="tools"):
        status, out, err = toolstile(command, *options, "--json", "--plugin", plugin, plugin=False)
        return status, [json.loads(line)["name"] for line in out.splitlines()], err

    assert listed("--tag", "market")[1] == ["check_market"]
    assert listed("--tag", "risk,market")[1] == ["get_holdings", "check_market"]
    assert listed("--tag", "risk", "--tag", "market", "--without", "risk")[1] == ["check_market"]
    assert "wait" in listed("--without", "portfolio")[1]
    assert "get_holdings" not in listed("--without", "portfolio")[1]
    _, names, err = listed("--tag", "rsk")
    assert names == []
    assert "refers to unknown tags: 'rsk' (did you mean 'risk'?)" in err
    status, out, err = toolstile(
        "call", "get_holdings", "--without", "risk", "--plugin", plugin, plugin=False
    )
    assert status == 1
    assert "get_holdings cannot be called here" in out + err


def test_the_table_shows_version_tags_and_dependencies(toolstile, tmp_path):
    plugin = tmp_path / "holdings.py"
    plugin.write_text(HOLDINGS)
    _, out, _ = toolstile("tools", "--plugin", plugin, plugin=False)
    assert "1.2.0; tags: portfolio, risk; calls: check_market" in out


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "mcp"])
def test_schemas_are_printed_as_a_provider_takes_them(toolstile, dialect):
    status, out, _ = toolstile("tools", "--schema", dialect)
    assert status == 0
    assert "Add two integers." in json.dumps(json.loads(out))
    _, out, _ = toolstile("tools", "--schema", dialect, "--json")
    assert all(json.loads(line) for line in out.splitlines())


@pytest.mark.slow
def test_an_unknown_dialect_is_status_2_and_told_with_those_there_are(toolstile):
    status, _, err = toolstile("tools", "--schema", "nobody")
    assert status == 2
    assert "'nobody'" in err
    assert "anthropic" in err


HOLDINGS = '''\
from toolstile_hookspecs import MarkdownSection, hookimpl, tool


@tool(
    category="read",
    consequence="low",
    requires_confirmation=True,
    timeout=2.5,
    tags=("portfolio", "risk"),
    version="1.2.0",
    depends_on=("check_market",),
)
def get_holdings() -> str:
    """Look holdings up."""
    return ""


@tool(tags=["market"])
def check_market() -> str:
    """Tell whether the market is open."""
    return ""


@tool(timeout=None)
def wait() -> str:
    """Wait for it to open."""
    return ""


@hookimpl
def toolstile_sections():
    tools = [get_holdings, check_market, wait]
    return [MarkdownSection(key="holdings", title="Holdings", tools=tools)]
'''

ODD = '''\
"""A tool of which there is no JSON Schema, between two others."""

from pydantic import BaseModel
from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool


class Odd(BaseModel):
    kind: type


@tool
def first() -> str:
    """Come first."""
    return "first"


@tool
def odd(params: {params}, *, context: ToolContext) -> {result}:
    """Take or give anything."""
    return params


@tool
def last() -> str:
    """Come last."""
    return "last"


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="odd", title="Odd", tools=[first, odd, last])]
'''
NO_SCHEMA = "the params of odd have no JSON Schema ("
REMEDY = "give a schema with pydantic's WithJsonSchema."


@pytest.fixture
def with_odd(toolstile, tmp_path):
    """Runs `toolstile tools` with a tool of which a type has no JSON Schema."""

    def run(*arguments, params="type", result="str"):
        file = tmp_path / "odd.py"
        file.write_text(ODD.replace("{params}", params).replace("{result}", result))
        return toolstile("tools", *arguments, "--plugin", str(file), plugin=False)

    return run


def test_a_tool_whose_params_have_no_schema_is_listed_without(with_odd):
    status, out, err = with_odd("--json")
    found = {each["name"]: each["schema"] for each in map(json.loads, out.splitlines())}
    assert (status, found["odd"]) == (0, None)
    assert found["first"]["type"] == found["last"]["type"] == "object"
    assert err.startswith(f"toolstile: warning: {NO_SCHEMA}")
    assert err.endswith(f"{REMEDY}\n")


def test_a_tool_whose_params_have_no_schema_is_in_the_table(with_odd):
    status, out, err = with_odd(params="Odd")
    assert (status, NO_SCHEMA in err) == (0, True)
    assert all(re.search(rf"^ {name} ", out, re.MULTILINE) for name in ("first", "odd", "last"))


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "mcp"])
def test_of_schemas_one_that_there_cannot_be_is_an_error(with_odd, dialect, how):
    status, out, err = with_odd("--schema", dialect, *how)
    assert status == 2
    assert err.startswith(f"toolstile: error: {NO_SCHEMA}")
    assert err.endswith(f"{REMEDY}\n")
    assert "Come first." in out
    assert "Come last." in out


@pytest.mark.parametrize("how", [("--json",), ("--schema", "mcp"), ("--schema", "openai")])
def test_a_tool_whose_result_has_no_schema_is_listed(with_odd, how):
    status, out, err = with_odd(*how, params="int", result="type")
    assert (status, err) == (0, "")
    assert "Take or give anything." in out


def test_without_tools_it_says_what_to_look_at(toolstile):
    _, out, _ = toolstile("plugins", "--json", plugin=False)
    found = [json.loads(line) for line in out.splitlines()]
    names = ",".join(each["name"] for each in found if each["source"] == "entry point")
    status, out, err = toolstile("tools", "--block", names, plugin=False)
    assert (status, err) == (0, "")
    assert "toolstile plugins" in out


def test_the_example_can_be_listed(toolstile):
    _, out, _ = toolstile("tools", "--example", plugin=False)
    assert "ship_order" in out


@pytest.mark.parametrize("command", ["tools", "plugins"])
def test_what_goes_into_a_pipe_imports_nothing_that_draws(folder, command):
    code = (
        "import sys; from toolstile_cli.main import main; main(sys.argv[1:]); "
        "print([name for name in ('rich.console', 'rich.table') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command], capture_output=True, text=True, check=True
    )
    assert "planning" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
