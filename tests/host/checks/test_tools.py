"""The faults that `toolstile check` finds in tools."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field

from toolstile_cli.lint.contributions import tool_findings
from toolstile_hookspecs import Tool, ToolContext, ToolResult, tool


class Described(BaseModel):
    """Where something is sent."""

    street: str


class Renamed(BaseModel):
    size: int = Field(2, serialization_alias="sz")


class Bare(BaseModel):
    street: str


@dataclass
class Tree:
    child: "Tree | None" = None


def found_with(kind):
    @tool
    def send(to: kind) -> None:
        """Send something."""

    return [finding.text for finding in tool_findings([send], {}, {"send"})]


@pytest.mark.parametrize("kind", [Described, Described | None, Described | Bare])
def test_an_argument_is_described_by_the_type_that_it_refers_to(kind):
    assert found_with(kind) == []


@pytest.mark.parametrize("kind", [str, str | None, Bare, Bare | None, list[Described], Tree])
def test_an_argument_of_which_nothing_is_said_is_named(kind):
    (cause,) = found_with(kind)
    assert cause == "Its argument to has no description; a model must guess the values."


def test_what_a_docstring_describes_under_another_name_is_told_beside_it():
    @tool
    def send(text: str, *, context: ToolContext) -> None:
        """Send something.

        Args:
            txt: What to send.
            context: The call's context.
        """

    (finding,) = tool_findings([send], {}, {"send"})
    assert finding.text == (
        "Its argument text has no description; the docstring describes txt, which it does not "
        "take; a model must guess the values."
    )


def test_of_a_tool_that_is_no_function_only_its_schema_is_looked_at():
    @dataclass
    class Letter:
        text: str

    def send(params: Letter, *, context: ToolContext) -> ToolResult[None]:
        """Send something.

        Args:
            txt: What to send.
        """
        raise AssertionError

    made = Tool[Letter, None](name="send", description="Send.", handler=send)
    (finding,) = tool_findings([made], {}, {"send"})
    assert finding.text.startswith("Its argument text has no description; a model")


def test_a_result_that_is_not_read_from_its_own_json_is_found():
    @tool
    def measure() -> Renamed:
        """Measure something."""
        return Renamed()

    (finding,) = tool_findings([measure], {}, {"measure"})
    assert finding.text == (
        "Its result cannot be read from the JSON that it is written as, so it cannot be recorded "
        "or replayed: size of Renamed is written as 'sz', and read as 'size'."
    )
    assert finding.remedy == "Give it one name for both, Field(alias=...)."


@pytest.mark.parametrize(("contained", "count"), [(True, 0), (None, 1), (False, 1)])
def test_a_tool_that_claims_more_than_one_that_it_calls_is_named(contained, count):
    @tool(category="write", contained=contained)
    def charge() -> None:
        """Charge a card."""

    @tool(category="write", contained=True, depends_on=("charge>=1",))
    def pay() -> None:
        """Pay."""

    found = list(tool_findings([pay, charge], {}, {"pay", "charge"}))
    told = "A rollback undoes all of it, it says, and it calls charge, which does not say so."
    assert [(finding.subject, finding.text) for finding in found] == [("tool pay", told)] * count
