"""What a policy may not be given in Python."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import DefinitionError
from toolstile_plugins.policies import (
    CategoryPolicy,
    QuotaPolicy,
    RateLimitPolicy,
    ReadBeforeWritePolicy,
    SequentialDependencyPolicy,
)


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        (CategoryPolicy, {"category": {"write": "deny"}, "tools": "api"}, "CategoryPolicy: tools"),
        (QuotaPolicy, {"max_calls": 1, "tools": "api"}, "QuotaPolicy: tools"),
        (RateLimitPolicy, {"max_calls": 1, "tools": "api"}, "RateLimitPolicy: tools"),
        (ReadBeforeWritePolicy, {"read_tools": "api"}, "ReadBeforeWritePolicy: read_tools"),
        (ReadBeforeWritePolicy, {"write_tools": "api"}, "ReadBeforeWritePolicy: write_tools"),
        (ReadBeforeWritePolicy, {"path_fields": "api"}, "ReadBeforeWritePolicy: path_fields"),
        (ReadBeforeWritePolicy, {"source_fields": "api"}, "ReadBeforeWritePolicy: source_fields"),
        (ReadBeforeWritePolicy, {"paths": {"a": "api"}}, "ReadBeforeWritePolicy, paths: a"),
        (
            SequentialDependencyPolicy,
            {"dependencies": {"deploy": "api"}},
            "SequentialDependencyPolicy, dependencies: deploy",
        ),
    ],
)
def test_a_text_where_several_names_belong_is_refused(kind, fields, place):
    with pytest.raises(DefinitionError) as raised:
        kind(**fields)
    assert str(raised.value) == (
        f"{place}: expected several names, found the text 'api'; write {{'api'}}."
    )


@pytest.mark.parametrize(
    ("kind", "fields", "place", "found"),
    [
        (CategoryPolicy, {"category": {"write": "deny"}, "tools": 5}, "CategoryPolicy: tools", "5"),
        (QuotaPolicy, {"max_calls": 1, "tools": {1}}, "QuotaPolicy: tools", "{1}"),
        (ReadBeforeWritePolicy, {"read_tools": None}, "ReadBeforeWritePolicy: read_tools", "None"),
        (
            SequentialDependencyPolicy,
            {"dependencies": {"deploy": None}},
            "SequentialDependencyPolicy, dependencies: deploy",
            "None",
        ),
    ],
)
def test_what_is_no_collection_of_names_is_refused(kind, fields, place, found):
    with pytest.raises(DefinitionError) as raised:
        kind(**fields)
    assert str(raised.value) == (
        f"{place}: expected several names, found {found}; write {{'name', ...}}."
    )


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        (SequentialDependencyPolicy, {"dependencies": None}, "dependencies"),
        (SequentialDependencyPolicy, {"dependencies": ["deploy"]}, "dependencies"),
        (ReadBeforeWritePolicy, {"paths": ["rename"]}, "paths"),
    ],
)
def test_names_that_are_not_given_by_tool_are_refused(kind, fields, place):
    with pytest.raises(DefinitionError) as raised:
        kind(**fields)
    assert str(raised.value) == (
        f"{kind.__name__}, {place}: expected names by tool, found {fields[place]!r}; "
        "write {'tool': {'name', ...}}."
    )


def test_any_name_of_a_tool_can_be_a_key():
    dependencies = {name: frozenset({"x"}) for name in ("owner", "self", "fields", "a-b")}
    assert SequentialDependencyPolicy(dependencies=dependencies).dependencies == dependencies
