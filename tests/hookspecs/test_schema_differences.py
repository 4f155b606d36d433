"""Schemas mean to jsonschema-rs what they mean to the suite of the standard, and to jsonschema.

Each disagreement is named in a table, with the reason for which it stays.
"""

import json
import subprocess
import sys
import tarfile

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}

THEIR_DRAFT = "an unknown $schema stands for draft 2020-12, whatever its metaschema says"
CONTENT = "contentEncoding and contentMediaType are annotations, as from draft 2019-09 on"
WHOLE = "models write 3.0 for 3, which is an integer from draft 6 on"

OF_SUITE = {
    ("draft2020-12", "optional/format-assertion", "format-assertion: false: invalid string"): (
        THEIR_DRAFT
    ),
    ("draft2020-12", "optional/format-assertion", "format-assertion: true: invalid string"): (
        THEIR_DRAFT
    ),
    **{
        (draft, "vocabulary", "no validation: invalid number, but it still validates"): THEIR_DRAFT
        for draft in ("draft2020-12", "draft2019-09")
    },
    **{
        ("draft7", "optional/content", description): CONTENT
        for description in (
            "an invalid JSON document",
            "an invalid base64 string (% is not a valid character)",
            "a validly-encoded invalid JSON document",
            "an invalid base64 string that is valid JSON",
        )
    },
    (
        "draft4",
        "optional/zeroTerminatedFloats",
        "a float is not an integer even without fractional part",
    ): WHOLE,
}
"""The cases of the suite that are decided otherwise, and why."""
REMOTE = "http://localhost:1234/"
"""The address of the suite's other documents: nothing is fetched, so their schemas are refused."""


def takes(codec, text):
    try:
        codec.decode(text)
    except ToolValidationError:
        return False
    return True


