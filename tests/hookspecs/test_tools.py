"""A tool is checked where it is written: name, texts, handler, examples, idempotency."""

import asyncio
import copy
import dataclasses
import functools
import pickle
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from toolstile_hookspecs import (
    HOST_TIMEOUT,
    DefinitionError,
    IdempotencyConfig,
    Tool,
    ToolExample,
    ToolResult,
    ToolValidationError,
)


@dataclass(frozen=True)
class Greet:
    name: str
    times: int = 1


def greet(params: Greet, *, context) -> ToolResult[str]:
    return ToolResult.ok(f"Hello {params.name}")


async def agreet(params: Greet, *, context) -> ToolResult[str]:
    return ToolResult.ok(f"Hello {params.name}")


class Greeter:
    def method(self, params: Greet, *, context) -> ToolResult[str]:
        return greet(params, context=context)

    async def amethod(self, params: Greet, *, context) -> ToolResult[str]:
        return greet(params, context=context)

    def __call__(self, params: Greet, *, context) -> ToolResult[str]:
        return greet(params, context=context)


class AsyncGreeter:
    async def __call__(self, params: Greet, *, context) -> ToolResult[str]:
        return greet(params, context=context)


def prefixed(prefix, params: Greet, *, context) -> ToolResult[str]:
    return greet(params, context=context)


async def aprefixed(prefix, params: Greet, *, context) -> ToolResult[str]:
    return greet(params, context=context)


def make(**changes):
    return Tool[Greet, str](**{"name": "greet", "description": "Say hello."} | changes)


def fault(**changes):
    with pytest.raises(DefinitionError) as caught:
        make(**changes)
    return str(caught.value)


def test_a_tool_has_the_defaults_of_the_contract():
    tool = make()
    assert (tool.category, tool.consequence, tool.concurrency) == (
        "side_effect",
        "medium",
        "parallel",
    )
    assert (tool.isolation, tool.accepts_overrides, tool.contained) == ("thread", True, False)
    assert tool.timeout is HOST_TIMEOUT
    assert make(category="read").contained is True
    assert make(category="read", contained=False).contained is False


def test_none_stands_for_no_params_and_no_value():
    tool = Tool[None, None](name="ping", description="Ping.")
    assert tool.parse("{}") is None
    with pytest.raises(ToolValidationError):
        tool.parse('{"a": 1}')


@pytest.mark.parametrize("name", ["", "Greet", "a b", "ä", "x" * 65, "a.b", "greet\n", None, 5])
def test_a_name_is_of_the_form_that_all_providers_take(name):
    text = fault(name=name)
    assert text.startswith(f"Tool {name!r}: its name must be 1 to 64 of a-z, 0-9, _ and -")
    assert "wire_name" in text


@pytest.mark.parametrize("name", ["a", "-", "read_file-2", "x" * 64])
def test_names_of_that_form_are_taken(name):
    assert make(name=name).name == name


@pytest.mark.parametrize("description", ["", "  ", None, 5])
def test_a_tool_needs_a_description(description):
    assert fault(description=description) == (
        "Tool 'greet': it has no description; say in 1 to 200 characters what it does."
    )


def test_a_description_has_at_most_200_characters():
    assert make(description="x" * 200)
    text = fault(description="x" * 201)
    assert "201 characters, 200 are allowed" in text
    assert "long_description" in text


@pytest.mark.parametrize(
    ("field", "value", "choice"),
    [
        ("category", "writes", "delete"),
        ("consequence", "huge", "high"),
        ("concurrency", "one", "serial"),
        ("isolation", "vm", "process"),
    ],
)
def test_a_choice_is_one_of_those_there_are(field, value, choice):
    text = fault(**{field: value})
    assert f"Tool 'greet': {field} is {value!r}: input should be" in text
    assert choice in text


@pytest.mark.parametrize("timeout", [0, -1, True, "5", float("nan")])
def test_a_timeout_is_positive_or_none(timeout):
    assert f"timeout is {timeout!r}" in fault(timeout=timeout)
    assert make(timeout=None).timeout is None
    assert make(timeout=0.5).timeout == 0.5


