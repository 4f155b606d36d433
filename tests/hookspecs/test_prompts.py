"""Sections bundle guidance and tools; prompts are trees of them."""

import re
from dataclasses import dataclass

import pytest

from toolstile_hookspecs import (
    DefinitionError,
    MarkdownSection,
    Prompt,
    PromptValidationError,
    Section,
    Tool,
)

ping = Tool[None, None](name="ping", description="Ping.")
pong = Tool[None, None](name="pong", description="Pong.")


def section(key="a", **rest):
    return MarkdownSection(**{"key": key, "title": key.upper(), "template": "Text."} | rest)


def prompt(*sections):
    return Prompt.of("demo", "main", sections)


def test_a_prompt_renders_its_tree_with_headings_by_depth():
    tree = prompt(section("a", children=[section("b", template="")]), section("c"))
    assert tree.render().text == "# A\n\nText.\n\n## B\n\n# C\n\nText."


def test_a_prompt_without_a_key_is_told_how_one_is_written():
    with pytest.raises(DefinitionError, match=r"key is \(Markdown.*; write Prompt\.of\(ns, key"):
        Prompt.of("demo", [section()])
    with pytest.raises(DefinitionError, match="ns is MarkdownSection"):
        Prompt.of(section(), "main")


def test_headings_are_never_deeper_than_six():
    tree = section("z")
    for _ in range(8):
        tree = section("y", children=[tree])
    assert "\n###### Z" in prompt(tree).render().text


def test_tools_come_in_order_from_enabled_sections():
    off = section("off", tools=[ping], enabled=lambda session: False, children=[section("x")])
    tree = prompt(section("a", tools=[pong], children=[section("b", tools=[ping])]), off)
    assert tree.render().tools == (pong, ping)
    assert "OFF" not in tree.render().text


def test_placeholders_are_filled_from_a_mapping_or_a_dataclass():
    @dataclass
    class Who:
        name: str

    greeting = prompt(section("a", template="Hello ${name}, $$5."))
    assert "Hello Ada, $5." in greeting.bind({"name": "Ada"}).render().text
    assert "Hello Bob, $5." in greeting.bind(Who("Bob")).render().text
    assert greeting.params == {}


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        (3, "Resources: 3 is not a Binding; write Binding(Type, provider) or"),
        (None, "Resources: None is not"),
        ("ab", "Resources: 'ab' is not"),
        ({"ab": 1}, "Binding for 'ab': resources are asked for by their type"),
    ],
)
def test_what_cannot_be_bound_is_refused_where_it_is_given(resources, told):
    with pytest.raises(DefinitionError, match=re.escape(told)):
        Prompt.of("demo", "main").bind(resources=resources)


def test_binding_can_add_sections():
    assert [
        each.section.key for each in prompt(section("a")).bind(sections=[section("b")]).places()
    ] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("template", ["$missing", "100 $"])
def test_a_placeholder_without_a_value_is_told_with_the_remedy(template):
    with pytest.raises(PromptValidationError, match=r"Section 'a': .*write \$\$ for a dollar sign"):
        prompt(section("a", template=template)).render()


@pytest.mark.parametrize("ask", [Prompt.render, Prompt.tools, lambda tree: list(tree.places())])
def test_a_section_that_cannot_tell_whether_it_is_enabled_is_named(ask):
    inner = section("inner", enabled=lambda session: session["role"] == "admin")
    with pytest.raises(PromptValidationError) as raised:
        ask(prompt(section("a", children=[inner])))

    assert str(raised.value) == (
        "Section 'a.inner' cannot tell whether it is part of the prompt: its `enabled` raised "
        "TypeError ('NoneType' object is not subscriptable). Fix it; without a session it is "
        "given None."
    )


def test_what_keeps_a_section_from_telling_is_quoted_without_its_full_stop():
    def raising(session):
        raise LookupError("No session.")

    with pytest.raises(PromptValidationError, match=r" raised LookupError \(No session\)\. Fix"):
        prompt(section("a", enabled=raising)).render()


def test_a_tool_twice_is_told_with_both_places():
    with pytest.raises(PromptValidationError, match="'ping' stands in section 'a' and in 'b'"):
        prompt(section("a", tools=[ping]), section("b", tools=[ping])).render()
    with pytest.raises(PromptValidationError, match="'ping' stands twice in section 'a'"):
        prompt(section("a", tools=[ping, ping])).render()


