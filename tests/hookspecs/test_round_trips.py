"""Which types come back from JSON as they were."""

import dataclasses
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    SecretStr,
    SerializeAsAny,
    StringConstraints,
    Tag,
    TypeAdapter,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
)
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.round_trip import may_lose, survives_json

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
    assert codec.faithful is Bill
    assert codec.copy(codec.encode(bill)) == bill


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Line, Line), (list[Line], list), (dict[str, int], dict), (Total, dict), (str, str)],
)
def test_it_is_said_of_which_class_such_values_are(kind, expected):
    assert Codec(kind, owner="test").faithful is expected


class Aliased(BaseModel):
    text: str = Field(alias="t")


class Hiding(BaseModel):
    text: str = Field(default="", exclude=True)


class Private(BaseModel):
    _hidden: int = PrivateAttr(default=0)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Loose(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    text: str


class Computed(BaseModel):
    @computed_field
    def text(self) -> str:
        return ""


class Writing(BaseModel):
    text: str

    @field_serializer("text")
    def _write(self, text: str) -> str:
        return text.upper()


class Reading(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def _read(cls, text: str) -> str:
        return text.upper()


class Late(BaseModel):
    def model_post_init(self, context: object) -> None:
        pass


class Root(RootModel[int]):
    pass


class Recursive(BaseModel):
    below: "Recursive | None" = None


@dataclasses.dataclass
class Derived:
    text: str
    size: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Counting:
    count: int

    def __post_init__(self) -> None:
        self.count += 1


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "kind",
    [
        *(Aliased, Hiding, Private, Open, Loose, Computed, Writing, Reading, Late, Root),
        *(Recursive, Counting, Colour, Any, object, datetime, bytes, set[int]),
        *(int | str, tuple[int, ...], list, dict, dict[int, str], Literal[Colour.RED]),
        Annotated[str, StringConstraints(strip_whitespace=True)],
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: list[kind]])
def test_nothing_is_promised_of_types_that_may_come_back_otherwise(kind, wrap):
    assert not survives_json(TypeAdapter(wrap(kind)).core_schema)
    assert Codec(wrap(kind), owner="test").faithful is None


def test_nothing_is_promised_of_what_is_written_and_not_read():
    assert not survives_json(TypeAdapter(Derived).core_schema)


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
