"""Tools get other names and stay what they are."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Settings
from toolstile.plugins.offered_tools import renamed, with_prefix
from toolstile.plugins.plugin_errors import PluginFault
from toolstile_hookspecs import (
    MarkdownSection,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_hookspecs.support.patterns import TOOL_NAME


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
    assert original.policy_names[0] == original.name
    twin = renamed(original, "other")
    assert type(twin) is type(original)
    assert twin.name == "other"
    assert twin.policy_names[0] == "other"
    assert original.name != "other"
    same = {name: value for name, value in vars(original).items() if name != "name"}
    assert {name: value for name, value in vars(twin).items() if name != "name"} == same


@tool(depends_on=("inner", "elsewhere"))
def outer(*, context: ToolContext) -> str:
    """Call a sibling, and a tool of another plugin."""
    return f"{context.call('inner').text} {context.call('elsewhere').text}"


@tool(name="outer", depends_on=("inner", "elsewhere"))
async def aouter(*, context: ToolContext) -> str:
    """Call a sibling, and a tool of another plugin."""
    inner, elsewhere = await context.acall("inner"), await context.acall("elsewhere")
    return f"{inner.text} {elsewhere.text}"


@tool
def inner() -> str:
    """Be called."""
    return "sibling"


@tool
def elsewhere() -> str:
    """Be called from another plugin."""
    return "stranger"


@pytest.mark.parametrize("caller", [outer, aouter])
def test_a_tool_finds_its_siblings_by_the_names_its_plugin_gave_them(caller):
    class Plugin:
        @hookimpl
        def toolstile_sections(self):
            part = MarkdownSection(key="part", title="Part", tools=[inner])
            return [MarkdownSection(key="own", title="Own", tools=[caller], children=[part])]

    class Other:
        @hookimpl
        def toolstile_sections(self):
            return [MarkdownSection(key="other", title="Other", tools=[elsewhere])]

    settings = Settings(plugins={"Plugin": {"prefix": "x_"}})
    with Host(discover=False, settings=settings, plugins=[Plugin(), Other()]) as host:
        assert host.catalog.get("x_outer").depends_on == ("x_inner", "elsewhere")
        with host.executor() as tools:
            if caller is outer:
                outcome = tools.dispatch(ToolCall("x_outer"))
            else:
                outcome = asyncio.run(tools.adispatch(ToolCall("x_outer")))
            assert outcome.text == "sibling stranger"
            nested = [event.tool_name for event in tools.session[ToolInvoked].all()]
            assert nested == ["x_inner", "elsewhere", "x_outer"]
            assert not tools.dispatch(ToolCall("inner")).success


def test_a_renamed_tool_parses_and_is_called_as_before():
    assert renamed(FULL, "other").parse('{"a": 3}') == Params(3)
    assert renamed(plain, "other")(4) == 4


def test_the_name_a_function_has_in_python_stays():
    assert renamed(plain, "other").__name__ == "plain"


@given(st.text(max_size=70))
def test_a_name_that_is_none_for_a_tool_is_refused(name):
    if TOOL_NAME.fullmatch(name):
        assert renamed(FULL, name).name == name
    else:
        with pytest.raises(PluginFault, match="Tool 'full' cannot be called"):
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
