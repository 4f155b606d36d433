"""@tool makes a tool of a plain function, which can still be called."""

import asyncio
import copy
import functools
import importlib
import inspect
import pickle
import pydoc
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from toolstile_hookspecs import (
    DefinitionError,
    FunctionTool,
    ToolContext,
    ToolExample,
    ToolResult,
    ToolValidationError,
    tool,
)
from toolstile_hookspecs.decorator import ToolOptions


def call(made, text="{}", context=None):
    return made.signature.invoke(made.parse(text), context=context)


@tool(category="read", examples=(ToolExample("Two.", {"a": 1, "b": 1}, 2),))
def add(a: int, b: int = 1) -> int:
    """Add two integers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def test_it_takes_name_description_and_params_from_the_function():
    assert (add.name, add.description, add.category) == ("add", "Add two integers.", "read")
    assert call(add, '{"a": 2}') == 3
    assert add(2, b=5) == 7
    assert add.__name__ == "add"
    assert add.__doc__.startswith("Add two")
    schema = add.params_codec.schema()
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["description"] == "The first."
    assert schema["additionalProperties"] is False
    assert add.signature.wraps


def test_an_example_is_turned_into_the_params():
    assert add.params_codec.encode(add.examples[0].input) == b'{"a":1,"b":1}'


def test_it_takes_its_options():
    @tool(name="other", description="Other.", timeout=None, tags=("x",), wire_name="Other.One")
    def function() -> None:
        pass

    assert (function.name, function.description, function.timeout) == ("other", "Other.", None)
    assert function.wire_name == "Other.One"


def test_its_help_shows_the_options_with_their_defaults():
    shown = inspect.signature(tool).parameters
    assert {name for name in shown if name != "function"} == {*ToolOptions.__annotations__}
    assert (shown["category"].default, shown["requires_confirmation"].default) == (
        "side_effect",
        False,
    )
    assert "consequence='medium'" in pydoc.render_doc(tool, renderer=pydoc.plaintext)


def test_context_is_given_to_a_function_that_asks_for_it():
    @tool
    def who(name: str, *, context: ToolContext) -> str:
        """Tell who."""
        return f"{name} for {context.user_id}"

    made = ToolContext(session=None, user_id="ada")
    assert call(who, '{"name": "x"}', made) == "x for ada"
    assert "context" not in who.params_codec.schema()["properties"]


def test_a_function_may_have_no_params_or_be_async_or_return_a_result():
    @tool
    async def ping(context) -> ToolResult[str]:
        """Ping."""
        return ToolResult.ok("pong")

    assert ping.is_async
    assert not ping.signature.wraps
    assert ping.signature.result is str
    assert asyncio.run(call(ping)).value == "pong"


def test_one_argument_called_params_may_be_the_record_itself():
    @dataclass
    class Query:
        text: str

    @tool
    def find(params: Query) -> list[str]:
        """Find."""
        return [params.text]

    assert call(find, '{"text": "x"}') == ["x"]

    @tool
    def plain(params: int) -> int:
        """Take a number called params."""
        return params

    assert call(plain, '{"params": 3}') == 3


def test_bound_methods_partials_and_callable_objects_are_functions_too():
    class Shop:
        def price(self, item: str, tax: float = 0.5) -> str:
            """Tell a price."""
            return f"{item} {tax}"

        def __call__(self, item: str) -> str:
            return item

    assert call(tool(Shop().price), '{"item": "x"}') == "x 0.5"
    part = functools.partial(Shop().price, tax=0.1)
    with pytest.raises(DefinitionError, match=r"has no name; give name='...'"):
        tool(part)
    made = tool(name="price")(part)
    assert made.description == "Tell a price."
    assert call(made, '{"item": "x"}') == "x 0.1"
    made = tool(name="shop", description="Shop.")(Shop())
    assert call(made, '{"item": "x"}') == "x"


def test_default_values_are_not_shared_between_calls():
    @tool
    def collect(item: int, into: list[int] = []) -> list[int]:  # noqa: B006 - as is not to be done
        """Collect."""
        into.append(item)
        return into

    assert call(collect, '{"item": 1}') == [1]
    assert call(collect, '{"item": 2}') == [2]


def test_constraints_and_descriptions_come_from_annotated():
    @tool
    def pick(number: Annotated[int, Field(ge=1, description="From one.")]) -> int:
        """Pick.

        Args:
            number: Not shown.
        """
        return number

    assert pick.params_codec.schema()["properties"]["number"]["description"] == "From one."
    with pytest.raises(ToolValidationError, match=r"number: .*greater than or equal to 1"):
        pick.parse('{"number": 0}')


def test_what_cannot_be_a_tool_is_refused_with_the_remedy(subtests):
    for source, said in [
        ("def f(a): 'F.'", "Tool 'f': argument 'a' has no type; annotate it."),
        (
            "f = lambda a: a",
            "argument 'a' has no type, and a lambda can give it none; write a def.",
        ),
        ("def f(a: int = 'x'): 'F.'", "argument 'a' is of type int, and its default 'x' is not"),
        ("def f(a: str = None): 'F.'", "its default None is not; give another, or widen the type"),
        ("def f(a: int | None = 1.5): 'F.'", "is of type int | None, and its default 1.5 is not"),
        ("def f(a: str = object()): 'F.'", "argument 'a' is of type str, and its default <object"),
        (
            "def f(a: Annotated[int, Field(ge=1)] = 0): 'F.'",
            "and its default 0 is not; give another, or widen the type",
        ),
        ("def f(*a: int): 'F.'", "argument *a: int has no fixed name"),
        ("def f(**a: int): 'F.'", "has no fixed name"),
        ("def f(a: int, /): 'F.'", "'a' cannot be given by name; remove the /"),
        ("def f(self, a: int): 'F.'", "looks like a method"),
        ("def f(a: 'Lost'): 'F.'", "its type cannot be found where the tool is defined"),
        ("def f() -> 'ToolResult[Itm]': 'F.'", "it returns ToolResult[Itm], but its type cannot"),
        ("def f(a: int = Field(1)): 'F.'", "write a: Annotated[..., Field(...)] = default"),
        ("def f(a: int): yield", "is a generator"),
        ("def f(a: int): pass", "Tool 'f': it has no description"),
        ("def F(a: int): 'F.'", "Tool 'F': its name must be"),
        ("f = lambda: 1", "Tool '<lambda>': its name must be"),
        ("class f: pass", "f is a class; decorate a function"),
        ("f = staticmethod(len)", "is not a function; decorate a function"),
        ("f = 'name'", "is not a function; decorate a function"),
        ("f = add", "'add' is a tool already"),
    ]:
        with subtests.test(source=source, said=said):
            names = {"Annotated": Annotated, "Field": Field, "ToolResult": ToolResult, "add": add}
            exec(source, names)
            with pytest.raises(DefinitionError) as caught:
                tool(names.get("f") or names.get("F"))
            assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"containd": True}, "there is no option 'containd'; did you mean 'contained'?"),
        ({"colour": 1}, "there is no option 'colour'; the options are accepts_overrides, cat"),
        ({"example": (), "tag": ()}, "'examples'?; there is no option 'tag'; did you mean 'tags'?"),
    ],
)
def test_an_option_that_there_is_not_is_told_with_the_one_that_may_be_meant(options, said):
    def function() -> None:
        """Do."""

    with pytest.raises(DefinitionError) as caught:
        tool(**options)(function)
    assert str(caught.value).startswith("Tool 'function': ")
    assert said in str(caught.value)


def test_all_arguments_that_do_not_fit_are_told_at_once():
    def function(a, /, b, *c):
        """Do."""

    with pytest.raises(DefinitionError) as caught:
        tool(function)
    assert all(name in str(caught.value) for name in ("'a'", "'b'", "*c"))


def test_a_method_is_refused_with_what_to_write_instead():
    with pytest.raises(DefinitionError, match=r"tool\(instance.method\)"):

        class Shop:
            @tool
            def price(self, item: str) -> str:
                """Tell a price."""


def test_a_long_first_paragraph_becomes_the_long_description():
    def function() -> None:
        pass

    function.__doc__ = "Find tickets. " + "They are sorted by age. " * 20 + "\n\nMore."
    made = tool(function)
    assert made.description == "Find tickets."
    assert made.long_description.startswith("Find tickets. They")
    assert len(made.long_description) > 400
    function.__doc__ = "word " * 100
    assert len(tool(function).description) <= 200


def test_a_written_description_that_is_too_long_is_refused():
    with pytest.raises(DefinitionError, match="keep the rest in long_description"):
        tool(name="f", description="x" * 201)(lambda: None)


def test_a_renamed_tool_stays_callable_and_keeps_its_types():
    class Local(BaseModel):
        number: int

    @tool(examples=(ToolExample("One.", {"item": {"number": 1}}, None),))
    def store(item: Local) -> None:
        """Store."""

    renamed = replace(store, name="shop-store", tags=("x",))
    assert isinstance(renamed, FunctionTool)
    assert (renamed.name, renamed.tags) == ("shop-store", ("x",))
    assert renamed.signature is store.signature
    assert renamed(Local(number=1)) is None
    assert renamed.parse('{"item": {"number": 1}}').item == Local(number=1)


def test_a_replaced_handler_answers_in_the_function_s_place():
    def remote(params, *, context):
        return ToolResult.ok(params.a * 100)

    made = replace(add, handler=remote)
    assert call(made, '{"a": 2}').value == 200
    assert call(replace(made, name="renamed"), '{"a": 2}').value == 200
    assert made(1) == 2


def test_it_is_its_own_copy():
    assert copy.copy(add) is add
    assert copy.deepcopy(add) is add


def test_the_class_can_be_written_with_its_types():
    assert FunctionTool[[int, int], int]


KINDS = {
    int: st.integers(-(10**300), 10**300),
    str: st.text(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    list[int]: st.lists(st.integers()),
    dict[str, bool]: st.dictionaries(st.text(), st.booleans()),
    str | None: st.none() | st.text(),
}


@pytest.mark.slow
@given(st.data())
def test_it_accepts_exactly_what_the_function_accepts(data):
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=5))
    optional = data.draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    names = [f"arg{number}" for number in range(len(kinds))]
    arguments = ", ".join(
        f"{name}: kinds[{number}]" + (f" = defaults[{number}]" if optional[number] else "")
        for number, name in enumerate(names)
    )
    scope = {"kinds": kinds, "defaults": [data.draw(KINDS[kind]) for kind in kinds]}
    exec(f"def function(*, {arguments}): return dict(locals())", scope)
    function = scope["function"]
    made = tool(name="t", description="T.")(function)

    given = data.draw(st.sets(st.sampled_from([*names, "surplus"])))
    values = {n: data.draw(KINDS[kinds[names.index(n)]]) for n in sorted(given & set(names))}
    if "surplus" in given:
        values["surplus"] = 1
    try:
        expected = function(**values)
    except TypeError:
        with pytest.raises(ToolValidationError):
            made.parse(values)
    else:
        assert made.signature.invoke(made.parse(values), context=None) == expected


def test_it_can_be_pickled_by_the_name_it_can_be_imported_by(tmp_path, monkeypatch):
    source = (
        "from toolstile_hookspecs import tool\n"
        "@tool(isolation='process')\n"
        "def double(a: int) -> int:\n"
        "    'Double.'\n"
        "    return a * 2\n"
    )
    (tmp_path / "importable_tools.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("importable_tools").double
    assert pickle.loads(pickle.dumps(double)) is double
    renamed = pickle.loads(pickle.dumps(replace(double, name="twice")))
    assert (renamed.name, renamed(2), call(renamed, '{"a": 3}')) == ("twice", 4, 6)


def test_one_of_a_local_function_cannot_be_pickled_and_says_so():
    made = tool(name="local", description="L.")(lambda: None)
    with pytest.raises(pickle.PicklingError, match="Tool 'local' cannot be pickled"):
        pickle.dumps(made)
    with pytest.raises(DefinitionError, match="needs a handler that can be imported"):
        tool(name="local", description="L.", isolation="process")(lambda: None)


def test_annotations_may_be_strings_that_name_what_only_the_author_s_scope_knows():
    @dataclass
    class Local:
        number: int

    @tool
    def first(item: "Local", *, context: "ToolContext") -> "ToolResult[Local]":
        """Take one."""
        return ToolResult.ok(item)

    @tool(category="read")
    def second(params: "Local") -> "list[Local]":
        """Take one."""
        return [params]

    assert call(first, '{"item": {"number": 1}}').value == Local(1)
    assert first.signature.result is Local
    assert call(second, '{"number": 1}') == [Local(1)]
    assert call(replace(second, name="other"), '{"number": 1}') == [Local(1)]


def test_defaults_that_their_types_may_hold_are_taken():
    @tool
    def take(
        *,
        a: float = 1,
        b: int | None = None,
        c: Literal["x", "y"] = "x",
        d: Annotated[bool, "whether"] = False,
        e: list[int] = [],  # noqa: B006 - each call gets a copy
        f: list[str] = (),
    ) -> None:
        """Take anything."""

    assert take.parse("{}").a == 1
