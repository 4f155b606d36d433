"""The tools are the backends' methods, documented so that a host and a model can use them."""

import copy

import pytest
from toolstile_bfcl.backends import start_backend
from toolstile_bfcl.methods import READING, methods_of, shorten
from toolstile_bfcl.settings import ALL_SUITES
from toolstile_bfcl.tools import tools_of


def deep_state(value):
    """All of an object's state that can be compared: random generators and files included."""
    if hasattr(value, "getstate"):
        return value.getstate()
    if isinstance(value, dict):
        return {key: deep_state(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [deep_state(each) for each in value]
    if type(value).__name__ in {"File", "Directory"}:
        kept = {key: each for key, each in vars(value).items() if key != "parent"}
        return (type(value).__name__, deep_state(kept))
    if hasattr(value, "__dict__"):
        return deep_state(vars(value))
    return value


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_every_public_method_is_a_tool_and_nothing_else(suite):
    backend = start_backend(suite, {})
    public = {
        name
        for name in dir(backend)
        if not name.startswith("_") and callable(getattr(backend, name))
    }
    assert {tool.wire_name for tool in tools_of(suite)} == public
    assert public >= READING[suite]


def test_tool_names_are_unique_over_all_suites():
    names = [tool.name for suite in ALL_SUITES for tool in tools_of(suite)]
    assert len(names) == len(set(names)) == 128


def test_a_method_in_camel_case_keeps_its_name_on_the_wire(tools):
    tool = tools("VehicleControlAPI")["displayCarStatus"]
    assert tool.name == "display_car_status"


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_descriptions_are_short_and_the_whole_is_kept(suite):
    for tool, method in zip(tools_of(suite), methods_of(suite), strict=True):
        assert 1 <= len(tool.description) <= 200
        assert tool.long_description == method.text
        assert "This tool belongs to" not in tool.description


def test_a_long_text_is_cut_after_a_sentence_or_a_word():
    assert shorten("One. " + "x" * 300) == "One."
    cut = shorten("word " * 60)
    assert cut.endswith("word...")
    assert len(cut) <= 200


def test_params_are_real_json_schema():
    for suite in ALL_SUITES:
        for tool in tools_of(suite):
            schema = tool.params_codec.schema()
            assert schema["type"] == "object"
            assert schema["additionalProperties"] is False
            for each in schema["properties"].values():
                assert each["type"] in {"string", "number", "integer", "boolean", "array", "object"}
                assert each.get("default") != "None"


def test_methods_marked_as_reading_change_nothing(sessions):
    for session in sessions:
        homes = {m.name: m for suite in session["suites"] for m in methods_of(suite)}
        backends = {
            suite: start_backend(suite, session["initial_config"].get(suite, {}))
            for suite in session["suites"]
        }
        for call in (call for turn in session["turns"] for call in turn["calls"]):
            method = homes[call["name"]]
            backend = backends[method.suite]
            before = copy.deepcopy(deep_state(backend))
            getattr(backend, method.name)(**copy.deepcopy(call["arguments"]))
            if method.category == "read":
                assert deep_state(backend) == before, call
