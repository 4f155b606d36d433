"""JSON Schemas that came from elsewhere."""

import json
import sys
import time

import pytest

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "depth": {"$ref": "#/$defs/depth"},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"depth": {"type": "integer", "minimum": 0}},
}
DRAFTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-04/schema#",
]


def codec(schema=SCHEMA):
    return SchemaCodec(schema, owner="Tool 'walk', params")


def test_values_are_plain_json_and_come_back_the_same():
    value = {"path": "a", "depth": 2}
    assert codec().decode(codec().encode(value)) == value
    assert codec().fits(value) is None


def test_all_faults_are_told_at_once():
    with pytest.raises(ToolValidationError) as caught:
        codec().decode('{"path": "", "depth": "2", "deep": 1}')
    told = str(caught.value)
    assert told.startswith("Invalid arguments:")
    assert told.count("  - ") == 3
    assert "depth: \"2\" is not of type 'integer'" in told
    assert "deep: not known; did you mean 'depth'?" in told


def faults_of(schema, value):
    """Return what is told of a value, line by line."""
    with pytest.raises(ToolValidationError) as caught:
        codec(schema).decode(json.dumps(value))
    heading, *faults, end = str(caught.value).splitlines()
    assert (heading, end) == ("Invalid arguments:", "Fix these, then retry.")
    return [each.removeprefix("  - ") for each in faults]


NOTE = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
    "required": ["title", "text"],
}


def test_what_is_missing_is_told_with_what_was_given_in_its_place():
    assert faults_of(NOTE, {"titles": "a", "text": 3, "colour": "red"}) == [
        "title: required, but missing",
        "titles: not known; did you mean 'title'?",
        "text: 3 is not of type 'string'",
    ]


def test_what_may_not_be_given_is_told_name_by_name():
    assert faults_of({**NOTE, "additionalProperties": False}, {"titles": "a", "colour": "b"}) == [
        "title: required, but missing",
        "text: required, but missing",
        "titles: not known; did you mean 'title'?",
        "colour: not known",
    ]


def test_what_is_missing_within_is_told_with_its_place():
    notes = {"type": "object", "properties": {"notes": {"type": "array", "items": NOTE}}}
    assert faults_of(notes, {"notes": [{"title": "a", "txt": "b"}]}) == [
        "notes[0].text: required, but missing",
        "notes[0].txt: not known; did you mean 'text'?",
    ]


def test_a_name_that_another_part_of_the_schema_knows_is_not_taken_for_a_mistake():
    ends = {
        "type": "object",
        "allOf": [
            {"properties": {"from_date": {"type": "string"}}},
            {"properties": {"to_date": {"type": "string"}}, "required": ["to_date"]},
        ],
    }
    assert faults_of(ends, {"from_date": "a"}) == ["to_date: required, but missing"]


def test_names_that_fit_a_pattern_are_not_among_what_may_not_be_given():
    tagged = {**NOTE, "patternProperties": {"^x-": {}}, "additionalProperties": False}
    (told,) = faults_of(tagged, {"title": "a", "text": "b", "x-c": 1, "y-c": 2})
    assert told == "y-c: not known"


def an_object(**properties):
    return {"type": "object", "properties": properties}


ROUND = an_object(kind={"const": "circle"}, radius={"type": "number"})
CIRCLE = {**ROUND, "required": ["kind", "radius"]}
BOX = {**an_object(kind={"const": "box"}, width={"type": "number"}), "required": ["kind"]}


