"""Secrets are found by types and schemas, and kept out of texts, arguments and values."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    Secret as PydanticSecret,
    SecretBytes,
    SecretStr,
    computed_field,
)

from toolstile_hookspecs import (
    Secret,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolInvoked,
    ToolResult,
    hide,
    hide_within,
    masked,
    secrets_in,
    secrets_of,
    tool,
)


class Login(BaseModel):
    name: str
    key: SecretStr | None = None
    more: dict[str, SecretStr] = Field(default_factory=dict)
    pairs: list[tuple[str, SecretStr]] = Field(default_factory=list)
    inner: "Login | None" = None


class Ticket(BaseModel):
    seat: PydanticSecret[int]

    @computed_field(json_schema_extra={"writeOnly": True})
    @property
    def code(self) -> str:
        return "hunter2"


@dataclass
class Plain:
    names: list[str]


@tool
def log_in(params: Login) -> Any:
    """Log in."""


@tool
def plain(params: Plain) -> None:
    """Take names."""


spent: list[str] = []


def _once(code: SecretStr) -> SecretStr:
    if spent:
        msg = "it is spent"
        raise ValueError(msg)
    spent.append(code.get_secret_value())
    return code


@tool
def once(code: Annotated[SecretStr, AfterValidator(_once)]) -> None:
    """Take a code, once."""


LOGIN_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "pin": {"type": "string", "writeOnly": True}},
}
remote: Tool[Any, Any] = Tool(
    name="remote",
    description="Log in elsewhere.",
    handler=lambda params, *, context: ToolResult.ok(params["name"]),
    params_schema=LOGIN_SCHEMA,
)


def deep(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def in_circles(value: Any) -> Any:
    around = [value]
    around.append(around)
    return around


def _plain_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def event_of(
    made: Tool[Any, Any], arguments: dict[str, Any] | None, value: Any = None, **fields: Any
) -> Any:
    return ToolInvoked(
        call=ToolCall(made.name, arguments or {}),
        tool=made,
        arguments=None if arguments is None else json.dumps(arguments),
        result=ToolResult.ok(value),
        data=None if value is None else made.result_codec.encode(value),
        status=Status.SUCCEEDED,
        stage=Stage.TELEMETRY,
        session_id="s",
        parent_id=None,
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        duration=0.1,
        **fields,
    )


class TestMasking:
    def test_what_is_no_secret_stays(self):
        arguments = {"name": "Ada", "key": "k3y", "pairs": [["a", "b"]]}
        schema = log_in.params_codec.secret_schema()
        assert masked(arguments, schema) == {"name": "Ada", "key": "***", "pairs": [["a", "***"]]}
        assert masked({"names": ["a"]}, plain.params_codec.schema()) == {"names": ["a"]}

    def test_schemas_refer_to_one_another_also_in_circles(self):
        schema = {
            "properties": {"login": {"$ref": "#/$defs/login"}},
            "patternProperties": {"^x": {"writeOnly": True}},
            "$defs": {"login": {"allOf": [{"$ref": "#/$defs/login"}, {"writeOnly": True}]}},
        }
        assert masked({"login": {"a": 1}, "x": 2}, schema) == {"login": "***", "x": "***"}
        assert list(secrets_of({"login": {"a": 1}, "x": 2}, schema)) == ["1", "2"]

    @pytest.mark.parametrize("target", ["#/$defs/a~1b%5B%5D", "#/$defs/list/anyOf/1"])
    def test_references_are_followed_as_they_are_written(self, target):
        schema = {
            "properties": {"login": {"$ref": target}},
            "$defs": {"a/b[]": {"writeOnly": True}, "list": {"anyOf": [{}, {"writeOnly": True}]}},
        }
        assert masked({"login": "hunter2"}, schema) == {"login": "***"}

    def test_annotated_secrets_are_found(self):
        @tool
        def keep(token: Annotated[SecretStr, Field(description="a token")]) -> None:
            """Keep."""

        assert masked({"token": "t"}, keep.params_codec.schema()) == {"token": "***"}


class TestHiding:
    def test_all_but_the_very_short_are_hidden(self):
        assert hide("my hunter2 is a", ["hunter2", "a"]) == "my *** is a"

    @pytest.mark.slow
    @given(st.lists(st.text("xyz", min_size=3), max_size=4), st.text("abcxyz"))
    def test_no_secret_is_left_whatever_their_order(self, secrets, text):
        hidden = hide(text + "".join(secrets), secrets)
        assert not any(secret in hidden for secret in secrets)

    def test_texts_are_found_however_deep(self):
        value = {"a hunter2": ["hunter2!", {"b": "hunter2"}], "n": 7}
        hidden = {"a ***": ["***!", {"b": "***"}], "n": 7}
        assert hide_within(value, ["hunter2"]) == hidden

    @given(st.text(min_size=3), st.sampled_from([json.dumps, repr, quote, quote_plus, _plain_json]))
    def test_no_secret_is_left_in_the_usual_quotes(self, secret, written):
        inside = written(secret)
        inside = inside[1:-1] if inside[0] in "\"'" else inside
        assert hide(f"<{inside}>", [secret]) == "<***>"

    def test_numbers_that_are_secrets_are_hidden(self):
        assert hide_within({"a": 1234, "b": 12345, "c": True}, ["1234"]) == {
            "a": "***",
            "b": 12345,
            "c": True,
        }


class TestSecretTypes:
    def test_are_found_however_deep(self, subtests):
        for value in [
            Secret("hunter2"),
            Secret({"a": ["hunter2"]}),
            SecretStr("hunter2"),
            SecretBytes(b"hunter2"),
            PydanticSecret("hunter2"),
            Login(name="Ada", key=SecretStr("hunter2")),
            {"inside": [(SecretStr("hunter2"),)]},
            {SecretStr("hunter2"): 1},
            deep(SecretStr("hunter2"), 2_000),
            Secret(deep("hunter2", 2_000)),
            in_circles(SecretStr("hunter2")),
            Secret(in_circles("hunter2")),
        ]:
            with subtests.test(value=value):
                assert list(secrets_in(value)) == ["hunter2"]

    def test_any_type_can_be_made_one(self):
        @tool
        def keep(pin: PydanticSecret[int], more: list[PydanticSecret[dict[str, int]]]) -> None:
            """Keep."""

        arguments = {"pin": 1234, "more": [{"a": 5678}]}
        schema = keep.params_codec.secret_schema()
        assert masked(arguments, schema) == {"pin": "***", "more": ["***"]}
        assert list(secrets_of(arguments, schema)) == ["1234", "5678"]
        params = keep.params_codec.decode(json.dumps(arguments))
        assert list(secrets_in(params)) == ["1234", "5678"]
        assert json.loads(keep.params_codec.encode(params)) == arguments

    def test_names_can_be_secret(self):
        @tool
        def keep(counts: dict[SecretStr, int]) -> None:
            """Keep counts."""

        arguments = {"counts": {"hunter2": 1}}
        schema = keep.params_codec.secret_schema()
        assert masked(arguments, schema) == {"counts": {"***": 1}}
        assert list(secrets_of(arguments, schema)) == ["hunter2"]
        params = keep.params_codec.decode(json.dumps(arguments))
        assert json.loads(keep.params_codec.encode(params)) == arguments

    def test_bytes_that_are_no_text_are_found_as_python_writes_them(self):
        raw = b"\xff\xfehunter2"
        assert hide(f"the key is {raw!r}", secrets_in(SecretBytes(raw))) == "the key is b'***'"

    def test_other_values_are_none(self):
        assert list(secrets_in({"a": "hunter2", "b": 7, "c": None})) == []


class TestWhatIsSecretOfATool:
    def test_is_said_by_its_schema_where_anything_is(self):
        assert "writeOnly" in str(log_in.params_codec.secret_schema())
        assert remote.params_codec.secret_schema() == LOGIN_SCHEMA
        assert plain.params_codec.secret_schema() == {}
        assert plain.result_codec.secret_schema() == {}

    def test_is_said_of_what_is_computed_when_it_is_written_too(self):
        @tool
        def issue() -> list[Ticket]:
            """Issue tickets."""
            return [Ticket(seat=PydanticSecret(7))]

        value = json.loads(issue.result_codec.encode([Ticket(seat=PydanticSecret(7))]))
        assert value == [{"seat": "**********", "code": "hunter2"}]
        schema = issue.result_codec.secret_schema()
        assert masked(value, schema) == [{"seat": "***", "code": "***"}]

    def test_a_type_without_a_schema_may_be_secret_as_a_whole(self):
        class Odd:
            @classmethod
            def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
                from pydantic_core import core_schema

                return core_schema.no_info_plain_validator_function(lambda value: value)

        @tool
        def take(odd: Odd) -> None:
            """Take."""

        assert masked({"odd": "x"}, take.params_codec.secret_schema()) == {"odd": "***"}


class TestAnEvent:
    def test_shows_arguments_and_value_without_secrets(self):
        value = {"token": SecretStr("t0ken"), "note": "hunter2 works"}
        event = event_of(log_in, {"name": "Ada", "key": "hunter2"}, value)
        assert event.shown_arguments == {"name": "Ada", "key": "***"}
        assert event.shown_value == {"token": "**********", "note": "*** works"}
        assert "hunter2" not in repr(event.call)

    def test_knows_what_a_schema_says_is_secret(self):
        event = event_of(remote, {"name": "Ada", "pin": "1234"}, "1234")
        assert event.shown_arguments == {"name": "Ada", "pin": "***"}
        assert event.shown_value == "***"
        assert event.hide("Ada has 1234.") == "Ada has ***."
        assert "1234" not in repr(event.call)

    def test_hides_the_credentials_of_the_user(self):
        event = event_of(plain, {"names": ["Ada"]}, auth=Secret({"key": "t0ken"}))
        assert event.hide("with t0ken") == "with ***"
        assert "t0ken" not in repr(event)

    def test_hides_what_came_where_it_is_not_taken_any_more(self):
        event = event_of(once, {"code": "hunter2"})
        assert event.params.code.get_secret_value() == "hunter2"
        assert event.hide("with hunter2") == "with ***"

    def test_has_nothing_to_show_of_what_was_not_there(self):
        event = event_of(log_in, None)
        assert event.shown_arguments is None
        assert event.shown_value is None
