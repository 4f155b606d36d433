"""`toolyard tools` lists what can be called."""

import json
import re

import pytest


def test_tools_are_listed_with_their_arguments(toolyard):
    status, out, err = toolyard("tools")
    assert (status, err) == (0, "")
    assert re.search(r" add +read +medium +desk +Add two integers\.\n +\(a, b\)", out)
    assert "(text?)" in out
    assert "(left, right?)" in out


def test_json_is_an_object_for_each_tool(toolyard):
    _, out, _ = toolyard("tools", "--json")
    found = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert found["add"]["plugin"] == "desk"
    assert found["add"]["category"] == "read"
    assert set(found["add"]["parameters"]["properties"]) == {"a", "b"}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "mcp"])
def test_schemas_are_printed_as_a_provider_takes_them(toolyard, dialect):
    status, out, _ = toolyard("tools", "--schema", dialect)
    assert status == 0
    assert "Add two integers." in json.dumps(json.loads(out))
    _, out, _ = toolyard("tools", "--schema", dialect, "--json")
    assert all(json.loads(line) for line in out.splitlines())


@pytest.mark.slow
def test_an_unknown_dialect_is_status_2_and_told_with_those_there_are(toolyard):
    status, _, err = toolyard("tools", "--schema", "nobody")
    assert status == 2
    assert "'nobody'" in err
    assert "anthropic" in err


def test_without_tools_it_says_what_to_look_at(toolyard):
    _, out, _ = toolyard("plugins", "--json", plugin=False)
    found = [json.loads(line) for line in out.splitlines()]
    names = ",".join(each["name"] for each in found if each["source"] == "entry point")
    status, out, err = toolyard("tools", "--block", names, plugin=False)
    assert (status, err) == (0, "")
    assert "toolyard plugins" in out


def test_the_example_can_be_listed(toolyard):
    _, out, _ = toolyard("tools", "--example", plugin=False)
    assert "ship_order" in out
