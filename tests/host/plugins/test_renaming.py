"""Tools get other names and stay what they are."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.plugins.renaming import renamed, with_prefix
from toolyard_hookspecs import DefinitionError, MarkdownSection, Tool, ToolResult, tool
from toolyard_hookspecs.tools import NAME


@dataclass(frozen=True)
class Params:
    a: int


def handler(params, *, context):
    return ToolResult.ok(params.a)


FULL = Tool[Params, int](
    name="full", description="Return it.", handler=handler, wire_name="Full", tags=("x",)
)


@tool(category="read", wire_name="Plain", timeout=3)
def plain(a: int) -> int:
    """Return it."""
    return a


def make_local():
    @dataclass(frozen=True)
    class Local:
        a: int

    @tool
    def local(inner: "Local") -> int:
        """Return its number."""
        return inner.a

    return local


@pytest.mark.parametrize("original", [FULL, plain, make_local()], ids=lambda each: each.name)
def test_only_the_name_differs(original):
    twin = renamed(original, "other")
    assert type(twin) is type(original)
    assert twin.name == "other"
    assert original.name != "other"
    same = {name: value for name, value in vars(original).items() if name != "name"}
    assert {name: value for name, value in vars(twin).items() if name != "name"} == same


def test_a_renamed_tool_parses_and_is_called_as_before():
    assert renamed(FULL, "other").parse('{"a": 3}') == Params(3)
    assert renamed(plain, "other")(4) == 4


def test_the_name_a_function_has_in_python_stays():
    assert renamed(plain, "other").__name__ == "plain"


@given(st.text(max_size=70))
def test_a_name_that_is_none_for_a_tool_is_refused(name):
    if NAME.fullmatch(name):
        assert renamed(FULL, name).name == name
    else:
        with pytest.raises(DefinitionError, match="Tool 'full': it cannot be called"):
            renamed(FULL, name)


def test_sections_with_a_prefix_do_all_else_as_before():
    heard = []
    inner = MarkdownSection(key="inner", title="Inner", tools=[FULL, plain])
    section = MarkdownSection(
        key="outer",
        title="Outer",
        template="Hello $name.",
        tools=[plain],
        children=[inner],
        enabled=lambda session: session == "on",
        on_session=heard.append,
    )
    (twin,) = with_prefix([section], "x_")
    assert (twin.key, twin.title) == ("x_outer", "Outer")
    assert [each.name for each in twin.tools] == ["x_plain"]
    (child,) = twin.children
    assert (child.key, [each.name for each in child.tools]) == ("inner", ["x_full", "x_plain"])
    assert child.tools[1] is twin.tools[0]
    assert twin.policies is section.policies
    assert twin.resources is section.resources
    assert twin.render_body({"name": "Ada"}) == "Hello Ada."
    assert twin.is_enabled("on")
    assert not twin.is_enabled("off")
    twin.setup("session")
    assert heard == ["session"]