def test_a_key_twice_among_siblings_is_refused():
    with pytest.raises(PromptValidationError, match="'a' stands twice"):
        prompt(section("a"), section("a")).render()
    assert prompt(section("a", children=[section("a")])).render()


@pytest.mark.parametrize("name", ["tools", "policies", "resources", "children"])
def test_what_a_section_has_several_of_is_given_as_several(name):
    with pytest.raises(
        DefinitionError, match=rf"Section 'a': {name} is not several; .*=\[\.\.\.\]"
    ):
        section("a", **{name: object()})


def test_a_section_needs_a_key_and_a_title_and_tools_that_are_tools():
    for wrong in ({"key": ""}, {"title": " "}):
        with pytest.raises(DefinitionError, match="both a key and a title"):
            section(**wrong)
    with pytest.raises(DefinitionError, match="is not a Tool; decorate it with @tool"):
        section(tools=[print])


def test_what_is_of_another_kind_is_refused_where_the_section_is_made(subtests):
    for fields, told in [
        ({"key": b"a", "title": "A"}, "key is b'a': input should be a valid string"),
        ({"title": None}, "title is None: input should be a valid string"),
        ({"template": None}, "template is None: input should be a valid string"),
        ({"summary": 3}, "summary is 3: input should be a valid string"),
        ({"enabled": True}, "enabled is True: input should be callable"),
        (
            {"enabled": lambda: True},
            "enabled does not take the session",
        ),
        ({"on_session": "setup"}, "on_session is 'setup': input should be callable"),
        (
            {"resources": {str: "x"}},
            (
                "<class 'str'> is not a Binding; "
                "write Binding(Type, provider) or Binding.instance(Type, value)"
            ),
        ),
        ({"accepts_overrides": "no"}, "accepts_overrides is 'no': input should be a valid boolean"),
        ({"visibility": "all"}, "visibility is 'all': input should be an instance of Visibility"),
        (
            {"template": 1, "visibility": None},
            (
                "template is 1: input should be a valid string; visibility is None: input should "
                "be an instance of Visibility"
            ),
        ),
        (
            {"title": 1, "tools": 2},
            (
                "title is 1: input should be a valid string; tools is not several; write a list, "
                "tools=[...]"
            ),
        ),
    ]:
        with subtests.test(fields=fields, told=told):
            with pytest.raises(DefinitionError) as raised:
                section(**fields)
            assert str(raised.value) == f"Section {fields.get('key', 'a')!r}: {told}."


def test_setup_is_what_the_author_gave():
    seen = []
    section(on_session=seen.append).setup("session")
    section().setup("session")
    assert seen == ["session"]


def test_any_object_of_the_form_is_a_section():
    own: Section = section()
    assert own.is_enabled(None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([ping], r"'ping' is a tool, and belongs into a section: MarkdownSection\(key="),
        (MarkdownSection(key="a", title="A"), r"in a list; write \[\.\.\.\] around it"),
        (3, r"in a list; write \[\.\.\.\] around it"),
        ([3], "3 is not a section; write MarkdownSection"),
    ],
)
def test_what_is_no_section_is_refused_where_it_is_given(given, told):
    with pytest.raises(DefinitionError, match=f"Prompt demo:main: .*{told}"):
        Prompt.of("demo", "main", given)
    with pytest.raises(DefinitionError, match=f"Prompt demo:main: .*{told}"):
        Prompt.of("demo", "main").bind(sections=given)
    with pytest.raises(DefinitionError, match="Section 'outer': "):
        MarkdownSection(key="outer", title="Outer", children=given)


@pytest.mark.parametrize("given", [None, 3])
def test_a_prompts_policies_are_given_as_several(given):
    with pytest.raises(DefinitionError) as raised:
        Prompt.of("demo", "main", policies=given)
    assert str(raised.value) == (
        "Prompt demo:main: policies is not several; write a list, policies=[...]."
    )


@pytest.mark.parametrize("given", [3, "Ada", dict])
def test_what_no_placeholder_could_be_filled_from_is_refused(given):
    with pytest.raises(DefinitionError) as raised:
        Prompt.of("demo", "main").bind(given)
    assert str(raised.value) == (
        f"Prompt demo:main: {given!r} has no fields that could fill placeholders; give a mapping, "
        "a dataclass or a model."
    )
