"""What `toolyard check` finds in tools."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from toolyard.checks.tools import tool_findings
from toolyard_hookspecs import tool


class Described(BaseModel):
    """Where something is sent."""

    street: str


class Bare(BaseModel):
    street: str


@dataclass
class Tree:
    child: "Tree | None" = None


def found_with(kind):
    @tool
    def send(to: kind) -> None:
        """Send something."""

    return [finding.cause for finding in tool_findings([send], {}, {"send"})]


@pytest.mark.parametrize("kind", [Described, Described | None, Described | Bare])
def test_an_argument_is_described_by_the_type_that_it_refers_to(kind):
    assert found_with(kind) == []


@pytest.mark.parametrize("kind", [str, str | None, Bare, Bare | None, list[Described], Tree])
def test_an_argument_of_which_nothing_is_said_is_named(kind):
    (cause,) = found_with(kind)
    assert cause == "Its argument to has no description; a model has to guess what to give."
