"""Sets in params are written as JSON in one order, lists in theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, PlainSerializer, SecretStr

from toolstile_hookspecs._schema.codec import Codec


@dataclass(frozen=True)
class Tagged:
    tags: frozenset[str]
    order: Annotated[list[int], Field(json_schema_extra={"uniqueItems": True})]
    either: set[int] | list[int] = field(default_factory=list[int])


class Group(BaseModel):
    names: set[str] = Field(default=set(), alias="n")
    groups: list[Group] = []


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (set[int], {8, 0, 10, 9}, "[0,10,8,9]"),
        (set[int | str], {"b", 8, "a", 0}, '["a","b",0,8]'),
        (set[frozenset[int]], {frozenset({8, 0}), frozenset({1})}, "[[0,8],[1]]"),
        (dict[str, set[float]], {"b": {1.5, 8, 0}, "a": set()}, '{"b":[0.0,1.5,8.0],"a":[]}'),
        (tuple[list[int], set[int]], ([8, 0], {8, 0}), "[[8,0],[0,8]]"),
        (set[int] | None, {8, 0}, "[0,8]"),
        (
            Tagged,
            Tagged(frozenset({"b", "a"}), [8, 0], [8, 0]),
            '{"tags":["a","b"],"order":[8,0],"either":[8,0]}',
        ),
        (
            Group,
            Group(n={"b"}, groups=[Group(n={"d", "c"})]),
            '{"n":["b"],"groups":[{"n":["c","d"],"groups":[]}]}',
        ),
    ],
)
def test_the_items_of_a_set_are_in_one_order(kind, value, text):
    codec = Codec(kind, owner="test", reveals=True)
    for _ in range(2):
        assert codec.encode(value).decode() == text


def test_secrets_in_params_are_too():
    codec = Codec(set[SecretStr], owner="test", reveals=True)
    assert codec.encode({SecretStr("b"), SecretStr("a")}) == b'["a","b"]'


def test_a_set_that_is_written_otherwise_stays_as_it_is():
    kind = Annotated[set[int], PlainSerializer(lambda value: ",".join(map(str, value)))]
    params: Any = Codec(dict[str, kind | set[str]], owner="test", reveals=True)
    assert params.encode({"a": {1}}) == b'{"a":"1"}'


def test_what_is_nested_too_deeply_to_be_read_is_written_all_the_same():
    group = Group()
    for _ in range(110):
        group = Group(groups=[group])
    assert Codec(Group, owner="test", reveals=True).encode(group).count(b"groups") == 111


@pytest.mark.slow
def test_it_is_the_same_in_each_process():
    code = (
        "from toolstile_hookspecs._schema.codec import Codec\n"
        "print(Codec(set[str], owner='test', reveals=True).encode({*'abcdefgh'}).decode())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=Path.cwd(),
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in range(1, 4)
    }
    assert said == {'["a","b","c","d","e","f","g","h"]\n'}
