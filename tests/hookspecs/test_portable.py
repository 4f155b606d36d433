"""Typed values cross between processes as JSON, and a text imports nothing."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

from toolstile_hookspecs import SnapshotError
from toolstile_hookspecs.codecs import PortableValues, found_at, imported_from, place_of


@dataclass(frozen=True)
class Note:
    text: str


class Model(BaseModel):
    notes: list[Note]


class Pair(NamedTuple):
    left: int
    right: Any


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Key:
    secret: SecretStr


def test_a_value_is_read_as_it_was_written(subtests: pytest.Subtests) -> None:
    for value in [
        None,
        "a lone \udce9",
        float("inf"),
        b"\x00\xff",
        {"a": [1, ("b", {2})], "c": frozenset()},
        [Note("a"), Note("b")],
        (Note("a"), Model(notes=[Note("b")]), 1),
        Pair(1, [2]),
        Colour.RED,
        [date(2026, 11, 26), datetime(2026, 11, 26, tzinfo=UTC), Decimal("1.20"), UUID(int=1)],
        Path("a/b"),
        Note,
        [int, str],
    ]:
        with subtests.test(value=value):
            again = PortableValues().read(json.loads(json.dumps(PortableValues().write(value))))
            assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (threading.Lock(), r"value \(lock\) is not data; use JSON values"),
        ({"a": {1: 2}}, r"value.a has a key \(int\) that is not a text; use texts"),
        ([Note, object()], r"value\[1\] \(object\) is not data"),
        ([Key(SecretStr("x"))], r"value\[0\].secret \(SecretStr\) would come .* secrets elsewhere"),
        (
            Pair(1, Note("a")),
            r"value\[1\] \(Note\) would come back as dict; let the field name",
        ),
        (type("Local", (), {}), "define it at the top level of a module"),
    ],
    ids=["lock", "key", "object", "secret", "any", "local"],
)
def test_a_value_that_would_be_read_as_another_is_refused(value: Any, told: str) -> None:
    with pytest.raises(SnapshotError, match=told):
        PortableValues().write(value)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (["one", "antigravity:Fly", [1]], "no type antigravity:Fly in this process"),
        (["type", "json:dumps"], "no type json:dumps"),
        (["one", "pydantic.types:ImportString", ["antigravity"]], r"\(ImportString\) is not data"),
        (["one", f"{__name__}:Note", [{"text": 1}]], "do not fit"),
        (["run", "os:system", ["true"]], "none of the forms"),
        ([1, 2], "none of the forms"),
    ],
)
def test_a_text_makes_nothing_but_data_of_loaded_types(written: Any, told: str) -> None:
    with pytest.raises((SnapshotError, ValueError), match=told):
        PortableValues().read(written)
    assert "antigravity" not in sys.modules


def test_a_place_is_found_without_an_import_unless_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "portable_here.py").write_text("class Thing: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert found_at("portable_here:Thing") is None
    thing = imported_from("portable_here:Thing")
    assert found_at("portable_here:Thing") is thing
    assert place_of(thing) == "portable_here:Thing"
    assert place_of(lambda: None) is None