class TestAlternatives:
    @pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
    def test_each_is_told_of_and_the_likeliest_first(self, keyword):
        schema = an_object(shape={keyword: [BOX, CIRCLE, {"type": "null"}]})
        assert faults_of(schema, {"shape": {"kind": "circle", "width": 2}}) == [
            "shape: fits none of its 3 alternatives; the likeliest are",
            "(1) shape.radius: required, but missing",
            '(2) shape.kind: "circle" is not one of ["box"]',
        ]

    def test_with_one_that_may_be_meant_its_faults_are_told_alone(self):
        schema = an_object(shape={"anyOf": [{"type": "null"}, CIRCLE]})
        assert faults_of(schema, {"shape": {"kind": "circle"}}) == [
            "shape.radius: required, but missing"
        ]

    def test_of_simple_types_it_is_told_which_there_are(self):
        schema = an_object(size={"anyOf": [{"type": "string"}, {"type": ["null", "integer"]}]})
        assert faults_of(schema, {"size": True}) == [
            "size: true is not of type 'string' or 'null' or 'integer'"
        ]

    @pytest.mark.parametrize(
        ("choices", "value", "told"),
        [
            (
                [{"type": "integer"}, {"enum": ["auto"]}],
                True,
                """of type 'integer' or one of ["auto"]""",
            ),
            ([{"type": "null"}, {"const": 1}], "x", "of type 'null' or one of [1]"),
            ([{"enum": ["a", "b"]}, {"const": None}], 3, 'one of ["a", "b"] or [null]'),
            (
                [{"type": "integer"}, {"enum": ["auto"]}],
                "aut",
                """of type 'integer' or one of ["auto"]""",
            ),
        ],
    )
    def test_of_listed_values_it_is_told_which_there_are(self, choices, value, told):
        (found,) = faults_of(an_object(size={"anyOf": choices}), {"size": value})
        assert found == f"size: {json.dumps(value)} is not {told}"

    def test_nothing_is_told_twice_of_an_alternative(self):
        two = {**an_object(), "required": ["a", "b"]}
        schema = an_object(shape={"anyOf": [two, {"type": "null"}]})
        assert faults_of(schema, {"shape": {}}) == [
            "shape.a: required, but missing",
            "shape.b: required, but missing",
        ]

    def test_what_must_not_be_is_told_in_the_words_of_json(self):
        (found,) = faults_of(an_object(a={"not": {"const": None}}), {"a": None})
        assert found == 'a: null should not be valid under {"const": null}'

    def test_within_alternatives_there_may_be_others(self):
        schema = an_object(shapes={"anyOf": [{"type": "array", "items": {"anyOf": [CIRCLE]}}]})
        assert faults_of(schema, {"shapes": [{"kind": "circle", "radius": None}]}) == [
            "shapes[0].radius: null is not of type 'number'"
        ]

    def test_more_than_one_where_one_must_fit_is_told(self):
        schema = an_object(size={"oneOf": [{"type": "integer"}, {"minimum": 0}]})
        assert faults_of(schema, {"size": 3}) == [
            "size: fits more than one alternative of the schema, which must be one"
        ]

    def test_whatever_the_alternatives_are_a_value_that_fits_none_is_refused(self):
        both = {"allOf": [{"type": "string"}, {"type": "null"}]}
        assert faults_of(an_object(a={"anyOf": [both]}), {"a": 3}) == [
            "a: 3 is not of type 'string' or 'null'"
        ]
        assert faults_of(an_object(a={"anyOf": [False, {"type": "null"}]}), {"a": 3}) == [
            "a: false schema does not allow 3"
        ]
        assert faults_of(an_object(a={"oneOf": [False]}), {"a": 3})
        assert faults_of(an_object(a={"anyOf": [{"type": "null", "enum": [1]}]}), {"a": 3})

    def test_of_many_the_likeliest_three_are_told(self):
        many = [an_object(kind={"const": str(number)}) for number in range(50)]
        faults = faults_of(an_object(shape={"anyOf": many}), {"shape": {"kind": "x"}})
        assert len(faults) == 1 + 3

    def test_no_secret_is_told(self):
        secret = {"anyOf": [{"type": "string", "writeOnly": True}, {"type": "null"}]}
        (told,) = faults_of(an_object(pin=secret), {"pin": 31337})
        assert told == "pin: is not of type 'string' or 'null'"


def test_values_are_told_in_the_words_of_json(subtests):
    for schema, value, told in [
        ({"type": "string"}, None, "a: null is not of type 'string'"),
        (
            {"type": "string"},
            {"b": [True, None]},
            "a: {\"b\": [true, null]} is not of type 'string'",
        ),
        ({"enum": ["x", None, True]}, False, 'a: false is not one of ["x", null, true]'),
        ({"const": None}, "it's", 'a: "it\'s" is not one of [null]'),
        ({"maxLength": 2}, "it's", 'a: "it\'s" is too long'),
        ({"minLength": 1}, "", 'a: "" should be non-empty'),
        ({"minItems": 1}, [], "a: [] should be non-empty"),
        ({"maxProperties": 0}, {"b": 1}, 'a: {"b": 1} is expected to be empty'),
        ({"maxItems": 1}, [1, 2], "a: [1, 2] is too long"),
        ({"minProperties": 2}, {"b": 1}, 'a: {"b": 1} does not have enough properties'),
        ({"minimum": 5}, 3, "a: 3 is less than the minimum of 5"),
        ({"exclusiveMaximum": 5}, 5, "a: 5 is greater than or equal to the maximum of 5"),
        ({"uniqueItems": True}, [1, 1], "a: [1, 1] has non-unique elements"),
        (
            {"contains": {"const": 1}},
            [2],
            "a: [2] does not contain items matching the given schema",
        ),
        ({"dependentRequired": {"b": ["c"]}}, {"b": 1}, "a: 'c' is a dependency of 'b'"),
        ({"propertyNames": {"maxLength": 1}}, {"bc": 1}, 'a: "bc" is too long'),
        (
            {"unevaluatedProperties": False},
            {"{b}": {}},
            "a: unevaluated properties are not allowed ('{b}' was unexpected)",
        ),
        (
            {"unevaluatedItems": False},
            [{"b": 1}],
            "a: unevaluated items are not allowed ('{\"b\":1}' was unexpected)",
        ),
    ]:
        with subtests.test(schema=schema, value=value, told=told):
            assert faults_of(an_object(a=schema), {"a": value}) == [told]


