"""The text of a result, as the model reads it."""

import math
from collections import UserDict, UserList, namedtuple
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from pydantic import BaseModel

from toolstile_hookspecs import ToolRenderableResult, ToolResult, render_value


@dataclass
class Silent:
    a: int


@dataclass
class Spoken:
    a: int

    def render(self):
        return f"a is {self.a}"


class Model(BaseModel):
    a: int


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - without types


def test_a_value_is_rendered_by_the_first_rule_that_fits(subtests):
    for value, text in [
        (None, ""),
        ("as it is\n", "as it is\n"),
        (True, "true"),
        (1, "1"),
        (1.5, "1.5"),
        (Spoken(1), "a is 1"),
        (Model(a=1), '{"a":1}'),
        ({"a": [1]}, '{"a":[1]}'),
        (["x", Spoken(1), {"a": 1}, 2], 'x\na is 1\n{"a":1}\n2'),
        (("x", None), "x\n"),
        ({7}, "7"),
        (b"bytes", '"bytes"'),
        ([], "[]"),
        (MappingProxyType({"a": range(2)}), '{"a":[0,1]}'),
        ([UserDict(a=UserList([1]))], '{"a":[1]}'),
        (Pair(1, 2), "1\n2"),
        (10**400, str(10**400)),
        (math.inf, '"Infinity"'),
        ({"a": [math.nan, -math.inf]}, '{"a":["NaN","-Infinity"]}'),
    ]:
        with subtests.test(value=value, text=text):
            assert render_value(value) == text


def test_a_dataclass_without_render_is_json_with_one_warning_per_type():
    @dataclass
    class Fresh:
        a: int

    told = rf"^{__name__}\.\S+\.Fresh has no render\(\).*define render\(\)"
    with pytest.warns(UserWarning, match=told):
        assert render_value(Fresh(1)) == '{"a":1}'
    assert render_value(Fresh(2)) == '{"a":2}'


def test_what_render_gives_must_be_text():
    class Mute:
        def render(self):
            return None

    with pytest.raises(TypeError, match=r"Mute\.render\(\) gave NoneType, not text"):
        render_value(Mute())


def test_the_model_reads_the_message_then_the_value():
    assert ToolResult.ok(Spoken(1), message="Done.").render() == "Done.\na is 1"
    assert ToolResult.ok(Spoken(1)).render() == "a is 1"
    assert ToolResult.ok(message="Done.").render() == "Done."
    assert ToolResult.ok().render() == ""


@pytest.mark.parametrize("empty", [[], (), set(), frozenset()])
def test_an_empty_list_is_read_as_one_unless_the_message_tells_of_it(empty):
    assert ToolResult.ok(empty).render() == "[]"
    assert ToolResult.ok([empty, [1]]).render() == "[]\n1"
    assert ToolResult.ok(empty, message="There are none.").render() == "There are none."
    assert ToolResult.ok("[]", message="It has:").render() == "It has:\n[]"
    assert ToolResult.ok("").render() == ""


def test_an_excluded_value_is_not_read():
    result = ToolResult.ok("secret", message="Kept.", exclude_value_from_context=True)
    assert result.render() == "Kept."
    assert result.value == "secret"


def test_a_failure_s_value_is_not_read():
    assert ToolResult("No.", "value", success=False).render() == "No."
    failed = ToolResult.error("No.")
    assert (failed.success, failed.value, failed.render()) == (False, None, "No.")


def test_a_value_that_renders_itself_can_be_told():
    assert isinstance(Spoken(1), ToolRenderableResult)
    assert not isinstance(Silent(1), ToolRenderableResult)
