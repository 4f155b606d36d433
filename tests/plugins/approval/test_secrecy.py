"""Secrets are masked in what is edited, and put back into it."""

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, SecretStr

from toolstile_hookspecs import masked, secrets_of, tool
from toolstile_plugins.approval.display import MASK, unmasked


class Login(BaseModel):
    name: str
    key: SecretStr | None = None
    more: dict[str, SecretStr] = Field(default_factory=dict)
    pairs: list[tuple[str, SecretStr]] = Field(default_factory=list)
    inner: "Login | None" = None


@tool
def log_in(params: Login) -> None:
    """Log in."""


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
        },
    ),
    lambda inner: st.fixed_dictionaries({"name": words, "inner": inner}),
    max_leaves=3,
)


@pytest.mark.slow
@given(logins)
def test_masking_hides_every_secret_and_is_undone_exactly(arguments):
    hidden = masked(arguments, SCHEMA, MASK)
    assert not any(secret in str(hidden) for secret in secrets_of(arguments, SCHEMA))
    assert unmasked(hidden, arguments) == arguments


@pytest.mark.parametrize("edited", [{"name": MASK}, {"pairs": [["a", "b"], ["c", MASK]]}])
def test_a_mask_where_no_secret_was_is_refused(edited):
    with pytest.raises(ValueError, match="no secret"):
        unmasked(edited, {"pairs": [["a", "b"]]})
