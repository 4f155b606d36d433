"""A plugin's table fits its model, or every fault is told."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote_plus

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from toolstile.settings import Settings, validate_table
from toolstile.settings.table_validation import keys_within
from toolstile_hookspecs import ConfigurationError


class Inner(BaseModel):
    model_config = ConfigDict(extra="allow")
    depth: int


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    url: str
    mode: Literal["fast", "slow"] = "fast"
    level: int | Inner = 1
    inners: list[Inner] = []
    most: int = Field(default=3, gt=0)
    code: str = Field(default="a", pattern="^[a-z]+$")
    word: str = Field(default="a", min_length=1)
    share: float = 0.5
    shown: bool = True
    by_name: dict[str, int] = {}
    other: int = Field(default=1, alias="another")
    handle: SecretStr | None = None
    api_token: str = ""


def fault(table, model=Model):
    with pytest.raises(ConfigurationError) as raised:
        validate_table(model, table, plugin="mine", source="toolstile.toml")
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    return str(raised.value)


def test_a_table_that_fits_becomes_an_instance():
    made = validate_table(
        Model, {"url": "a", "level": {"depth": 2}, "another": 5}, plugin="mine", source="f"
    )
    assert (made.url, made.level, made.other) == ("a", Inner(depth=2), 5)


def test_a_fault_names_source_key_what_was_expected_and_what_was_found(subtests):
    for table, text in [
        ({}, "url: is missing."),
        ({"url": 3}, "url: expected text, found the number 3."),
        ({"url": "a", "mode": "fats"}, "mode: expected 'fast' or 'slow', found the text 'fats'."),
        ({"url": "a", "most": -1}, "most: expected greater than 0, found the number -1."),
        ({"url": "a", "code": "A"}, "code: expected text that matches pattern '^[a-z]+$', found"),
        ({"url": "a", "word": ""}, "word: expected text that has at least 1 character, found"),
        ({"url": "a", "most": "x"}, "most: expected a whole number, found the text 'x'."),
        ({"url": "a", "share": []}, "share: expected a number, found an array."),
        ({"url": "a", "shown": {}}, "shown: expected true or false, found a table."),
        ({"url": "a", "inners": {}}, "inners: expected an array, found a table."),
        ({"url": "a", "inners": [{}]}, "inners[0].depth: is missing."),
        ({"url": "a", "by_name": {"x": "y"}}, "by_name.x: expected a whole number, found the text"),
    ]:
        with subtests.test(table=table, text=text):
            assert fault(table).startswith(f"toolstile.toml: plugins.mine.{text}")


def test_unknown_keys_are_refused_even_where_the_model_would_allow_them():
    assert fault({"url": "a", "mod": "fast"}).endswith(
        "plugins.mine.mod: is not a known key; did you mean 'mode'?"
    )
    assert fault({"url": "a", "inners": [{"depth": 1, "dept": 2}]}).endswith(
        "plugins.mine.inners[0].dept: is not a known key; did you mean 'depth'?"
    )
    assert "known: " in fault({"url": "a", "zzz": 1})
    assert "there are none" in fault({"a": 1}, type("Empty", (BaseModel,), {}))


@dataclass
class Outer:
    named: dict[str, Inner]


def test_an_unknown_key_of_an_inner_table_is_told_with_those_that_the_table_has():
    told = fault({"named": {"a": {"depth": 1, "dpth": 2}, "b": {"depth": 1, "zzz": 2}}}, Outer)
    assert "plugins.mine.named.a.dpth: is not a known key; did you mean 'depth'?" in told
    assert told.endswith("plugins.mine.named.b.zzz: is not a known key; remove it (known: depth).")
    assert "did you mean 'most'?" in fault({"models": [{"url": "a", "moss": 1}]}, Models)


class Models(BaseModel):
    models: list[Model]


def test_a_type_that_nobody_else_can_resolve_hides_no_fault():
    @dataclass
    class Local:
        inner: "Unknown | None" = None  # noqa: F821

    assert keys_within(Local, ["inner"]) == ["inner"]


def test_the_names_of_a_unions_members_are_no_keys():
    assert "plugins.mine.level.depth: is missing." in fault({"url": "a", "level": {}})
    assert "Inner" not in fault({"url": "a", "level": {"depth": "x"}})


def test_an_alias_is_the_key():
    assert "did you mean 'another'?" in fault({"url": "a", "another_": 1})


def test_all_faults_are_told_at_once():
    text = fault({"url": 3, "most": 0, "zzz": 1})
    assert len(re.findall(r"toolstile\.toml: plugins\.mine\.", text)) == 3


def test_a_long_value_is_shown_in_part():
    assert "x" * 70 in fault({"url": "a", "most": "x" * 200})
    assert "x" * 90 not in fault({"url": "a", "most": "x" * 200})


class Checked(BaseModel):
    url: str = ""
    password: str = ""

    @field_validator("url")
    @classmethod
    def check_url(cls, url: str) -> str:
        if "@" in url:
            msg = f"{url} must not have a user"
            raise ValueError(msg)
        return url

    @model_validator(mode="after")
    def check_all(self) -> "Checked":
        if self.password:
            msg = f"cannot log in with {self.password} (?password={quote_plus(self.password)})."
            raise RuntimeError(msg)
        return self


def test_a_validators_own_words_are_told():
    text = fault({"url": "ada@example.org"}, Checked)
    assert "plugins.mine.url: expected ada@example.org must not have a user, found the" in text


class Apart(BaseModel):
    file: str = ""
    folder: str = ""

    @model_validator(mode="after")
    def check_one(self) -> "Apart":
        if self.file and self.folder:
            msg = "give either a file, or a folder"
            raise ValueError(msg)
        return self


def test_keys_that_do_not_go_together_are_told_as_their_model_tells_it():
    text = fault({"file": "a", "folder": "b"}, Apart)
    assert text == "toolstile.toml: plugins.mine: give either a file, or a folder."


def test_a_validator_that_breaks_is_told_without_the_secret():
    text = fault({"password": "hunter2"}, Checked)
    assert text == (
        "toolstile.toml: plugins.mine: the check of Checked failed: "
        "RuntimeError: cannot log in with *** (?password=***)."
    )


def test_a_secret_is_not_shown_in_an_address_either():
    text = fault({"password": "hunter 2/3"}, Checked)
    assert text.endswith("cannot log in with *** (?password=***).")


def test_credentials_in_an_address_are_not_shown():
    text = fault({"url": "https://ada:hunter2@example.org"}, Checked)
    assert "hunter2" not in text
    assert "https://***@example.org" in text


@pytest.mark.slow
@given(
    st.sampled_from(["api_token", "handle"]),
    st.integers(10**6, 10**9) | st.lists(st.integers(10**6, 10**9), min_size=1, max_size=2),
)
def test_a_secret_is_never_shown(key, secret):
    text = fault({"url": "a", key: secret})
    assert f"plugins.mine.{key}: expected text, found a value that is not shown." in text
    assert not any(str(each) in text for each in (secret if isinstance(secret, list) else [secret]))


class Source(BaseModel):
    place: str = ""
    options: dict[str, str | int] = Field(default={}, repr=False)


class Sources(BaseModel):
    sources: list[Source] = []
    options: dict[str, str] = Field(default={}, repr=False)


@pytest.mark.parametrize(
    "table",
    [
        {"options": "hunter2"},
        {"options": {"user": 31337}},
        {"sources": [{"options": "hunter2"}]},
        {"sources": [{"options": {"user": ["hunter2"]}}]},
        {"sources": [{"option": {"user": "hunter2"}}]},
        {"sources": [{"place": 3, "options": {"user": "hunter2", "other": 31337}}]},
    ],
)
def test_what_a_model_keeps_out_of_its_own_repr_is_not_shown(table):
    told = fault(table, Sources)
    assert "hunter2" not in told
    assert "31337" not in told


def test_a_secret_under_an_unknown_key_is_not_shown():
    assert "hunter2" not in fault({"url": "a", "my_password": "hunter2"})


def test_each_fault_names_its_own_source():
    settings = Settings(
        plugins={"mine": {}}, variables={"plugins.mine.url": "TOOLSTILE_PLUGINS__MINE__URL"}
    )
    with pytest.raises(ConfigurationError) as raised:
        validate_table(Model, {"url": 3, "most": 0}, plugin="mine", source=settings.source_of)
    assert "TOOLSTILE_PLUGINS__MINE__URL: plugins.mine.url: expected" in str(raised.value)
    assert "the configuration: plugins.mine.most: expected" in str(raised.value)


def test_a_table_is_found_by_a_name_that_variables_can_spell():
    settings = Settings(plugins={"my_tools": {"a": 1}, "your-tools": {"b": 2}})
    assert settings.table_of("my-tools") == {"a": 1}
    assert settings.table_of("your-tools") == {"b": 2}
    assert settings.table_of("their-tools") == {}
    assert settings.table_name("My.Tools") == "my_tools"


class Bare:
    """A class that says nothing of its fields."""


def test_a_class_that_no_table_can_be_made_into_is_told_in_a_line():
    with pytest.raises(ConfigurationError) as told:
        validate_table(Bare, {"a": 1}, plugin=None, source="toolstile.toml")
    assert re.fullmatch(
        "toolstile.toml: no table can be made into Bare, which its author has to fix: "
        "Unable to generate .* for <class '.*Bare'>.",
        str(told.value),
    )


@dataclass
class Misspelt:
    words: "tuple[strr, ...]" = ()  # type: ignore[name-defined]  # noqa: F821


def test_a_name_that_nothing_defines_is_told_with_the_class_that_needs_it():
    with pytest.raises(ConfigurationError) as told:
        validate_table(Misspelt, {}, plugin=None, source="toolstile.toml")
    assert str(told.value) == (
        "toolstile.toml: no table can be made into Misspelt, which its author has to fix: "
        "name 'strr' is not defined."
    )