class TestPatterns:
    def test_one_that_cannot_be_searched_for_in_bounded_time_is_refused(self, subtests):
        for place in ["pattern", "patternProperties"]:
            for pattern in ["(?=(a*)*b)", "(?!x)y", "(?<=a)b", r"(a+)\1", "x{1,2000}"]:
                with subtests.test(place=place, pattern=pattern):
                    there = {"pattern": pattern} if place == "pattern" else {place: {pattern: {}}}
                    with pytest.raises(
                        DefinitionError, match="cannot be searched for in bounded time"
                    ):
                        codec(an_object(a=there))

    def test_none_of_them_takes_long(self):
        schema = an_object(a={"pattern": "^(a+)+$"}, b={"patternProperties": {"^(b+)+$": False}})
        (told,) = faults_of(schema, {"a": "a" * 60 + "!", "b": {"b" * 60 + "!": 1}})
        assert "does not match '^(a+)+$'" in told

    def test_none_of_them_takes_long_beneath_a_schema_keyword(self, subtests):
        for place in [
            lambda part, draft: {"properties": {"v": {**part, "$schema": draft}}},
            lambda part, draft: {
                "$schema": draft,
                "properties": {"v": {"$ref": "#/definitions/text"}, "w": {"$ref": "#"}},
                "definitions": {"text": {**part, "$schema": draft}},
            },
            lambda part, draft: {
                "$schema": draft,
                "properties": {"v": {"$ref": "#"}},
                **part,
            },
            lambda part, draft: {
                "properties": {"v": {"$ref": "#/examples/0"}},
                "examples": [{**part, "$schema": draft}],
            },
        ]:
            for draft in [*DRAFTS, "https://example.com/a-draft-of-theirs"]:
                with subtests.test(place=place, draft=draft):
                    schema = place({"pattern": "^(a+)+$"}, draft)
                    value = {"v": "a" * 24 + "!"}
                    began = time.perf_counter()
                    assert "does not match '^(a+)+$'" in str(codec(schema).fits(value))
                    assert time.perf_counter() - began < 0.5
                    letters = codec(place({"pattern": r"^\p{L}+$"}, draft))
                    assert letters.fits({"v": "abc"}) is None
                    assert letters.fits({"v": "1"}) is not None

    def test_none_of_them_takes_long_within_the_schema_of_a_draft(self):
        schema = {
            "$id": "https://example.com/theirs",
            "$dynamicAnchor": "meta",
            "$ref": DRAFTS[0],
            "properties": {"title": {"pattern": r"^\p{L}+$"}},
        }
        assert codec(schema).fits({"not": {"title": "abc"}}) is None
        assert "does not match" in codec(schema).fits({"not": {"title": "1"}})

    def test_a_name_or_value_called_schema_stays(self):
        held = {"$schema": DRAFTS[0]}
        schema = an_object(
            a={"const": held}, b={"enum": [held]}, **{"$schema": {"type": "integer"}}
        )
        assert codec(schema).fits({"a": held, "b": held, "$schema": 1}) is None
        assert len(faults_of(schema, {"a": {}, "b": {}, "$schema": "x"})) == 3

    @pytest.mark.parametrize("draft", [5, {}, None])
    def test_a_schema_keyword_that_is_no_text_is_refused(self, draft):
        with pytest.raises(DefinitionError, match=r"not valid at .*schema"):
            codec({"$schema": draft})

    def test_properties_that_patterns_name_are_checked(self):
        schema = {
            "type": "object",
            "patternProperties": {r"^\p{Lu}": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        }
        assert faults_of(schema, {"A": "x", "a": 1}) == [
            "A: \"x\" is not of type 'integer'",
            "a: 1 is not of type 'string'",
        ]

    def test_with_evaluated_properties_they_are_checked(self):
        schema = {"patternProperties": {"^a": {}}, "unevaluatedProperties": False}
        assert codec(schema).fits({"ab": 1}) is None
        assert "'b' was unexpected" in codec(schema).fits({"ab": 1, "b": 2})

    @pytest.mark.parametrize("place", ["default", "unknown"])
    def test_a_pattern_that_only_a_reference_leads_to_is_one(self, place):
        schema = {"$ref": f"#/{place}/a", place: {"a": {"$ref": f"#/{place}/b"}}}
        schema[place]["b"] = {"pattern": "(?=a)"}
        with pytest.raises(DefinitionError, match="bounded time"):
            codec(schema)
        schema[place]["b"] = {"pattern": "^{[^]a{,3}$"}
        assert codec(schema).decode('"{\\na{,3}"') == "{\na{,3}"

    def test_what_is_a_value_or_a_name_is_not_taken_for_one(self):
        held = {"enum": [{"pattern": "(?=a)"}], "default": {"pattern": "(?=a)"}}
        assert codec(an_object(pattern=held, default={"type": "string"})).fits({}) is None
        with pytest.raises(DefinitionError, match="bounded time"):
            codec(an_object(default={"pattern": "(?=a)"}))


@pytest.mark.parametrize("depth", [200, 1_000, 20_000])
@pytest.mark.parametrize("keyword", ["properties", "items", "allOf"])
def test_a_schema_without_an_end_to_its_depth_is_refused_in_clear_words(depth, keyword):
    schema = {"type": "object"}
    for _ in range(depth):
        schema = {
            "properties": {"properties": {"a": schema}},
            "items": {"items": schema},
            "allOf": {"allOf": [schema]},
        }[keyword]
    with pytest.raises(DefinitionError, match="nested too deeply to be checked; nest it less"):
        codec(schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "{", '{"path": NaN}', '{"path": "\ud800"}', "[" * 10_000, b"\xff"]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ToolValidationError, match="not valid JSON"):
        codec().decode(text)


