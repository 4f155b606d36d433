"""The messages to a model about wrong arguments."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.json_schema import holds_secret, known_names
from toolstile_hookspecs._schema.validation_errors import (
    MAX_FAULTS,
    listing,
)


class Line(BaseModel):
    sku: str
    quantity: int


class Order(BaseModel):
    customer: str
    lines: list[Line] = []
    priority: Literal["low", "high"] = "low"
    last: Line | None = None


class Login(BaseModel):
    user: str
    password: SecretStr
    attempts: int = 1


def message(kind, text):
    with pytest.raises(ToolValidationError) as caught:
        Codec(kind, owner="test").decode(text)
    return str(caught.value)


@pytest.mark.slow
def test_all_faults_are_told_at_once_each_with_its_place_and_what_was_given():
    text = '{"lines": [{"sku": 1, "quantity": "10"}, {}], "priority": "mid", "custmer": "x"}'
    assert message(Order, text).splitlines() == [
        "Invalid arguments:",
        "  - customer: required, but missing",
        "  - lines[0].sku: input should be a valid string, got 1",
        '  - lines[0].quantity: input should be a valid integer, got "10"',
        "  - lines[1].sku: required, but missing",
        "  - lines[1].quantity: required, but missing",
        "  - priority: input should be 'low' or 'high', got \"mid\"",
        "  - custmer: not known; did you mean 'customer'?",
        "Fix these, then retry.",
    ]


def test_true_is_no_integer():
    told = message(Order, '{"customer": "x", "lines": [{"sku": "s", "quantity": true}]}')
    assert "lines[0].quantity: input should be a valid integer, got true" in told


def test_an_unknown_name_within_an_object_gets_the_nearest_known_there():
    told = message(
        Order, '{"customer": "x", "lines": [{"sku": "s", "quantity": 1, "quantiti": 1}]}'
    )
    assert "lines[0].quantiti: not known; did you mean 'quantity'?" in told


def test_an_object_that_may_be_null_is_looked_into_for_the_nearest_name():
    told = message(Order, '{"customer": "x", "last": {"sku": "s", "quantiti": 1}}')
    assert "last.quantiti: not known; did you mean 'quantity'?" in told


def test_secrets_are_never_told():
    told = message(Login, '{"user": 5, "password": 31337, "attempts": "hunter2"}')
    assert "31337" not in told
    assert "hunter2" not in told
    assert told.count("  - ") == 3


def test_a_name_that_nobody_declared_is_not_told_where_secrets_are_about():
    told = message(Login, '{"user": "ada", "hunter2": 1, "hunter3": 2}')
    assert "hunter" not in told
    assert "***: not known; there are user, password, attempts" in told
    assert told.count("***") == 1
    near = message(Login, '{"user": "ada", "passwords": "x"}')
    assert "***: not known; did you mean 'password'?" in near


class Keyed(BaseModel):
    inner: dict[str, SecretStr]


def test_nor_is_a_key_of_a_mapping() -> None:
    told = message(Keyed, '{"inner": {"hunter2": 5}}')
    assert "inner.***: input should be a valid string" in told


class Chosen(BaseModel):
    user: str
    password: SecretStr

    @field_validator("password")
    @classmethod
    def check_strength(cls, password: SecretStr) -> SecretStr:
        text = password.get_secret_value()
        if text.isdigit():
            raise PydanticCustomError("weak", "digits only: {text}", {"text": text})
        if len(text) < 20:
            msg = f"{text} is too short"
            raise ValueError(msg)
        return password


@pytest.mark.parametrize("password", ["31337", "hunter2"])
def test_nor_are_they_by_the_author_of_a_validator(password):
    told = message(Chosen, json.dumps({"user": 5, "password": password}))
    assert told.splitlines()[1:-1] == [
        "  - user: input should be a valid string",
        "  - password: is not accepted",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"customer": ' + "x" * 10_000_000,
        '{"customer": 1, "' + "y" * 10_000_000 + '": 1}',
        '{"customer": ["' + "z" * 10_000_000 + '"]}',
        '{"customer": "c", "priority": "' + "p" * 10_000_000 + '"}',
    ],
)
def test_ten_megabytes_give_a_short_message(text):
    assert len(message(Order, text)) < 600


def test_no_more_than_twenty_faults_are_listed_and_the_rest_counted():
    told = listing([str(number) for number in range(100)])
    assert told.count("  - ") == MAX_FAULTS + 1
    assert "  - and 80 more" in told


def test_names_are_found_through_references_lists_and_maps():
    schema = Codec(dict[str, list[Line]], owner="test").schema()
    assert known_names(schema) == []
    assert known_names(schema, ["any", 3]) == ["sku", "quantity"]
    assert known_names(schema, ["any", "no list"]) == []


def test_a_secret_is_found_at_any_depth():
    assert holds_secret(Codec(list[Login], owner="test").schema())
    assert not holds_secret(Codec(Order, owner="test").schema())
