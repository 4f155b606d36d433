"""Policies refuse wrong arguments in Python."""

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


def test_what_is_not_of_a_field_s_type_is_refused(subtests):
    for kind, fields, place in [
        (CategoryPolicy, {"category": {"write": "deny"}, "tools": "api"}, "tools"),
        (CategoryPolicy, {"category": {"write": "deny"}, "tools": 5}, "tools"),
        (QuotaPolicy, {"max_calls": 1, "tools": "api"}, "tools"),
        (QuotaPolicy, {"max_calls": 1, "tools": {1}}, "tools[0]"),
        (RateLimitPolicy, {"max_calls": 1, "tools": "api"}, "tools"),
        (ReadBeforeWritePolicy, {"read_tools": "api"}, "read_tools"),
        (ReadBeforeWritePolicy, {"read_tools": None}, "read_tools"),
        (ReadBeforeWritePolicy, {"write_tools": "api"}, "write_tools"),
        (ReadBeforeWritePolicy, {"path_fields": "api"}, "path_fields"),
        (ReadBeforeWritePolicy, {"source_fields": "api"}, "source_fields"),
        (ReadBeforeWritePolicy, {"paths": {"a": "api"}}, "paths.a"),
        (ReadBeforeWritePolicy, {"paths": "rename"}, "paths"),
        (SequentialDependencyPolicy, {"dependencies": {"deploy": "api"}}, "dependencies.deploy"),
        (SequentialDependencyPolicy, {"dependencies": {"deploy": None}}, "dependencies.deploy"),
        (SequentialDependencyPolicy, {"dependencies": None}, "dependencies"),
        (SequentialDependencyPolicy, {"dependencies": ["deploy"]}, "dependencies"),
    ]:
        with subtests.test(kind=kind, fields=fields, place=place):
            with pytest.raises(DefinitionError) as raised:
                kind(**fields)
            assert str(raised.value).startswith(
                f"{kind.__name__}: {place}: input should be a valid "
            )


def test_any_name_of_a_tool_can_be_a_key():
    dependencies = {name: frozenset({"x"}) for name in ("owner", "self", "fields", "a-b")}
    assert SequentialDependencyPolicy(dependencies=dependencies).dependencies == dependencies
