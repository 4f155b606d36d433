"""Every kind of policy rules calls in the same way, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .conftest import table
from .ways import PROCESSES, WAYS, Call

REQUEST = "Pay ann@work.example 10, please."


class Case(NamedTuple):
    """Rules, and calls that come in order: those that pass, and those that are denied, and why."""

    rules: Sequence[Mapping[str, Any]]
    calls: Sequence[tuple[Call, str | None]]


def pay(amount: float, to: str = "ann@work.example") -> Call:
    return "pay", {"to": to, "amount": amount}


def send(to: str) -> Call:
    return "send_email", {"recipients": [to]}


SEARCH: Call = ("search_contacts", {"name": "bob"})
READ: Call = ("read_page", {"url": "a.example"})
CASES = {
    "rule": Case(
        [{"tools": ["pay"], "when": "args.amount > 500", "effect": "deny", "reason": "Too much."}],
        [(pay(10), None), (pay(501), "Too much."), (pay(500), None)],
    ),
    "rule on the request": Case(
        [
            {
                "tools": ["send_email", "pay"],
                "when": "!request.exists(said, tool.name in words(said))",
                "effect": "deny",
                "reason": "Nobody asked for it.",
            }
        ],
        [(pay(10), None), (send("ann@work.example"), "Nobody asked for it.")],
    ),
    "asked_for": Case(
        [
            {
                "kind": "asked_for",
                "words": {"pay": "pay", "send_*": "send|write"},
                "otherwise": "deny",
            }
        ],
        [(pay(10), None), (send("ann@work.example"), "the request does not ask for it")],
    ),
    "provenance": Case(
        [
            {
                "kind": "provenance",
                "arguments": {"send_email": {"recipients": "value"}, "pay": {"to": "request"}},
                "trusted": {"search_contacts": ["email"]},
                "otherwise": "deny",
            }
        ],
        [
            (pay(10), None),
            (pay(10, "carl@work.example"), "comes from neither"),
            (send("eve@work.example"), "comes from neither"),
            (SEARCH, None),
            (send("bob@work.example"), None),
            (send("note@evil.example"), "comes from neither"),
            (pay(10, "bob@work.example"), "comes from neither"),
        ],
    ),
    "sequential_dependency, any of several": Case(
        [{"kind": "sequential_dependency", "any_of": {"send_email": ["read_page", "search_*"]}}],
        [
            (send("ann@work.example"), "call read_page or search_* first"),
            (pay(10), None),
            (SEARCH, None),
            (send("ann@work.example"), None),
        ],
    ),
    "sequential_dependency, not after another": Case(
        [
            {
                "kind": "sequential_dependency",
                "not_after": {"send_*": ["read_page"]},
                "otherwise": "deny",
            }
        ],
        [
            (SEARCH, None),
            (send("ann@work.example"), None),
            (READ, None),
            (send("ann@work.example"), "cannot be called after read_page"),
            (pay(10), None),
        ],
    ),
    "quota": Case(
        [{"kind": "quota", "per_tool": {"pay": 2}}],
        [(pay(1), None), (pay(2), None), (pay(3), "Quota exceeded"), (SEARCH, None)],
    ),
    "category": Case(
        [{"kind": "category", "tools": {"send_*": "deny", "pay": "allow"}}],
        [(pay(1), None), (send("ann@work.example"), "are not allowed")],
    ),
}
DONE = {
    "pay": "Paid",
    "send_email": "Sent to",
    "search_contacts": "work.example",
    "read_page": "says",
}
everywhere = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.slow if way in PROCESSES else ()) for way in WAYS],
)


def check(folder: Path, way: str, case: Case, text: str = "") -> None:
    config = folder / "toolstile.toml"
    config.write_text(text + "".join(map(table, case.rules)))
    texts = WAYS[way](config, REQUEST, [call for call, _ in case.calls])
    assert len(texts) == len(case.calls)
    for told, ((name, _), why) in zip(texts, case.calls, strict=True):
        assert (why or DONE[name]) in told
        assert (why is None) is (DONE[name] in told)


@everywhere
@pytest.mark.parametrize("kind", CASES)
def test_a_kind_rules_calls_that_come_in_a_way(tmp_path: Path, way: str, kind: str):
    check(tmp_path, way, CASES[kind])


@everywhere
def test_what_no_rule_allows_is_denied(tmp_path: Path, way: str):
    allowed = {"in_turn*": "allow", "look": "allow", "search_contacts": "allow"}
    if not way.startswith(("nested", "as_a")):
        del allowed["in_turn*"]
    rules = [
        {"kind": "category", "tools": allowed},
        {"tools": ["pay"], "when": "args.amount <= 10", "effect": "allow"},
    ]
    none = "no rule allows it"
    calls = [(SEARCH, None), (pay(10), None), (pay(11), none), (send("a@b.example"), none)]
    check(tmp_path, way, Case(rules, calls), '[policy]\ndefault = "deny"\n')
