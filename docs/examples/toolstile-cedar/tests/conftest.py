"""Tools, rules over them, and users: what the tests of this package share."""

import json

import pytest
import toolstile_cedar
from toolstile_cedar import CedarPolicy

from toolstile_hookspecs import tool

RULES = """\
// Rules; of a shop.
@id("readers")
permit (principal, action in Action::"read", resource);

@id("small refunds")
permit (principal in Group::"support", action == Action::"refund", resource)
when { context.params.cents <= 5000 };

@ask("A refund of more than 50 euros.")
permit (principal in Group::"support", action == Action::"refund", resource)
when { context.params.cents > 5000 };

permit (principal in Group::"support", action in Action::"delete", resource);
@id("deletions") @ask("Deletions are for good.")
forbid (principal, action in Action::"delete", resource);

@id("no secrets") @advice("Ask for another file, then retry.")
forbid (principal, action, resource)
when { context.params has path && context.params.path like "secret/*" };
"""
PEOPLE = [
    {
        "uid": {"type": "User", "id": "ann"},
        "attrs": {},
        "parents": [{"type": "Group", "id": "support"}],
    },
    {"uid": {"type": "User", "id": "bob"}, "attrs": {}, "parents": []},
    {"uid": {"type": "Tool", "id": "weigh"}, "attrs": {"owner": "bob"}, "parents": []},
]


@tool(category="read", consequence="low")
def read_note(path: str, lines: int | None = None) -> str:
    """Read a note."""
    return f"{path}: {lines}"


@tool(category="side_effect", consequence="high", tags=("money",))
def refund(cents: int) -> str:
    """Give money back."""
    return f"{cents} given back"


@tool(category="delete", consequence="high")
def delete_note(path: str) -> str:
    """Delete a note."""
    return f"{path} is gone"


@tool(category="write", consequence="low")
def weigh(grams: float, labels: list[str | None] | None = None) -> str:
    """Write a weight down."""
    return f"{grams} {labels}"


TOOLS = (read_note, refund, delete_note, weigh)


@pytest.fixture
def policy_of(tmp_path):
    """Makes a policy of rules, entities and a schema."""

    def make(rules=RULES, entities=PEOPLE, schema=None, **options):
        (tmp_path / "rules.cedar").write_text(rules, encoding="utf-8")
        (tmp_path / "people.json").write_text(json.dumps(entities), encoding="utf-8")
        if schema is not None:
            options["schema"] = tmp_path / "shop.cedarschema"
            options["schema"].write_text(schema, encoding="utf-8")
        return CedarPolicy(
            policies=[tmp_path / "rules.cedar"],
            entities=tmp_path / "people.json",
            name="cedar",
            **options,
        )

    return make


@pytest.fixture
def open_tools(toolstile_tools, policy_of):
    """Opens tools under a policy."""

    def make(*rules, user_id=None, auth=None, approver=None, clock=None, **options):
        policy = policy_of(*rules, **options)
        host = {"approver": approver} if approver is not None else {}
        return toolstile_tools(
            toolstile_cedar, *TOOLS, policies=[policy], user_id=user_id, auth=auth, **host
        )

    return make