def test_a_string_is_not_taken_for_a_sequence():
    assert "tags is 'net': input should be a valid tuple" in fault(tags="net")
    assert make(tags=["net"]).tags == ("net",)


def test_all_faults_are_told_at_once():
    text = fault(name="No", description="", category="x", timeout=0)
    assert text.count(";") >= 4


@pytest.mark.parametrize(
    "handler",
    [
        greet,
        Greeter().method,
        Greeter(),
        functools.partial(prefixed, "x"),
        functools.partial(functools.partial(Greeter().method)),
    ],
)
def test_a_handler_may_be_any_callable_of_the_form(handler):
    tool = make(handler=handler)
    assert not tool.is_async
    assert tool.signature.invoke(Greet("Ada"), context=None).value == "Hello Ada"


@pytest.mark.parametrize(
    "handler",
    [agreet, Greeter().amethod, AsyncGreeter(), functools.partial(aprefixed, "x")],
)
def test_an_async_handler_is_known_as_one(handler):
    tool = make(handler=handler)
    assert tool.is_async
    assert asyncio.run(tool.signature.invoke(Greet("Ada"), context=None)).value == "Hello Ada"


def no_context(params):
    pass


def positional_context(params, context, more):
    pass


def no_params(*, context):
    pass


def other_params(params: int, *, context):
    pass


def other_result(params, *, context) -> ToolResult[int]:
    return ToolResult.ok(1)


async def plain_result(params, *, context) -> str:
    return "plain"


def no_result(params, *, context) -> None:
    pass


def generator(params, *, context):
    yield


async def agenerator(params, *, context):
    yield


def test_a_handler_that_does_not_fit_is_refused_with_the_form_to_write(subtests):
    for handler, said in [
        (no_context, "write it as handler(params, *, context)"),
        (positional_context, "write it as handler(params, *, context)"),
        (no_params, "write it as handler(params, *, context)"),
        (Greeter, "is not a function; write it as"),
        ("greet", "is not a function; write it as"),
        (other_params, "takes params of int, but the tool declares Greet; make them the same"),
        (other_result, "returns ToolResult[int], but the tool declares str; make them the same"),
        (no_result, "returns None, not a ToolResult; let it return ToolResult[None]"),
        (plain_result, "returns str, not a ToolResult; let it return ToolResult[str]"),
        (generator, "is a generator"),
        (agenerator, "is a generator"),
    ]:
        with subtests.test(handler=handler, said=said):
            text = fault(handler=handler)
            assert text.startswith("Tool 'greet': its handler")
            assert said in text


def test_a_handler_may_take_more_than_it_gets_and_give_less_than_declared():
    def wide(params: object, *, context) -> ToolResult[bool]:
        return ToolResult.ok(True)

    assert Tool[Greet, int](name="t", description="T.", handler=wide)
    assert Tool[Greet | None, int](name="t", description="T.", handler=wide)


def test_a_sync_handler_may_return_an_awaitable():
    def later(params, *, context) -> Awaitable[ToolResult[str]]:
        return agreet(params, context=context)

    assert make(handler=later).signature.result is str


def test_types_are_taken_from_the_handler_where_the_tool_does_not_say():
    tool = Tool(name="greet", description="Say hello.", handler=greet)
    assert (tool.signature.params, tool.signature.result) == (Greet, str)
    with pytest.raises(DefinitionError, match=r"write Tool\[Params, Result\]"):
        Tool(name="greet", description="Say hello.")


@pytest.mark.parametrize("kind", [int, str, list[int]])
def test_params_are_an_object(kind):
    with pytest.raises(DefinitionError, match="arguments are an object; use a dataclass"):
        Tool[kind, None](name="t", description="T.")


def test_a_tool_takes_two_types():
    with pytest.raises(DefinitionError, match=r"Write Tool\[Params, Result\]"):
        Tool[int]