def refusal_of(schema):
    try:
        SchemaCodec(schema, owner="the suite")
    except DefinitionError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The folder of JSON-Schema-Test-Suite in the source of the package jsonschema."""
    folder = tmp_path_factory.mktemp("suite")
    command = [
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        "jsonschema",
        "jsonschema==4.26.0",
    ]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the source of jsonschema cannot be downloaded: {done.stderr[-200:]}")
    with tarfile.open(next(folder.glob("jsonschema-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("jsonschema-*/json/tests"))


@pytest.mark.long
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_suite_of_the_standard_is_decided_as_it_says(suite, draft):
    different, number = set(), 0
    for path in sorted((suite / draft).rglob("*.json")):
        name = path.relative_to(suite / draft).with_suffix("").as_posix()
        if name.startswith("optional/format/"):
            continue  # formats are annotations, and the cases demand that each is checked
        for group in json.loads(path.read_text()):
            given = group["schema"]
            schema = {"$schema": DRAFTS[draft], **given} if isinstance(given, dict) else {}
            schema = schema or {"allOf": [given]}
            if f"(Resource '{REMOTE}" in refusal_of(schema):
                continue
            codec = SchemaCodec(schema, owner="the suite")
            for case in group["tests"]:
                number += 1
                if takes(codec, json.dumps(case["data"])) != case["valid"]:
                    different.add((draft, name, case["description"]))
    assert number > 500
    assert different == {case for case in OF_SUITE if case[0] == draft}


# --- Beside jsonschema

NESTED = {"properties": {"a": {"$schema": DRAFTS["draft7"], "dependencies": {"b": ["c"]}}}}
BIG = 10**30

DECIDED = [
    # The schema, the JSON, whether it is taken, whether jsonschema takes it, and why.
    ({"type": "integer"}, "3.0", True, True, "it is whole, and arrives as 3"),
    ({"type": "integer"}, "3.5", False, False, ""),
    ({"type": "integer"}, str(BIG), True, True, "integers have any size"),
    ({"maximum": BIG}, str(BIG + 1), False, False, "they are compared exactly"),
    ({"type": "integer"}, "1e30", True, True, "it is whole"),
    ({"const": 2**53 + 1}, f"{2**53}.0", False, False, ""),
    ({"enum": [1, False]}, "true", False, False, "true is no number"),
    ({"uniqueItems": True}, "[1, true, 0, false]", True, True, "nor are they equal"),
    ({"uniqueItems": True}, "[1, 1.0]", False, False, "they are one number"),
    ({}, "NaN", False, True, "it is no JSON"),
    ({}, "1e999", False, True, "it is out of range"),
    ({}, '{"a": 1, "a": 2}', False, True, "nobody knows which is meant"),
    ({"multipleOf": 0.01}, "19.99", True, False, "numbers are taken as they are written"),
    ({"multipleOf": 0.01}, "4.35", True, False, "numbers are taken as they are written"),
    ({"multipleOf": 0.01}, "19.999", False, False, ""),
    ({"multipleOf": 0.1}, "1e300", True, True, "numbers of every size can be multiples"),
    ({"format": "email"}, '"x"', True, True, "formats are annotations"),
    ({"format": "date"}, '"x"', True, True, "formats are annotations"),
    ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, '{"a": 1}', False, False, ""),
    ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "1", False, None, "it has no end"),
    ({"pattern": "^[^]$"}, '"\\n"', True, None, "to ECMA-262 that is any character"),
    ({"pattern": "^a{,3}$"}, '"a{,3}"', True, False, "to ECMA-262 it is no count"),
    ({"pattern": "^a{,3}$"}, '"aa"', False, True, "to ECMA-262 it is no count"),
    ({"pattern": r"^\d$"}, '"\u0663"', False, True, "to ECMA-262 digits are 0 to 9"),
    ({"pattern": "a$"}, '"a\\n"', False, True, "to ECMA-262 that is not the end"),
    ({"pattern": r"^\p{L}$"}, '"\u00e9"', True, None, "Python's re knows no properties"),
    ({"pattern": r"^[\w-.]$"}, '"."', True, None, "scripts of the web allow it"),
    ({"minLength": 2}, '"\U0001f600"', False, False, "characters are counted, and not units"),
    (
        {"patternProperties": {"^a": {}}, "unevaluatedProperties": False},
        '{"ab": 1}',
        True,
        True,
        "the pattern evaluates it",
    ),
    ({"unevaluatedProperties": False, "not": {"required": ["a"]}}, '{"b": 1}', False, False, ""),
    (NESTED, '{"a": {"b": 1}}', False, False, "a known draft counts where it is named"),
]


def taken_by_jsonschema(schema, text):
    try:
        return Draft202012Validator(schema).is_valid(json.loads(text))
    except Exception:
        return None


def test_each_disagreement_is_decided(subtests):
    for schema, text, taken, theirs, reason in DECIDED:
        with subtests.test(schema=schema, text=text, taken=taken, theirs=theirs, reason=reason):
            assert takes(SchemaCodec(schema, owner="a test"), text) is taken
            assert taken_by_jsonschema(schema, text) is theirs
            assert reason or taken is theirs


NAMES = st.sampled_from(["a", "b", "ab", "c"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, 2.0, -1.5, 1e3, BIG, -BIG, 2**53 + 1, 1e300]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text("ab\u00e9\n", max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
COUNTS = st.integers(0, 3)
PATTERNS = st.sampled_from(["^a", "b", "^[ab]+", "a.b", "(a|b){2}", "[^a]"])


def keywords(inner):
    """Return the strategy of schemas with some keywords, of which some hold schemas."""
    several = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "pattern": PATTERNS,
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "properties": by_name,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True)),
            "dependentSchemas": by_name,
            "unevaluatedProperties": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "minContains": COUNTS,
            "maxContains": COUNTS,
            "unevaluatedItems": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


REFERENCE = st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, st.sampled_from("pq"))
PARTS = st.recursive(st.booleans() | REFERENCE, keywords, max_leaves=6)
SCHEMAS = st.builds(
    lambda schema, p, q: {**schema, "$defs": {"p": p, "q": q}},
    keywords(PARTS),
    st.recursive(st.booleans(), keywords, max_leaves=4),
    st.recursive(st.booleans() | st.just({"$ref": "#/$defs/p"}), keywords, max_leaves=4),
)


@pytest.mark.long
@settings(max_examples=2_000)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=5))
def test_values_are_taken_as_by_jsonschema_and_each_refusal_names_a_fault(schema, values):
    codec = SchemaCodec(schema, owner="a test")
    for value in values:
        text = json.dumps(value)
        assert takes(codec, text) is taken_by_jsonschema(schema, text), text
        told = codec.fits(value)
        assert (told is None) is takes(codec, text)
        assert told is None or "\n  - " in told
