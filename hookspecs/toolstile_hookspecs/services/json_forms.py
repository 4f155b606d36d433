"""The one JSON form of a principal, a question and an answer, in stores, records and outputs."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.execution.principal import Principal
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question

T = TypeVar("T")


class JsonForm(Generic[T]):
    """The JSON form of a type, which pydantic writes and reads; lone surrogates come back, too.

    Args:
        kind: The type.
        without: The fields that are kept beside the JSON; `read` needs them all the same.

    Example:
        >>> PRINCIPAL.text(Principal("os", "ann", groups={"staff"}))
        '{"source": "os", "id": "ann", "groups": ["staff"]}'
        >>> PRINCIPAL.read({"source": "os", "id": "ann"})
        Principal(source='os', id='ann', groups=frozenset())
    """

    def __init__(self, kind: type[T], *, without: tuple[str, ...] = ()) -> None:
        self._kind = kind
        self._without = {*without}

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        # Late: building it takes longer than most commands have.
        return TypeAdapter(self._kind)

    def data(self, value: T) -> Any:
        """Return a value as JSON data."""
        return self._adapter.dump_python(value, mode="json", exclude=self._without)

    def text(self, value: T) -> str:
        """Return a value as JSON, in ASCII: no database takes lone surrogates."""
        return json.dumps(self.data(value))

    def read(self, data: Any) -> T:
        """Return the value of JSON data.

        Raises:
            ValueError: The data does not fit; says where and why.
        """
        try:
            return self._adapter.validate_python(data)
        except ValidationError as error:
            raise ValueError(first_fault(error)) from None


PRINCIPAL: Final = JsonForm(Principal)
QUESTION: Final = JsonForm(Question, without=("sealed", "state", "answer"))
ANSWER: Final = JsonForm(AnswerRecord, without=("sealed",))