def test_examples_must_fit_and_all_misfits_are_told():
    assert make(examples=[ToolExample("An Ada.", Greet("Ada"), "Hello Ada")]).examples
    text = fault(
        examples=(
            ToolExample("Bad in.", Greet(name=5), "x"),
            ToolExample("Bad out.", Greet("a"), 5),
        )
    )
    assert "example 'Bad in.': its input does not fit: name: input should be a valid string" in text
    assert "example 'Bad out.': its output does not fit: input should be a valid string" in text
    assert "arguments" not in text.lower()
    assert "pydantic" not in text.lower()
    assert "examples[0] is 'Ada': input should be an instance of ToolExample" in fault(
        examples=("Ada",)
    )


def test_a_field_of_another_type_is_told_with_what_to_write(subtests):
    for fields, told in [
        ({"tags": None}, "tags is None: input should be a valid tuple"),
        ({"tags": (each for each in "ab")}, "input should be a valid tuple"),
        ({"tags": ("a", 1)}, "tags[1] is 1: input should be a valid string"),
        ({"depends_on": (greet,)}, "depends_on[0] is "),
        ({"version": 1}, "version is 1: input should be a valid string"),
        ({"wire_name": ""}, "wire_name is blank; leave it out"),
        ({"origin": ""}, "origin is blank; leave it out"),
        ({"long_description": 4}, "long_description is 4: input should be a valid string"),
        (
            {"requires_confirmation": "no"},
            "requires_confirmation is 'no': input should be a valid bool",
        ),
        ({"contained": "no"}, "contained is 'no': input should be a valid boolean"),
        ({"accepts_overrides": 1}, "accepts_overrides is 1: input should be a valid boolean"),
        ({"idempotency": "auto"}, "idempotency is 'auto': input should be an instance of Idem"),
        (
            {"examples": ToolExample("An Ada.", Greet("Ada"), "Hello")},
            "examples is ToolExample(",
        ),
        ({"examples": None}, "examples is None: input should be a valid tuple"),
        ({"params_schema": True}, "params_schema is True: input should be a valid dictionary"),
        ({"params_schema": {"type": "array"}}, "arguments are an object"),
        ({"params_schema": {"type": ["string", "null"]}}, "arguments are an object"),
        ({"result_schema": []}, "result_schema is (): input should be a valid dictionary"),
    ]:
        with subtests.test(fields=fields, told=told):
            text = fault(**fields)
            assert text.startswith("Tool 'greet': ")
            assert told in text


def test_params_may_be_an_object_or_nothing_in_a_schema():
    schema = {"type": ["object", "null"]}
    assert make(params_schema=schema).params_schema == schema


def test_an_example_may_give_its_input_as_a_mapping():
    tool = make(examples=(ToolExample("Ada.", {"name": "Ada"}, "Hello Ada"),))
    assert tool.examples[0].input == Greet("Ada")
    assert "nme" in fault(examples=(ToolExample("Ada.", {"nme": "Ada"}, "Hello Ada"),))


def test_an_example_of_an_untyped_result_must_be_json():
    good = ToolExample("Any.", Greet("a"), {"any": [1]})
    bad = ToolExample("Odd.", Greet("a"), object())
    assert Tool[Greet, Any](name="t", description="T.", examples=(good,)).examples == (good,)
    with pytest.raises(DefinitionError, match=r"example 'Odd.': its output does not fit"):
        Tool[Greet, Any](name="t", description="T.", examples=(bad,))


def test_an_example_is_described_by_a_text():
    with pytest.raises(DefinitionError, match="its description is None; say in 1 to 200"):
        ToolExample(None, None, None)


@pytest.mark.parametrize(
    ("description", "told"),
    [("", "is ''"), (" ", "is ' '"), ("x" * 201, "is 'xxx")],
)
def test_an_example_says_in_200_characters_what_it_shows(description, told):
    with pytest.raises(DefinitionError, match=f"ToolExample: its description {told}.* 1 to 200"):
        ToolExample(description, None, None)


