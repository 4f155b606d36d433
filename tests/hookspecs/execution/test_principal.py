"""A principal is a source and an id; what stands beside them is in no key and no copy."""

import copy
import json
import pickle
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from toolstile_hookspecs import DefinitionError, Principal, Secret, ToolContext

CLAIMS = Secret({"department": "sales-of-the-north"})
ADA = Principal("https://id.example.org", "ada", {"staff"}, CLAIMS, Secret("hunter2"))


def test_principals_are_one_by_source_and_id() -> None:
    assert Principal(ADA.source, "ada") == ADA
    assert hash(ADA) == hash(Principal(ADA.source, "ada"))
    assert Principal("other", "ada") != ADA
    assert Principal(ADA.source, "eve") != ADA


def test_a_principal_keeps_its_groups_as_they_were() -> None:
    groups = {"staff"}
    principal = Principal("mcp", "ada", groups)
    groups.add("admins")
    assert principal.groups == {"staff"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"source": None}, "source is None: input should be a valid string"),
        ({"id": 7}, "id is 7: input should be a valid string"),
        ({"groups": "staff"}, "groups are several texts"),
        ({"groups": [7]}, "groups are several texts"),
        ({"claims": {"a": 1}}, r"write Secret\(...\)"),
        ({"auth": "hunter2"}, r"write Secret\(...\)"),
    ],
)
def test_a_principal_of_other_types_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        Principal(**{"source": "mcp", "id": "ada", **fields})


def test_a_copy_has_groups_and_neither_claims_nor_credentials() -> None:
    for made in (ADA.public(), copy.deepcopy(ADA), copy.copy(ADA), pickle.loads(pickle.dumps(ADA))):
        assert (made, made.groups) == (ADA, {"staff"})
        assert (dict(made.claims.reveal()), made.auth) == ({}, None)


def test_no_text_shows_claims_or_credentials() -> None:
    assert "sales" not in repr(ADA)
    assert "hunter2" not in repr(ADA)
    with pytest.raises((ValueError, TypeError)):
        json.dumps(to_jsonable_python(ADA))


def test_a_context_shows_one_principal_by_three_names() -> None:
    context: Any = ToolContext(session=None, principal=ADA)  # type: ignore[arg-type]
    assert (context.user_id, context.auth) == ("ada", ADA.auth)
    context = ToolContext(session=None, user_id="ada", auth=ADA.auth)  # type: ignore[arg-type]
    assert context.principal == Principal("application", "ada")
    assert context.principal.auth is ADA.auth
    context = ToolContext(session=None)  # type: ignore[arg-type]
    assert (context.principal, context.user_id, context.auth) == (None, None, None)
