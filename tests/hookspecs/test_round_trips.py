"""Values of plain types come back from JSON; types whose JSON may lose something are known."""

import dataclasses
from datetime import datetime
from enum import Enum
from typing import Annotated, Literal, NotRequired

import pytest
from hypothesis import given, strategies as st
from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    PlainSerializer,
    SecretStr,
    SerializeAsAny,
    Tag,
    TypeAdapter,
    computed_field,
    field_serializer,
    model_serializer,
)
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.core_schema import may_lose

pytestmark = pytest.mark.slow


class Line(BaseModel):
    text: str
    price: float = 0.0


class Total(TypedDict):
    kind: Literal["net", "gross"]
    value: NotRequired[int]


@dataclasses.dataclass
class Bill:
    first: Line
    lines: list[Line]
    totals: dict[str, Total]
    paid: bool | None = None


LINES = st.builds(Line, text=st.text(), price=st.floats(allow_nan=False, allow_infinity=False))
TOTALS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["net", "gross"])}, optional={"value": st.integers()}
)


@given(
    st.builds(
        Bill,
        LINES,
        st.lists(LINES, max_size=3),
        st.dictionaries(st.text(), TOTALS, max_size=3),
        st.none() | st.booleans(),
    )
)
def test_values_of_plain_types_equal_what_is_read_from_their_json(bill):
    codec = Codec(Bill, owner="test")
    assert codec.copy(codec.encode(bill)) == bill


class Aliased(BaseModel):
    text: str = Field(alias="t")


class Computed(BaseModel):
    @computed_field
    def text(self) -> str:
        return ""


class Writing(BaseModel):
    text: str

    @field_serializer("text")
    def _write(self, text: str) -> str:
        return text.upper()


class Recursive(BaseModel):
    below: "Recursive | None" = None


class Colour(Enum):
    RED = "red"


class Masking(BaseModel):
    @model_serializer
    def mask(self) -> str:
        return "***"


class Omitting(BaseModel):
    number: int = Field(0, exclude_if=lambda value: value > 1)


class Awkward(TypedDict):
    default: Annotated[str, PlainSerializer(len)]


@dataclasses.dataclass
class Holding:
    metadata: Masking | None = None


@pytest.mark.parametrize("kind", [Writing, Masking, Omitting, Awkward, Holding])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda kind: kind,
        lambda kind: dict[str, list[kind]],
        lambda kind: Annotated[
            Annotated[kind, Tag("default")] | Annotated[int, Tag("type")],
            Discriminator(lambda value: "type" if isinstance(value, int) else "default"),
        ],
    ],
    ids=["itself", "nested", "chosen"],
)
def test_what_is_written_by_its_author_may_lose_something(kind, wrap):
    assert may_lose(TypeAdapter(wrap(kind)).core_schema)


@pytest.mark.parametrize(
    "kind",
    [
        Bill,
        Aliased,
        Computed,
        Recursive,
        Colour,
        SecretStr,
        datetime,
        set[int],
        SerializeAsAny[Line],
    ],
)
def test_what_pydantic_writes_itself_does_not(kind):
    assert not may_lose(TypeAdapter(kind).core_schema)
