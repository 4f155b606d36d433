"""Texts from a file in place of those in the code, unless those have changed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile.prompt_overrides import hash_of, load_overrides, override
from toolstile_cli.commands.prompt import skeleton
from toolstile_hookspecs import ConfigurationError, MarkdownSection, Prompt, tool


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(accepts_overrides=False)
def fixed() -> None:
    """Stay as it is."""


INNER = MarkdownSection(key="inner", title="Inner", template="Inside.")
SECTION = MarkdownSection(
    key="sums", title="Sums", template="Add $what.", tools=[add, fixed], children=[INNER]
)
PROMPT = Prompt.of("app", "main", [SECTION]).bind({"what": "numbers"})


def write(path: Path, text: str | bytes) -> Path:
    file = path / "overrides.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_texts_and_descriptions_are_overridden(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f"""
        [prompts."app/main".sections.sums]
        hash = "{hash_of("Add $what.")}"
        text = "Please add $what."
        [prompts."app/main".sections."sums.inner"]
        hash = "{hash_of("Inside.")}"
        text = "Within."
        [prompts."app/main".tools.add]
        hash = "{hash_of("Add two integers.")}"
        description = "Sum two whole numbers."
        """,
    )
    settings = Settings(prompt_overrides=file)
    with Host(discover=False, settings=settings) as host, host.executor(prompt=PROMPT) as tools:
        rendered = tools.prompt.render()

    assert "Please add numbers." in rendered.text
    assert "Within." in rendered.text
    assert [each.description for each in rendered.tools] == [
        "Sum two whole numbers.",
        "Stay as it is.",
    ]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('sections.sums]\ntext = "x"', "section 'sums' is stale"),
        ('tools.add]\ndescription = "x"', "tool 'add' is stale"),
        ('tools.fixed]\ndescription = "x"', "'fixed' accepts no overrides"),
        ('tools.gone]\ndescription = "x"', "no 'gone' to override"),
    ],
)
def test_a_stale_or_useless_override_is_reported_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str, told: str
) -> None:
    file = write(tmp_path, f'[prompts."app/main".{table}\nhash = "0"')
    with caplog.at_level(logging.WARNING):
        prompt = override(PROMPT, load_overrides(file))

    assert prompt.render() == PROMPT.render()
    assert told in caplog.text


def test_other_prompts_stay_as_they_are(tmp_path: Path) -> None:
    file = write(tmp_path, '[prompts."app/other".tools.add]\ndescription = "x"\nhash = "0"')
    assert override(PROMPT, load_overrides(file)) is PROMPT


def test_what_the_skeleton_prints_is_a_file_that_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path, "\n".join(skeleton(PROMPT)))
    same = override(PROMPT, load_overrides(file)).render()

    assert same.text == PROMPT.render().text
    assert [each.description for each in same.tools] == [add.description, fixed.description]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prompts = 3", "prompts"),
        ('[prompts."a/b".tools.x]\ndescription = "d"', "prompts.a/b.tools.x.hash"),
        ("[[", "not valid TOML"),
        ("a = " + "[" * 5_000, "not valid TOML"),
        (b"a = '\xff'", "byte 5 is not UTF-8"),
        ("prompt = {}", "did you mean 'prompts'"),
    ],
)
def test_a_wrong_file_is_told_with_its_key(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(ConfigurationError, match=r"overrides\.toml") as raised:
        load_overrides(write(tmp_path, text))
    assert told in str(raised.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_overrides(tmp_path / "none.toml")


def test_a_description_that_is_none_for_a_tool_is_refused(tmp_path: Path) -> None:
    digest = hash_of("Add two integers.")
    text = f'[prompts."app/main".tools.add]\ndescription = "{"x" * 300}"\nhash = "{digest}"'
    with pytest.raises(ConfigurationError, match=r"'add'.*300 characters"):
        override(PROMPT, load_overrides(write(tmp_path, text)))
