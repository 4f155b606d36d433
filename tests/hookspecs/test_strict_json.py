"""Names given twice and numbers that are none are refused; everything else passes."""

import json
from typing import Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

check_names = Codec(object, owner="test").decode


def refused(text):
    try:
        check_names(text)
    except ToolValidationError:
        return True
    return False


def test_strict_json_passes_as_text_and_as_bytes(subtests):
    for text in [
        "{}",
        "[]",
        "1",
        '"a"',
        '{"a": "NaN"}',
        '{"a": "Infinity", "b": "x:y"}',
        '{"Infinity": 1}',
        '{"a:b": ":::"}',
        '{"a": {"a": {"a": 1}}}',
        '[{"a": 1}, {"a": 1}]',
        '{"a": 1.5e308}',
        '{"a": 1e-999}',
        '{"a": ' + "9" * 308 + "}",
    ]:
        with subtests.test(text=text):
            assert not refused(text)
            assert not refused(text.encode())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"a": 1, "a": 1}', "'a'"),
        ('{"a": 1, "\\u0061": 1}', "'a'"),
        ('{"x": [{"deep": 1, "deep": 2}]}', "'deep'"),
        ('{"a": ":", "a": 2}', "'a'"),
        ('{"a": 1, "a": "\\u003a"}', "'a'"),
        ('{"a": 1, "a\\u003A": 1, "a\\u003A": 1}', "'a:'"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": [[-1e999]]}', "-1e999"),
        ("1e999", "1e999"),
    ],
)
def test_what_strict_readers_refuse_is_refused_and_named(text, named):
    for form in (text, text.encode()):
        with pytest.raises(ToolValidationError, match="then retry") as caught:
            check_names(form)
        assert named in str(caught.value)
        assert len(str(caught.value)) < 200


names = st.sampled_from(["a", "b", "a:b", '"', "\\", "ä", "NaN"])
scalars = st.one_of(st.integers(), st.text(':,"\\{}[]aN', max_size=5), st.none(), st.booleans())


class Count(BaseModel):
    number: int
    more: list[int] | None = None
    choice: Literal[1, 2] = 1
    share: float = 0.0


COUNTS = [
    ('{"number": 3.0}', Count(number=3)),
    ('{"number": 3.00, "more": [1e2, -0.0, 1.5e1]}', Count(number=3, more=[100, 0, 15])),
    ('{"number": 3, "choice": 2.0, "share": 3}', Count(number=3, choice=2, share=3.0)),
    ('{"number": 9007199254740993.0, "share": 0.5}', Count(number=2**53 + 1, share=0.5)),
]


@pytest.mark.parametrize(("text", "value"), COUNTS)
def test_a_whole_number_is_an_integer_however_it_is_written(text, value):
    read = Codec(Count, owner="test").decode(text)
    assert read == value
    assert type(read.number) is int
    of_schema = SchemaCodec(Count.model_json_schema(), owner="test").decode(text)
    assert Count.model_validate(of_schema, strict=True) == value
    assert type(of_schema["number"]) is int


@pytest.mark.parametrize(
    "text",
    [
        '{"number": 3.5}',
        '{"number": "3.0"}',
        '{"number": 03.0}',
        '{"number": 3.0.0}',
        '{"number": 3.}',
        '{"number": \u0663.0}',
        '{"number": 1e999999999}',
        '{"number": 3.0, "number": 3}',
        b'{"number": 3.0, "more": "\xff"}',
    ],
)
def test_nothing_else_becomes_an_integer(text):
    for codec in (Codec(Count, owner="t"), SchemaCodec(Count.model_json_schema(), owner="t")):
        with pytest.raises(ToolValidationError):
            codec.decode(text)


@pytest.mark.parametrize("schema", [{"enum": [1, 3]}, {"const": 3}, {"enum": [3, "a"]}])
def test_a_number_that_a_schema_lists_as_an_integer_is_one(schema):
    codec = SchemaCodec({"type": "object", "properties": {"a": schema}}, owner="t")
    assert codec.decode('{"a": 3.0}')["a"].__class__ is int


@pytest.mark.parametrize("schema", [{}, {"enum": [3.5, 3.0]}, {"type": "number"}])
def test_any_other_number_stays_as_it_is_written(schema):
    codec = SchemaCodec({"type": "object", "properties": {"a": schema}}, owner="t")
    assert codec.decode('{"a": 3.0}')["a"].__class__ is float


def test_texts_stay_as_they_are_where_numbers_do_not():
    codec = Codec(dict[str, int | str], owner="test")
    assert codec.decode('{"3.0": 3.0, "a": "4.0 \\" 5.0"}') == {"3.0": 3, "a": '4.0 " 5.0'}


def _object(pairs):
    body = ",".join(f"{json.dumps(name)}:{text}" for name, text in pairs)
    return f"{{{body}}}"


json_texts = st.recursive(
    scalars.map(json.dumps),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(names, inner), max_size=4).map(_object),
    ),
    max_leaves=12,
)


def _has_duplicate(text):
    found = []

    def look(pairs):
        seen = [name for name, _ in pairs]
        found.append(len(seen) != len(set(seen)))

    json.loads(text, object_pairs_hook=look)
    return any(found)


@pytest.mark.slow
@given(json_texts)
def test_duplicate_names_are_found_exactly_where_a_slow_reader_finds_them(text):
    assert refused(text) == _has_duplicate(text)
    assert refused(text.encode()) == _has_duplicate(text)


class Filled(BaseModel):
    a: int
    b: int = 3


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"a":1,"b":3}', b'{"a":1,"b":3}'),
        ('{"a": 1, "b": 3}', b'{"a":1,"b":3}'),
        ('{ "b": 3,\n"a": 1.0 }', b'{"a":1,"b":3}'),
        (b'{"a": 1}', b'{"a":1,"b":3}'),
    ],
)
def test_reading_gives_the_value_and_its_json(text, written):
    codec = Codec(Filled, owner="test", reveals=True)
    assert codec.read(text) == (Filled(a=1, b=3), written)


@pytest.mark.parametrize("text", ['{"a": 3, "a": 3}', '{"a":1,"b":3,"b":3}', '{"a": 1e999}'])
def test_reading_is_strict(text):
    with pytest.raises(ToolValidationError):
        Codec(Filled, owner="test", reveals=True).read(text)
