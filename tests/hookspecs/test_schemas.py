"""Schemas are closed, and say of each field what its author says."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import BaseModel, Field, PlainSerializer, computed_field
from typing_extensions import Doc, TypedDict

from toolstile_hookspecs._schema.codec import Codec, field_descriptions


@dataclass
class Inner:
    """An inner one.

    Attributes:
        depth: How deep.
    """

    depth: int


@dataclass
class Outer:
    """An outer one.

    Args:
        listed: From the class.
    """

    listed: int
    plain: int
    metadata: int = field(metadata={"description": "From metadata."})
    text: Annotated[int, "From text."] = 0
    doc: Annotated[int, Doc("From Doc.")] = 0
    pydantic: Annotated[int, Field(description="From Field.")] = 0
    attribute: int = 0
    """From an attribute's
    docstring."""
    inner: list[Inner] = field(default_factory=list, metadata={"description": "Many."})


class Model(BaseModel):
    a: int
    """The a."""
    b: int = Field(1, description="The b.")


class Derived(Model):
    c: int = 2
    """The c."""


class Typed(TypedDict):
    a: Annotated[int, Doc("The a.")]
    b: NotRequired[int]
    """The b."""


def descriptions(schema):
    return {name: each.get("description") for name, each in schema["properties"].items()}


def test_a_dataclass_tells_in_any_of_the_usual_ways():
    schema = Codec(Outer, owner="test").schema()
    assert descriptions(schema) == {
        "listed": "From the class.",
        "plain": None,
        "metadata": "From metadata.",
        "text": "From text.",
        "doc": "From Doc.",
        "pydantic": "From Field.",
        "attribute": "From an attribute's docstring.",
        "inner": "Many.",
    }


def test_nested_types_are_closed_and_described_too():
    schema = Codec(Outer, owner="test").schema()
    assert schema["additionalProperties"] is False
    inner = schema["$defs"]["Inner"]
    assert inner["additionalProperties"] is False
    assert descriptions(inner) == {"depth": "How deep."}


def test_models_and_typed_dicts_tell_too_with_what_they_inherit():
    assert descriptions(Codec(Model, owner="test").schema()) == {"a": "The a.", "b": "The b."}
    assert descriptions(Codec(Derived, owner="test").schema())["a"] == "The a."
    assert descriptions(Codec(Derived, owner="test").schema())["c"] == "The c."
    schema = Codec(Typed, owner="test").schema()
    assert descriptions(schema)["a"] == "The a."
    assert schema["required"] == ["a"]
    assert schema["additionalProperties"] is False


def test_a_map_stays_open():
    assert Codec(dict[str, int], owner="test").schema()["additionalProperties"] == {
        "type": "integer"
    }


def test_a_class_without_source_describes_nothing():
    scope = {}
    exec("class Made:\n    a: 'Nowhere'\n    'A text.'", scope)
    assert field_descriptions(scope["Made"]) == {}


class Written(BaseModel):
    told: Annotated[int, PlainSerializer(lambda number: f"#{number}", return_type=str)]
    untold: Annotated[int, PlainSerializer(lambda number: f"#{number}")]
    path: Path
    kept: int = Field(0, exclude=True)

    @computed_field
    def size(self) -> int:
        return 1


def test_results_are_described_as_they_are_written():
    schema = Codec(Written, owner="test").schema()
    shown = schema["properties"]
    assert shown["told"]["type"] == "string"
    assert "type" not in shown["untold"]
    assert (shown["path"]["type"], shown["size"]["type"]) == ("string", "integer")
    assert schema["required"] == ["told", "untold", "path", "size"]
    assert "kept" not in shown
    assert schema["additionalProperties"] is False


def test_results_that_have_other_names_are_open():
    class Open(BaseModel, extra="allow"):
        size: int

    assert Codec(Open, owner="test").schema()["additionalProperties"] is True
    assert Codec(Open, owner="test", reveals=True).schema()["additionalProperties"] is False