@pytest.mark.parametrize("text", ['{"path": "a", "path": "b"}', '{"path": "a", "depth": 1e999}'])
def test_lenient_json_is_refused(text):
    with pytest.raises(ToolValidationError, match="then retry"):
        codec().decode(text)


@pytest.mark.slow
def test_a_long_value_is_not_echoed():
    with pytest.raises(ToolValidationError) as caught:
        codec().decode('{"path": "a", "depth": "' + "x" * 10_000_000 + '"}')
    assert len(str(caught.value)) < 400


def test_a_secret_is_not_echoed():
    hidden = {"type": "object", "properties": {"key": {"type": "string", "writeOnly": True}}}
    with pytest.raises(ToolValidationError) as caught:
        codec(hidden).decode('{"key": 31337}')
    assert "31337" not in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": False},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^h": {"type": "string"}}},
        {"required": ["hunter"]},
    ],
)
def test_a_name_that_nobody_declared_is_not_echoed_where_secrets_are_about(more):
    key = {"key": {"type": "string", "format": "password"}}
    with pytest.raises(ToolValidationError) as caught:
        codec({"type": "object", "properties": key, **more}).decode('{"hunter2": 7}')
    assert "hunter2" not in str(caught.value)


PRICE = {"properties": {"price": {"type": "number", "multipleOf": 0.01}}}


@pytest.mark.parametrize("price", ["19.99", "0.07", "4.35", "-0.1", "1", "1.0", "1e300", "0"])
def test_a_multiple_of_a_decimal_is_one_as_it_is_written(price):
    assert codec(PRICE).decode(f'{{"price": {price}}}') == {"price": json.loads(price)}


@pytest.mark.parametrize("price", [19.999, 0.0700001, 1e-300])
def test_what_is_no_multiple_is_told(price):
    assert faults_of(PRICE, {"price": price}) == [f"price: {price} is not a multiple of 0.01"]


def test_numbers_of_every_size_can_be_multiples():
    tiny = codec({"items": {"multipleOf": 5e-324}})
    assert tiny.decode(f"[1e308, 5e-324, {10**4000}]") == [1e308, 5e-324, 10**4000]
    assert codec({"items": {"multipleOf": 7}}).decode('["a", 14.0, true]') == ["a", 14.0, True]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/required", "required": ["a"]},
        {"$schema": DRAFTS[-1], "properties": {"a": {"id": "a b"}}},
        {"properties": {"a": {"$id": "http://[::1"}}},
        {"maximum": float("inf")},
        {"enum": {1}},
    ],
)
def test_a_schema_that_only_a_validator_finds_wrong_is_refused_where_it_is_written(schema):
    with pytest.raises(DefinitionError, match="Tool 'walk', params: its JSON Schema"):
        codec(schema)


