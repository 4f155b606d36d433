"""The schemas that servers give their tools are shown and enforced."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import DefinitionError
from toolstile_plugins.mcp.gateway.tools import LONGEST, enforceable

HIDDEN = "Text.\x1b[2J\u202e\U000e0041\u200b"
SLOW = {"patternProperties": {"^(b+)+$": {}}}


def an_object(**properties):
    return {"type": "object", "properties": properties}


def test_nothing_unseen_stays_in_its_texts():
    schema = an_object(text={"title": HIDDEN, "description": HIDDEN, "$comment": HIDDEN})
    shown = enforceable(schema)["properties"]["text"]
    assert set(shown.values()) == {"Text."}


def test_what_is_named_like_a_text_is_no_text():
    schema = an_object(description={"type": "string"}, title={"type": "string"})
    assert enforceable(schema) == schema


def test_values_stay_as_they_are():
    values = [{"description": HIDDEN, "pattern": "(?=a)"}]
    schema = an_object(kind={"enum": values, "default": values[0]}, same={"const": values[0]})
    assert enforceable(schema) == schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (an_object(**{"text\u200b": {}}), "a name in its schema holds characters"),
        (an_object(text={"maximum": float("nan")}), "a number that JSON does not have"),
        (an_object(text={"default": [float("inf")]}), "a number that JSON does not have"),
        (an_object(text={"description": "x" * LONGEST}), "more than 200,000 characters"),
        (
            an_object(a={"$ref": "#/default"}) | {"default": SLOW},
            "#/default, which is not a schema",
        ),
        (an_object(a={"$ref": "#/properties"}, **SLOW), "#/properties, which is not a schema"),
    ],
)
def test_what_no_model_should_be_shown_is_refused(schema, why):
    with pytest.raises(DefinitionError, match=why):
        enforceable(schema)


def test_references_to_schemas_stay_whatever_their_names():
    same = {name: {"$ref": f"#/properties/{name}"} for name in ("default", "properties")}
    assert enforceable(an_object(**same)) == an_object(**same)
