"""A type reads the JSON that it writes, or the tool is refused where it is defined."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    Json,
    PlainSerializer,
    computed_field,
    field_validator,
    model_serializer,
    model_validator,
)
from typing_extensions import TypedDict

from toolstile_hookspecs import DefinitionError, IdempotencyConfig, ToolValidationError, tool
from toolstile_hookspecs._schema.codec import Codec


class Square(BaseModel):
    side: int = 2

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class ClosedSquare(Square, extra="forbid"):
    pass


class Open(BaseModel, extra="allow"):
    size: int = 2


class OpenDict(TypedDict):
    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc] # noqa: RUF012
    size: int


class Drawing(Open):
    squares: list[Square] = []


class Packed(BaseModel):
    inside: Json[list[int]]


class Aliased(BaseModel):
    size: int = Field(2, alias="sz")


class Chosen(BaseModel):
    size: int = Field(2, validation_alias=AliasChoices("sz", "size"))


class Both(BaseModel, validate_by_name=True):
    size: int = Field(2, validation_alias="sz")


class Kept(BaseModel):
    size: int
    note: str = Field("", exclude=True)


@dataclasses.dataclass
class Made:
    size: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.size


class Lowered(BaseModel):
    size: Annotated[int, PlainSerializer(lambda size: size)]
    paths: Sequence[Path] = ()


def test_what_is_written_of_params_is_read_as_they_were(subtests: pytest.Subtests) -> None:
    for nest in [False, True]:
        for value in [
            *(Square(side=3), ClosedSquare(side=3), Packed.model_validate({"inside": "[1]"})),
            *(Aliased(sz=3), Chosen(sz=3), Both(sz=3), Made(3), Lowered(size=3, paths=[Path("a")])),
        ]:
            with subtests.test(nest=nest, value=value):
                kind: Any = list[value.__class__] if nest else value.__class__
                given = [value] if nest else value
                codec = Codec(kind, owner="test", reveals=True)
                assert codec.decode(codec.encode(given)) == codec.copy(codec.encode(given)) == given


def test_what_is_written_of_results_is_read_as_they_were(subtests: pytest.Subtests) -> None:
    for nest in [False, True]:
        for value in [
            *(Square(side=3), ClosedSquare(side=3), Open(size=3, colour="red"), Kept(size=3)),
            *(Drawing(squares=[Square(side=3)], colour="red"), Aliased(sz=3), Made(3)),
        ]:
            with subtests.test(nest=nest, value=value):
                kind: Any = dict[str, value.__class__] if nest else value.__class__
                given = {"a": value} if nest else value
                codec = Codec(kind, owner="test")
                assert codec.decode(codec.encode(given)) == codec.copy(codec.encode(given)) == given


def test_what_else_an_open_typed_dict_holds_is_read_of_results() -> None:
    codec = Codec(OpenDict, owner="test")
    assert codec.decode(codec.encode({"size": 3, "colour": "red"})) == {"size": 3, "colour": "red"}


@pytest.mark.parametrize("of_params", [False, True])
def test_a_computed_field_is_no_reason_why_a_value_does_not_fit(of_params: bool) -> None:
    class Tile(BaseModel, extra="forbid"):
        side: int

        @computed_field
        @property
        def corners(self) -> int:
            return 4

    told = Codec(Tile, owner="test", reveals=of_params).fits(Tile.model_construct(side="2"))
    assert told is not None
    assert "side: input should be a valid integer" in told
    assert "corners" not in told


def test_computed_fields_are_results_only() -> None:
    assert Codec(Square, owner="test").encode(Square()) == b'{"side":2,"area":4}'
    params = Codec(Square, owner="test", reveals=True)
    assert params.encode(Square()) == b'{"side":2}'
    with pytest.raises(ToolValidationError, match="area: not known"):
        params.decode('{"side": 2, "area": 4}')


def test_results_of_other_types_have_no_other_names() -> None:
    with pytest.raises(ToolValidationError, match="b: not known"):
        Codec(Aliased, owner="test").decode('{"sz": 1, "b": 2}')


class Shape(dict[str, Any], Enum):
    POINT = {"type": "model-fields", "fields": 0}  # noqa: RUF012


def test_what_the_members_of_an_enumeration_are_is_not_taken_for_its_type() -> None:
    assert Codec(Shape, owner="test").schema()["enum"] == [{"type": "model-fields", "fields": 0}]


class Renamed(BaseModel):
    size: int = Field(2, serialization_alias="sz")


class ReadOnly(BaseModel):
    size: int = Field(2, validation_alias="sz")


class Pathed(BaseModel):
    size: int = Field(2, validation_alias=AliasPath("a", "b"))


class ByName(BaseModel, validate_by_name=True, validate_by_alias=False):
    size: int = Field(2, alias="sz")


@dataclasses.dataclass
class Counted:
    size: int
    count: int = dataclasses.field(init=False, default=0)


class Lost(BaseModel):
    note: str = Field(exclude=True)


@dataclasses.dataclass
class Started:
    start: dataclasses.InitVar[int]


ANY_USE = [
    (Renamed, "size of Renamed is written as 'sz', and read as 'size'; give it one name for both"),
    (ReadOnly, "size of ReadOnly is written as 'size', and read as 'sz'; give it one name"),
    (Pathed, "size of Pathed is written as 'size', and read as a path; give it one name"),
    (ByName, "size of ByName is written as 'sz', and read as 'size'; give it one name"),
    (Counted, "count of Counted is written, and cannot be read .init=False.; let it be given"),
    (Iterable[int], "it holds an Iterable or a Generator, which is read once only; declare a list"),
    (Generator[int, None, None], "it holds an Iterable or a Generator"),
]


class OpenSquare(Square, extra="allow"):
    pass


class OpenDrawing(Open):
    squares: list[ClosedSquare] = []


def test_results_that_could_not_be_read_again_are_refused_where_they_are_recorded(
    subtests: pytest.Subtests,
) -> None:
    for nest in [False, True]:
        for kind, reason in [
            *ANY_USE,
            (Lost, "note of Lost must be given, and is not always written; give it a default"),
            (Started, "start of Started must be given, and is not always written"),
            (Packed, "it holds a Json.*; declare the inner type"),
            (
                OpenSquare,
                "OpenSquare has the computed area, which .*; leave one of them out",
            ),
            (OpenDrawing, "ClosedSquare has the computed area"),
        ]:
            with subtests.test(nest=nest, kind=kind, reason=reason):

                def act() -> Any: ...

                act.__annotations__["return"] = dict[str, list[kind]] if nest else kind
                with pytest.raises(DefinitionError, match=reason) as caught:
                    tool(description="Act.", idempotency=IdempotencyConfig())(act)
                assert str(caught.value).startswith(
                    "Tool 'act': its result cannot be read from the JSON"
                )
                for config in (None, IdempotencyConfig(strategy="none")):
                    tool(description="Act.", idempotency=config)(act)


def test_params_that_could_not_be_read_again_are_refused(subtests: pytest.Subtests) -> None:
    for nest in [False, True]:
        for kind, reason in [
            *ANY_USE,
            (Kept, "note of Kept is read, and never written .exclude=True.*; leave it out"),
            (Lost, "note of Lost is read, and never written"),
            (Started, "start of Started is read, and never written"),
        ]:
            with subtests.test(nest=nest, kind=kind, reason=reason):

                def act(given: Any) -> None: ...

                act.__annotations__["given"] = list[kind] if nest else kind
                with pytest.raises(DefinitionError, match=reason) as caught:
                    tool(description="Act.")(act)
                assert str(caught.value).startswith("Tool 'act', params: ")


class Serving(BaseModel):
    size: int = Field(2, serialization_alias="sz")

    @model_serializer
    def _write(self) -> dict[str, int]:
        return {"size": self.size}


class Lenient(BaseModel):
    size: int = Field(2, serialization_alias="sz")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return {"size": given["sz"]} if "sz" in given else given


class Unpacking(BaseModel):
    inside: Json[list[int]]

    @field_validator("inside", mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return str(given)


@pytest.mark.parametrize(
    "value",
    [
        *(Serving(size=3), Lenient.model_validate({"size": 3})),
        Unpacking.model_validate({"inside": "[1]"}),
    ],
)
def test_where_a_function_reads_or_writes_only_the_values_tell(value: Any) -> None:
    codec = Codec(value.__class__, owner="test")
    assert codec.decode(codec.encode(value)) == value
