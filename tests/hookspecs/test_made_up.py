"""Which types read the same arguments differently, since they make up what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from toolstile_hookspecs._schema.core_schema import has_varying_defaults


class Numbered(BaseModel):
    number: str = Field(default_factory=lambda: uuid4().hex)


@dataclass
class Listed:
    names: list[str] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict[str, int])
    text: str = "a"


@dataclass
class Holding:
    listed: Listed = field(default_factory=Listed)


@dataclass
class Nested:
    numbered: Numbered = field(default_factory=Numbered)


class Around(BaseModel):
    inner: list[Around] = []
    number: Numbered | None = None


class Sized(BaseModel):
    a: int
    b: int = Field(default_factory=lambda data: data["a"])


@pytest.mark.parametrize("kind", [Numbered, list[Numbered], Nested, Around, Sized])
def test_a_factory_may_make_anything_however_deep(kind: Any):
    assert has_varying_defaults(TypeAdapter(kind).core_schema)


@pytest.mark.parametrize("kind", [Listed, Holding, int, dict[str, Any]])
def test_what_is_always_the_same_is_not_made_up(kind: Any):
    assert not has_varying_defaults(TypeAdapter(kind).core_schema)
