"""A model that calls a tool which it cannot is told why, and what to do."""

import pytest

from toolstile import Host
from toolstile.pipeline.plan import UnknownTools
from toolstile_hookspecs import (
    MarkdownSection,
    Prompt,
    Status,
    ToolCall,
    Visibility,
    hookimpl,
    tool,
)

FILES = (
    "list_directory",
    "read_file",
    "write_file",
    "edit_file",
    "delete_file",
    "copy_file",
    "move_file",
    "glob_files",
    "grep_files",
)


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("read_fil", "read_file"),
        ("readfile", "read_file"),
        ("ReadFile", "read_file"),
        ("glob_file", "glob_files"),
        ("move", "move_file"),
        ("delete", "delete_file"),
    ],
)
def test_a_slip_and_an_unfinished_name_are_answered_with_the_name(name, suggested):
    text = UnknownTools(FILES, {}).explain(name)
    assert text.startswith(f"Unknown tool {name!r}. Did you mean {suggested}")
    assert text.endswith("? Use that, then retry.")


@pytest.mark.parametrize("name", ["love", "remove", "file", "mov", "shell", "run", "m", ""])
def test_what_only_looks_a_little_alike_is_answered_with_all_names(name):
    text = UnknownTools(FILES, {}).explain(name)
    assert "Did you mean" not in text
    assert text == (
        f"Unknown tool {name!r}. The tools are: {', '.join(FILES)}. Use one of these, then retry."
    )


def test_many_names_are_counted_and_a_long_one_is_cut():
    names = tuple(f"tool_{number}" for number in range(13))
    text = UnknownTools(names, {}).explain("x" * 500)
    assert f"'{'x' * 80}...'" in text
    assert "tool_9 and 3 more. Use one of these" in text


def test_where_there_are_no_tools_that_is_said():
    assert UnknownTools((), {}).explain("a") == ("Unknown tool 'a'; no tools can be called here.")


def test_a_slip_in_the_name_of_a_summarised_tool_is_answered_with_both():
    assert UnknownTools((), {"repair": "manual.parts"}).explain("repare") == (
        "Unknown tool 'repare'. Did you mean repair? It belongs to the section "
        "'manual.parts': call open_sections with 'manual.parts', then retry with that."
    )


@tool(wire_name="doRepair")
def repair() -> str:
    """Repair it."""
    return "done"


MANUAL = MarkdownSection(
    key="manual",
    title="Manual",
    summary="How to repair things.",
    visibility=Visibility.SUMMARY,
    children=[MarkdownSection(key="parts", title="Parts", tools=[repair])],
)


@pytest.mark.parametrize("name", ["repair", "doRepair"])
def test_a_tool_of_a_summarised_section_is_answered_with_the_section_to_open(name):
    prompt = Prompt.of("tests", "main", [MANUAL])
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        outcome = tools.dispatch(ToolCall(name))
        assert outcome.status is Status.UNKNOWN_TOOL
        assert outcome.text == (
            f"{name} cannot be called yet: its section 'manual' is shown as a summary. Call "
            "open_sections with 'manual', then retry."
        )


def test_plugins_that_are_switched_off_are_named():
    class Repairs:
        @hookimpl
        def toolstile_sections(self):
            return [MarkdownSection(key="repairs", title="Repairs", tools=[repair])]

    with Host(discover=False, block=["Repairs"]) as host:
        host.register(Repairs(), "Repairs")
        with host.executor() as tools:
            text = tools.dispatch(ToolCall("repair")).text
    assert text == (
        "Unknown tool 'repair'; no tools can be called here. It may be one of a plugin that is "
        "switched off here: Repairs."
    )
    with Host(discover=False, block=["Repairs", "Tickets"]) as host:
        host.register(Repairs(), "Repairs")
        host.register(Repairs(), "Tickets")
        with host.executor() as tools:
            text = tools.dispatch(ToolCall("repair")).text
    assert text.endswith("one of plugins that are switched off here: Repairs, Tickets.")


@pytest.mark.parametrize("name", [5, None, ["add"]])
def test_what_is_no_name_is_answered_so(name):
    text = UnknownTools(FILES, {}).explain(name)
    assert text == f"Unknown tool {name!r}: a tool's name is a text. Give one, then retry."
