"""The text of an environment variable becomes a value at its place."""

import json
import tomllib

import pytest
from hypothesis import given, strategies as st

from toolstile.settings.sources import apply, as_toml, overrides
from toolstile_hookspecs import ConfigurationError

PRINTED = st.characters(min_codepoint=32, max_codepoint=126)
PLAIN = st.booleans() | st.integers(-(2**62), 2**62) | st.text(PRINTED)


@pytest.mark.slow
@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_what_is_written_as_toml_is_read_as_it_was_meant(value):
    assert as_toml(json.dumps(value)) == value


@given(st.text())
def test_any_text_is_its_toml_value_or_itself(text):
    value = as_toml(text)
    # Compared as written, since nan does not equal itself.
    assert value == text or repr(tomllib.loads(f"value = {text}")) == repr({"value": value})


def test_a_text_cannot_smuggle_in_another_key():
    assert as_toml("1\nblock = []") == "1\nblock = []"
    assert as_toml("1\n[plugins]") == "1\n[plugins]"


def test_a_document_is_not_changed_in_place():
    document = {"plugins": {"a": {"b": 1}}}
    changed = apply({("plugins", "a", "b"): 2}, document)
    assert changed == {"plugins": {"a": {"b": 2}}}
    assert document == {"plugins": {"a": {"b": 1}}}


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("TOOLSTILE_TIMOUT", "TOOLSTILE_TIMEOUT"),
        ("TOOLSTILE_BLOCKS", "TOOLSTILE_BLOCK"),
        ("TOOLSTILE_TIMEOUT__READ", "TOOLSTILE_TIMEOUT"),
        ("TOOLSTILE_PLUGIN__VFS__ROOT", "TOOLSTILE_PLUGINS__VFS__ROOT"),
        ("TOOLSTILE_PLUGINS", "TOOLSTILE_PLUGINS__NAME__KEY"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_one_that_was_meant(variable, meant):
    with pytest.raises(ConfigurationError) as caught:
        list(overrides({variable: "5"}, {}))
    assert str(caught.value) == f"{variable} is not a setting of Toolstile; did you mean {meant}?"


@pytest.mark.parametrize("key", ["policies", "plugin_files", "prompt_overrides"])
def test_a_variable_for_what_only_a_file_gives_is_told_so(key):
    with pytest.raises(ConfigurationError, match=f"write {key} in the configuration file"):
        list(overrides({f"TOOLSTILE_{key.upper()}": "5"}, {}))


@pytest.mark.parametrize("variable", ["TOOLSTILE_BFCL_DATA", "TOOLSTILE_BLOCK", "TOOLSTILES"])
def test_other_variables_are_left_to_others(variable):
    assert list(overrides({variable: "5"}, {})) == []


def test_an_empty_misspelt_variable_counts_as_unset():
    assert list(overrides({"TOOLSTILE_TIMOUT": ""}, {})) == []