@pytest.mark.parametrize(
    "version",
    ["0.0.0", "1.2.3", "10.20.30", "1.0.0-alpha", "1.0.0-0.3.7", "1.0.0-x.7.z-9", "1.0.0+20130313"],
)
def test_a_version_is_a_semantic_one(version):
    made = Tool[None, None](name="t", description="T.", version=version)
    assert made.version == version


@pytest.mark.parametrize(
    ("version", "meant"),
    [
        ("1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v1.2.3", "1.2.3"),
        ("01.2.3", "1.2.3"),
        ("1.2.3.4", "1.2.3"),
        ("1.2.3-01", "1.2.3"),
        ("1.2.3-", "1.2.3"),
        ("1.2.3 ", "1.2.3"),
        ("newest", "0.0.0"),
    ],
)
def test_another_version_is_refused_with_what_was_meant(version, meant):
    told = f"version {version!r} is not a semantic version; write it as in {meant!r}"
    assert told in fault(version=version)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (IdempotencyConfig(strategy="params"), "needs param_keys=('field', ...)"),
        (IdempotencyConfig(strategy="custom"), "needs key_fn="),
        (IdempotencyConfig(strategy="params", param_keys=("nme",)), "did you mean 'name'?"),
        (IdempotencyConfig(strategy="params", param_keys=("zzz",)), "it has name, times"),
        (
            IdempotencyConfig(strategy="custom", key_fn=lambda: "x"),  # type: ignore[misc, arg-type]
            "key_fn cannot be called with params alone",
        ),
        (IdempotencyConfig(ttl=timedelta(0)), "use None for never"),
    ],
)
def test_idempotency_without_what_it_needs_is_refused_naming_the_tool(config, said):
    text = fault(idempotency=config)
    assert text.startswith("Tool 'greet': ")
    assert said in text


def test_a_process_needs_a_handler_that_can_be_imported():
    def local(params, *, context):
        pass

    assert make(handler=greet, isolation="process")
    for handler in (local, lambda params, *, context: None, Greeter().method, Greeter()):
        text = fault(handler=handler, isolation="process")
        assert "needs a handler that can be imported" in text
        assert "isolation='thread'" in text


def test_a_replaced_tool_keeps_types_handler_and_examples():
    tool = make(handler=greet, examples=(ToolExample("Ada.", Greet("Ada"), "Hello Ada"),))
    renamed = replace(tool, name="hello")
    assert (renamed.name, tool.name) == ("hello", "greet")
    assert renamed.parse('{"name": "x"}') == Greet("x")
    assert renamed.signature == tool.signature
    assert isinstance(renamed, type(tool))
    assert replace(tool, handler=agreet).is_async
    with pytest.raises(DefinitionError, match="its name"):
        replace(tool, name="No")


def test_a_tool_is_its_own_copy():
    tool = make(handler=greet)
    assert copy.copy(tool) is tool
    assert copy.deepcopy([tool])[0] is tool


def test_a_tool_can_be_pickled_where_its_handler_can_be_imported():
    untyped = Tool(name="later", description="Made of what it says.", handler=dictionary)
    for tool in (Tool[None, int](name="n", description="N."), untyped):
        again = pickle.loads(pickle.dumps(tool))
        assert (again.name, again.signature.params) == (tool.name, tool.signature.params)
        assert again.timeout is HOST_TIMEOUT


def test_a_tool_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().name = "x"


def test_a_schema_stands_in_place_of_a_type():
    tool = Tool(
        name="remote",
        description="Elsewhere.",
        handler=dictionary,
        params_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
        result_schema={"type": "string"},
    )
    assert tool.parse('{"a": 1}') == {"a": 1}
    with pytest.raises(ToolValidationError, match="a: \"1\" is not of type 'integer'"):
        tool.parse('{"a": "1"}')


def dictionary(params: dict[str, Any], *, context) -> ToolResult[str]:
    return ToolResult.ok("done")


def test_a_tool_without_handler_says_so_when_it_is_called():
    with pytest.raises(ToolValidationError, match="no handler"):
        make().signature.invoke(None, context=None)
