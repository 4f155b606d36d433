"""Secrets are found by the schema of the params, masked, and put back into what was edited."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from toolyard_hookspecs import tool
from toolyard_plugins.approval.secrecy import MASK, hide, masked, secrets_in, unmasked


class Basic(BaseModel):
    kind: str = "basic"
    password: SecretStr


class Login(BaseModel):
    name: str
    key: SecretStr | None = None
    more: dict[str, SecretStr] = Field(default_factory=dict)
    pairs: list[tuple[str, SecretStr]] = Field(default_factory=list)
    basic: Basic | None = None
    inner: "Login | None" = None


@dataclass
class Plain:
    names: list[str]


@tool
def log_in(params: Login) -> None:
    """Log in."""


@tool
def plain(params: Plain) -> None:
    """Take names."""


SCHEMA = log_in.params_codec.schema()
words = st.text("abc\n", max_size=5)
secrets = st.text("xyz", min_size=4, max_size=8)
logins = st.recursive(
    st.fixed_dictionaries(
        {"name": words},
        optional={
            "key": st.none() | secrets,
            "more": st.dictionaries(words, secrets, max_size=2),
            "pairs": st.lists(st.tuples(words, secrets).map(list), max_size=2),
            "basic": st.none() | st.fixed_dictionaries({"password": secrets}),
        },
    ),
    lambda inner: st.fixed_dictionaries({"name": words, "inner": inner}),
    max_leaves=3,
)


@given(logins)
def test_masking_hides_every_secret_and_is_undone_exactly(arguments):
    hidden = masked(arguments, SCHEMA)
    found = list(secrets_in(arguments, hidden))
    assert not any(secret in str(hidden) for secret in found)
    assert unmasked(hidden, arguments) == arguments


def test_what_is_no_secret_stays():
    arguments = {"name": "Ada", "key": "k3y", "basic": {"password": "pw"}, "pairs": [["a", "b"]]}
    assert masked(arguments, SCHEMA) == {
        "name": "Ada",
        "key": MASK,
        "basic": {"password": MASK},
        "pairs": [["a", MASK]],
    }
    assert masked({"names": ["a"]}, plain.params_codec.schema()) == {"names": ["a"]}


def test_the_schema_of_a_tool_without_a_type_counts_as_well():
    schema = {
        "properties": {"login": {"$ref": "#/$defs/login"}},
        "patternProperties": {"^x": {"writeOnly": True}},
        "$defs": {"login": {"allOf": [{"$ref": "#/$defs/login"}, {"writeOnly": True}]}},
    }
    assert masked({"login": {"a": 1}, "x": 2}, schema) == {"login": MASK, "x": MASK}
    assert list(secrets_in({"login": {"a": 1}, "x": 2}, {"login": MASK, "x": MASK})) == ["1", "2"]


def test_texts_are_cleared_of_secrets_but_not_of_the_very_short():
    assert hide("my hunter2 is a", ["hunter2", "a"]) == "my *** is a"


@pytest.mark.parametrize("edited", [{"name": MASK}, {"pairs": [["a", "b"], ["c", MASK]]}])
def test_a_mask_where_no_secret_was_is_refused(edited):
    with pytest.raises(ValueError, match="no secret"):
        unmasked(edited, {"pairs": [["a", "b"]]})


def test_annotated_secrets_are_found():
    @tool
    def keep(token: Annotated[SecretStr, Field(description="a token")]) -> None:
        """Keep."""

    assert masked({"token": "t"}, keep.params_codec.schema()) == {"token": MASK}
