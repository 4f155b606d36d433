"""Every value a backend gives has a form in JSON that shares nothing with it."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from toolstile_bfcl.backends import start_backend
from toolstile_bfcl.json_form import json_form, state_form


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "text"])
def test_plain_values_stay(value):
    assert json_form(value) is value


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({1: (2, 3)}, {"1": [2, 3]}),
        ({3, 1, 2}, [1, 2, 3]),
        (Decimal("0.5"), 0.5),
        (mpmath.mpf("0.25"), 0.25),
        (Fraction(1, 2), 0.5),
    ],
)
def test_other_values_have_their_form(value, form):
    assert json_form(value) == form


def test_files_and_directories_are_objects():
    backend = start_backend("GorillaFileSystem", {})
    backend.mkdir("d")
    backend.touch("f")
    assert state_form(backend)["root"]["contents"] == {
        "d": {"type": "directory", "name": "d", "contents": {}},
        "f": {"type": "file", "name": "f", "content": ""},
    }


def test_a_form_does_not_change_with_its_value():
    inner = [1]
    form = json_form({"a": inner})
    inner.append(2)
    assert form == {"a": [1]}


def test_a_value_without_a_form_is_named():
    with pytest.raises(TypeError, match="object has no JSON form"):
        json_form(object())
