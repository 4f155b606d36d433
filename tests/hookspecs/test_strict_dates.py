"""Dates and times that pydantic's strict mode reads loosely are refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, create_model
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import Codec
from toolstile_hookspecs._schema.core_schema import exact_validator
from toolstile_hookspecs.errors import ToolValidationError


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    NAME = "x"
    NUMBER = 2
    YES = True


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Model(BaseModel):
    at: datetime


@dataclass
class Record:
    at: datetime


class Typed(TypedDict):
    at: datetime


class Tree(BaseModel):
    at: datetime
    children: list[Tree] = []


class Aside(BaseModel):
    """Fields whose names are those of parts of a schema that are left alone."""

    default: datetime
    config: datetime
    type: datetime


MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
WRITTEN = '"2026-01-31T09:30:00Z"'


def read(kind: Any, text: str) -> Any:
    return Codec(kind, owner="tool demo", reveals=True).decode(text)


def refusal(kind: Any, text: str) -> str:
    with pytest.raises(ToolValidationError) as caught:
        read(kind, text)
    return str(caught.value)


def test_a_number_in_a_text_is_no_date(subtests: pytest.Subtests) -> None:
    for kind in [date, datetime]:
        for number in ["2020", "20260131", "+5", "-5", "1.5", "1.5e-3", "0"]:
            with subtests.test(kind=kind, number=number):
                assert "written as ISO 8601 has it, such as" in refusal(kind, f'"{number}"')


def test_the_refusal_shows_what_was_given_and_what_is_meant() -> None:
    assert refusal(dict[str, datetime], '{"due": "2020"}') == (
        "Invalid arguments:\n"
        "  - due: input should be written as ISO 8601 has it, such as "
        '"2026-01-31T09:30:00Z", got "2020"\n'
        "Fix these, then retry."
    )
    assert 'such as "2026-01-31", got "86400"' in refusal(date, '"86400"')


def test_what_is_wrong_in_a_date_is_still_told() -> None:
    assert "month value is outside expected range" in refusal(date, '"2026-13-01"')
    assert "valid datetime" in refusal(datetime, "2020")


def test_what_fits_is_read_as_before(subtests: pytest.Subtests) -> None:
    for kind, text, value in [
        (datetime, WRITTEN, MOMENT),
        (date, '"2026-01-31"', date(2026, 1, 31)),
        (str | datetime, '"2020"', "2020"),
        (datetime | int, "2020", 2020),
        (datetime | date, '"2026-01-31"', date(2026, 1, 31)),
        (dict[date, int], '{"2026-01-31": 1}', {date(2026, 1, 31): 1}),
        (Annotated[datetime, Field(gt=datetime(2020, 1, 1, tzinfo=UTC))], WRITTEN, MOMENT),
        (Level, "2", Level.HIGH),
        (Mixed, "true", Mixed.YES),
        (Mixed, '"x"', Mixed.NAME),
        (Flags, "3", Flags.A | Flags.B),
        (Level | int, "2", 2),
        (Level | bool, "true", True),
        (Literal[1, "x"], "1", 1),
        (dict[Level, int], '{"1": 1}', {Level.LOW: 1}),
    ]:
        with subtests.test(kind=kind, text=text, value=value):
            assert read(kind, text) == value
            assert type(read(kind, text)) is type(value)
            assert TypeAdapter[Any](kind).validate_json(text, strict=True) == value


def test_fields_are_guarded_wherever_they_are(subtests: pytest.Subtests) -> None:
    for around, text in [
        (lambda kind: kind, "{}"),
        (lambda kind: list[kind], "[{}]"),
        (lambda kind: dict[str, kind | None], '{{"a": {}}}'),
        (lambda kind: tuple[int, kind], "[1, {}]"),
    ]:
        for kind in [Model, Record, Typed, Tree]:
            with subtests.test(around=around, text=text, kind=kind):
                wanted = around(kind)
                inside = '{"at": "2020"}'
                assert "ISO 8601" in refusal(
                    wanted, inside if text == "{}" else text.format(inside)
                )
                read(
                    wanted,
                    f'{{"at": {WRITTEN}}}' if text == "{}" else text.format(f'{{"at": {WRITTEN}}}'),
                )


def test_a_type_within_itself_is_guarded_at_every_depth() -> None:
    text = f'{{"at": {WRITTEN}, "children": [{{"at": {WRITTEN}, "children": [{{"at": "5"}}]}}]}}'

    assert "children[0].children[0].at: " in refusal(Tree, text)


@pytest.mark.parametrize("name", ["default", "config", "type"])
def test_fields_named_like_parts_of_a_schema_are_guarded(name: str) -> None:
    values = dict.fromkeys(("default", "config", "type"), WRITTEN) | {name: '"2020"'}
    text = ", ".join(f'"{each}": {value}' for each, value in values.items())

    assert f"{name}: " in refusal(Aside, f"{{{text}}}")


def test_what_a_validator_of_the_author_made_a_date_stays_as_it_is() -> None:
    paris = timezone(timedelta(hours=1), "Paris")

    def from_year(value: object) -> object:
        return datetime(value, 1, 1, tzinfo=paris) if isinstance(value, int) else value

    kind = Annotated[datetime, BeforeValidator(from_year)]

    assert read(kind, "2026").tzname() == "Paris"
    assert read(kind, WRITTEN) == MOMENT
    assert "ISO 8601" in refusal(kind, '"2026"')


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (date | str, '"0"'),
        (Annotated[date, BeforeValidator(str)], '"2026-01-31"'),
        (Literal[1] | bool, "true"),
    ],
)
def test_a_copy_is_what_was_read(kind: Any, text: str) -> None:
    codec = Codec(kind, owner="tool demo", reveals=True)
    value, copied = codec.decode(text), codec.copy(text)

    assert (type(copied), copied) == (type(value), value)


def test_every_fault_is_told_at_once() -> None:
    class Params(BaseModel):
        due: date
        level: Level
        count: int

    told = refusal(Params, '{"due": "1728000", "level": 3, "count": "3"}')

    assert [line.partition(":")[0] for line in told.splitlines()[1:-1]] == [
        "  - due",
        "  - level",
        "  - count",
    ]


def test_what_pydantic_reads_exactly_is_left_to_it() -> None:
    for kind in (int, dict[str, list[float]], Literal["a", "b"], list[bytes]):
        assert exact_validator(TypeAdapter[Any](kind).core_schema) is None


_TEXTS = st.one_of(
    st.sampled_from(['"x"', '"2020"', WRITTEN, '"2026-01-31"', "true", "false", "null", "1.5"]),
    st.integers(-1, 3).map(str),
    st.floats(0, 2).map(str),
)
_PARTS = (datetime, date, Level, Mixed, Literal[1, "x"], Literal[True], int, bool, str, None)


@given(
    kinds=st.lists(st.sampled_from(_PARTS), min_size=1, max_size=3, unique=True),
    text=_TEXTS,
    in_models=st.booleans(),
)
def test_of_a_union_the_guards_refuse_more_and_change_nothing(
    kinds: list[Any], text: str, *, in_models: bool
) -> None:
    held = [create_model("Held", it=(each, ...)) for each in kinds] if in_models else kinds
    adapter: TypeAdapter[Any] = TypeAdapter(Union[tuple(held)])  # noqa: UP007 - of as many as there are
    exact = exact_validator(adapter.core_schema)
    if exact is not None:
        written = f'{{"it": {text}}}' if in_models else text
        loose, strict = _outcome(adapter.validator, written), _outcome(exact, written)
        assert strict == loose or _is_loose(loose[-1], text)


def _outcome(validator: Any, text: str) -> list[object]:
    """Return the value that was read with its classes, nothing when it was refused."""
    try:
        value = validator.validate_json(text, strict=True)
    except ValidationError:
        return []
    inside = value.it if isinstance(value, BaseModel) else value
    fields = type(value).model_fields["it"].annotation if isinstance(value, BaseModel) else None
    return [fields, type(inside), inside]


def _is_loose(value: object, text: str) -> bool:
    """Tell whether what was read is not what was written."""
    if isinstance(value, date):
        return not text.startswith('"2026-')
    plain = value.value if isinstance(value, enum.Enum) else value
    return isinstance(plain, bool) != (text in {"true", "false"})
