"""Dialects read tools, and replies of a provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import DefinitionError
from toolstile_plugins.dialects import toolstile_dialects
from toolstile_plugins.dialects.parse import parts_of


@dataclass(frozen=True)
class Mapped:
    function: Callable[[int], int]


@pytest.mark.parametrize("dialect", toolstile_dialects(), ids=lambda each: each.name)
def test_a_tool_whose_params_have_no_json_schema_is_named_with_the_remedy(
    dialect, search, make_tool
):
    odd = make_tool(Mapped, name="odd")
    with pytest.raises(
        DefinitionError,
        match=r"^Tool 'odd': its params have no JSON Schema \(.*\)\. Use types .*WithJsonSchema",
    ):
        dialect.schemas([search, odd])


def test_parts_may_come_in_a_kind_of_list_or_tuple():
    class Parts(list[Any]):
        """A list of a client library."""

    part = {"type": "text", "text": "a"}
    assert parts_of(Parts(["a", part])) == [part, part]
