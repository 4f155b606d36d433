"""Names given twice and numbers that are none are refused; everything else passes."""

import json

import pytest
from hypothesis import given, strategies as st

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs._schema.codec import Codec

check_names = Codec(object, owner="test").decode


def refused(text):
    try:
        check_names(text)
    except ToolValidationError:
        return True
    return False


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_strict_json_passes_as_text_and_as_bytes(text):
    assert not refused(text)
    assert not refused(text.encode())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"a": 1, "a": 1}', "'a'"),
        ('{"a": 1, "\\u0061": 1}', "'a'"),
        ('{"x": [{"deep": 1, "deep": 2}]}', "'deep'"),
        ('{"a": ":", "a": 2}', "'a'"),
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