def test_a_wrong_schema_is_refused_where_it_is_written():
    with pytest.raises(DefinitionError, match="Tool 'walk', params: its JSON Schema is not valid"):
        codec({"type": 5})


@pytest.mark.parametrize(
    "target",
    [
        "https://example.org/schema.json",
        "other.json",
        "#/$defs/missing",
        "#/properties/a/oneOf/2",
        "#nowhere",
        f"#/properties/a/oneOf/{'9' * 5000}",
    ],
)
def test_what_is_not_in_the_schema_cannot_be_referred_to(target):
    with pytest.raises(DefinitionError, match="which is not in it; copy"):
        codec({"type": "object", "properties": {"a": {"oneOf": [{"$ref": target}, {}]}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object"}}},
        {"$ref": "#/$defs/Box%5Bint%5D", "$defs": {"Box[int]": {"type": "object"}}},
        {"$ref": "#/$defs/List<a b>", "$defs": {"List<a b>": {"type": "object"}}},
        {"$ref": "#/$defs/a%7E0b%20c", "$defs": {"a~b c": {"type": "object"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"allOf": [{"type": "object"}, {"$ref": "#/allOf/0"}]},
        {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "object"}}},
    ],
)
def test_references_within_the_schema_are_followed(schema):
    assert codec(schema).decode("{}") == {}


def deeper(frames, call):
    """Return what a call returns that is made so many frames further up the stack."""
    return deeper(frames - 1, call) if frames else call()


@pytest.mark.parametrize(
    "schema",
    [{"allOf": [{"$ref": "#"}]}, {"not": {"$ref": "#"}}, {"$anchor": "it", "not": {"$ref": "#it"}}],
)
def test_by_a_schema_without_an_end_nothing_is_taken(schema):
    endless = codec({"type": "object", **schema})
    # Where the stack ends depends on where it begins, and what ends there on that.
    for frames in range(40):
        with pytest.raises(ToolValidationError, match="refers to itself without an end"):
            deeper(frames, lambda: endless.decode("{}"))
    assert "refers to itself without an end" in (endless.fits({}) or "")


def test_the_schema_is_given_as_a_copy():
    mine = codec()
    mine.schema()["properties"].clear()
    assert "path" in mine.schema()["properties"]


def test_a_value_that_json_cannot_say_does_not_fit():
    assert codec().fits({"path": object()}) is not None
    assert "required" in codec().fits({})


@pytest.mark.slow
def test_jsonschema_rs_is_imported_only_when_needed():
    import subprocess

    text = "import sys, toolstile_hookspecs; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


class TestNullable:
    """The keyword of OpenAPI 3.0 in the schemas of servers."""

    def test_null_is_taken_where_it_says_so_and_nowhere_else(self):
        named = an_object(
            a={"type": "string", "nullable": True},
            b={"type": "integer", "nullable": False},
            c={"items": {"$ref": "#/$defs/c"}},
            nullable={"const": {"nullable": True, "type": "x"}},
        )
        schema = {**named, "$defs": {"c": {"type": "number", "nullable": True}}}
        value = {"a": None, "c": [None, 1], "nullable": {"nullable": True, "type": "x"}}
        assert codec(schema).fits(value) is None
        assert codec(schema).decode('{"a": null}') == {"a": None}
        told = faults_of(schema, {"a": 3, "b": None, "c": ["x"]})
        assert [each.partition(":")[0] for each in told] == ["a", "b", "c[0]"]
        assert told[0] == "a: 3 is not of type 'string' or 'null'"

    def test_the_schema_that_is_shown_says_it_in_the_words_of_its_draft(self):
        given = an_object(a={"type": "string", "nullable": True}, b={"nullable": True})
        shown = codec(given).schema()["properties"]
        assert shown == {"a": {"type": ["string", "null"]}, "b": {"nullable": True}}
        assert given["properties"]["a"] == {"type": "string", "nullable": True}

    def test_an_enum_stays_as_it_is(self):
        schema = an_object(a={"type": "string", "nullable": True, "enum": ["x", None]})
        assert codec(schema).fits({"a": None}) is None
        schema = an_object(a={"type": "string", "nullable": True, "enum": ["x"]})
        assert faults_of(schema, {"a": None}) == ['a: null is not one of ["x"]']
