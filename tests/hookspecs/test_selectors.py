"""A selector of tools: every field that is given must fit, one value of each is enough."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from toolstile_hookspecs import DefinitionError, Tool, ToolSelector, tool


@tool(category="delete", consequence="high", tags=("files", "risky"), wire_name="files.drop")
def drop_file(path: str) -> None:
    """Drop a file."""


@tool(category="read", consequence="low", tags=("files",))
def read_file(path: str) -> str:
    """Read a file."""
    return path


FOREIGN = replace(drop_file, name="box_drop", wire_name="drop", origin="box")
TOOLS = (drop_file, read_file, FOREIGN)


def test_a_tool_fits_all_fields_and_one_value_of_each(subtests):
    for fields, selected in [
        ({}, {"drop_file", "read_file", "box_drop"}),
        ({"tools": {"*"}}, {"drop_file", "read_file", "box_drop"}),
        ({"tools": {"drop_file"}}, {"drop_file"}),
        ({"tools": {"files.*"}}, {"drop_file"}),
        ({"tools": {"*_file"}}, {"drop_file", "read_file"}),
        ({"tools": {"Drop_file"}}, set()),
        ({"tools": {"drop", "read_file"}}, {"read_file"}),
        ({"tags": {"risky"}}, {"drop_file", "box_drop"}),
        ({"tags": {"risky"}, "servers": {"box"}}, {"box_drop"}),
        ({"servers": {"box"}}, {"box_drop"}),
        ({"category": {"read", "write"}}, {"read_file"}),
        ({"consequence": {"high"}, "tools": {"*_file"}}, {"drop_file"}),
    ]:
        with subtests.test(fields=fields, selected=selected):
            selector = ToolSelector(**fields)
            for _ in range(2):
                assert {each.name for each in TOOLS if selector.selects(each)} == selected
            assert selector == ToolSelector(**fields)
            assert {
                each.name for each in TOOLS if pickle.loads(pickle.dumps(selector)).selects(each)
            } == (selected)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tools": "drop_file"}, "ToolSelector: tools: "),
        ({"tools": [1]}, "ToolSelector: tools"),
        ({"category": {"reed"}}, "ToolSelector: category"),
        ({"consequence": {"terrible"}}, "ToolSelector: consequence"),
        ({"tags": ()}, "ToolSelector: tags: it names none, so nothing would be selected; name"),
    ],
)
def test_a_field_that_is_something_else_is_refused(fields, told):
    with pytest.raises(DefinitionError) as raised:
        ToolSelector(**fields)
    assert str(raised.value).startswith(told)


def test_a_table_of_the_configuration_can_hold_one():
    read = TypeAdapter(ToolSelector).validate_python({"tools": ["*_file"], "category": ["delete"]})
    assert read == ToolSelector(tools={"*_file"}, category={"delete"})


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"tools": {"*", "box_*", "drop_file"}}, []),
        (
            {"tools": {"drop_fiel", "drip*"}, "tags": {"riksy", "files"}},
            [
                "refers to unknown tools: 'drip*', 'drop_fiel' (did you mean 'drop_file'?)",
                "refers to unknown tags: 'riksy' (did you mean 'risky'?)",
            ],
        ),
        ({"servers": {"bax"}}, ["refers to unknown servers: 'bax' (did you mean 'box'?)"]),
        (
            {"tools": {"read_file", "drop_file"}, "tags": {"risky"}},
            ["names 'read_file', which its other fields leave out: a tool has to fit them all"],
        ),
        ({"tools": {"*_file"}, "servers": {"box"}}, []),
        ({"category": {"write"}}, []),
    ],
)
def test_what_no_tool_has_is_told_with_those_near_it(faults, fields):
    assert ToolSelector(**fields).faults(TOOLS) == faults


def test_nothing_is_said_of_what_may_still_come():
    selector = ToolSelector(tools={"git_push", "drop_flie"}, tags={"git"}, servers={"github"})
    (told,) = selector.faults(TOOLS, lambda name: name in {"git_push", "*"})
    assert "'drop_flie'" in told
    assert "git_push" not in told
    assert selector.missing(TOOLS) == ["drop_flie", "git_push"]


def test_a_tool_is_looked_at_once_and_not_kept():
    class Watched(Tool):
        asked = 0

        @property
        def policy_names(self):
            Watched.asked += 1
            return super().policy_names

    made = Watched(name="made", description="Made.", params_schema={"type": "object"})
    Watched.asked = 0
    selector = ToolSelector(tools={"m*"})
    assert all(selector.selects(made) for _ in range(5))
    assert Watched.asked == 1
    gone = weakref.ref(made)
    copied = copy.deepcopy(selector)
    del made
    gc.collect()
    assert gone() is None
    assert copied == selector


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tools": st.sets(
                st.sampled_from(["drop_*", "read_file", "*_f*", "box_?rop"]), min_size=1
            ),
            "tags": st.sets(st.sampled_from(["files", "risky", "none"]), min_size=1),
            "servers": st.sets(st.sampled_from(["box", "bag"]), min_size=1),
            "category": st.sets(st.sampled_from(["read", "write", "delete"]), min_size=1),
            "consequence": st.sets(st.sampled_from(["low", "high"]), min_size=1),
        },
    )
)
def test_a_selection_is_the_meeting_of_those_by_its_single_values(fields):
    def by_values(field):
        return {
            each.name
            for each in TOOLS
            for value in fields[field]
            if ToolSelector(**{field: {value}}).selects(each)
        }

    everything = {each.name for each in TOOLS}
    expected = everything.intersection(*map(by_values, fields))
    assert {each.name for each in TOOLS if ToolSelector(**fields).selects(each)} == expected
