"""`toolstile policy explain` tells of each policy on a call what it says, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolstile_cli.main import main

PLUGIN = '''
from dataclasses import dataclass
from typing import Any

from toolstile_hookspecs import MarkdownSection, PolicyDecision, hookimpl, tool

RAN = []


@tool(category="side_effect", requires_confirmation=True)
def shred(name: str) -> str:
    """Shred a letter."""
    RAN.append(name)
    return "shredded"


@tool(category="side_effect")
def post(to: str, pages: int = 1) -> str:
    """Post a letter."""
    RAN.append(to)
    return "posted"


@dataclass(frozen=True)
class Moody:
    """A policy of somebody's, which may wait."""

    name: str = ""
    mood: str = "good"
    silence: str = "of its own"

    async def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        if self.mood == "broken":
            raise RuntimeError("no mood")
        if self.mood == "bad":
            return PolicyDecision.deny("Not in this mood.")
        return PolicyDecision.allow()

    async def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        raise AssertionError("nothing has run")


@hookimpl
def toolstile_policies():
    return {"moody": Moody}


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="letters", title="Letters", tools=[post, shred])]
'''
TABLES = """
[[policies]]
kind = "rule"
name = "pages"
when = "args.pages > 3"
effect = "ask"
reason = "Long letters need a person."
[[policies]]
kind = "rule"
name = "names"
when = "args.name == 'will'"
effect = "deny"
[[policies]]
kind = "rule"
name = "home"
tools = ["post"]
when = "args.to == 'home'"
effect = "allow"
[[policies]]
kind = "rule"
name = "of staff"
groups = ["staff"]
effect = "deny"
reason = "Not for staff."
[[policies]]
kind = "rule"
name = "tried out"
shadow = true
effect = "deny"
reason = "Nobody posts."
[[policies]]
kind = "asked_for"
name = "asked"
words = {post = "post"}
otherwise = "deny"
[[policies]]
kind = "provenance"
name = "whence"
arguments = {post = {to = "value"}}
[[policies]]
kind = "category"
name = "kinds"
category = {side_effect = "ask"}
[[policies]]
kind = "quota"
name = "stamps"
max_calls = 0
tools = ["post"]
[[policies]]
kind = "rate_limit"
name = "rate"
max_calls_per_minute = 1
[[policies]]
kind = "sequential_dependency"
name = "order"
dependencies = {post = ["shred"]}
[[policies]]
kind = "budget"
name = "purse"
least = 5
[[policies]]
kind = "moody"
name = "moody"
"""


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    (tmp_path / "letters.py").write_text(PLUGIN)

    def run(tables: str, *arguments: str) -> dict[str, dict[str, Any]]:
        file = tmp_path / "toolstile.toml"
        file.write_text(tables)
        given = ["--config", str(file), "--plugin", str(tmp_path / "letters.py")]
        status = main(["policy", "explain", *arguments, "--json", *given])
        out = capsys.readouterr().out
        found = json.loads(out)
        found["status"] = status
        found["by"] = {each["policy"]: each for each in found["policies"]}
        main(["policy", "explain", *arguments, *given])
        found["shown"] = capsys.readouterr().out
        return found

    return run


def tables(*names: str) -> str:
    """Return the tables of these policies."""
    parts = TABLES.split("[[policies]]")[1:]
    return "".join(f"[[policies]]{part}" for part in parts if any(f'"{n}"' in part for n in names))


def test_each_kind_is_named_with_what_it_says_and_why(explain):
    found = explain(TABLES, "post", '{"to": "home", "pages": 4}', "--request", "Post it home.")
    said = {name: each["says"] for name, each in found["by"].items()}
    assert said == {
        "pages": "ask",
        "names": None,
        "home": "allow",
        "of staff": "deny",
        "tried out": "deny",
        "asked": None,
        "whence": None,
        "kinds": "ask",
        "stamps": None,
        "rate": None,
        "order": "deny",
        "purse": None,
        "moody": None,
    }
    assert found["verdict"] == "deny"
    assert found["status"] == 0
    assert found["by"]["pages"]["why"] == "Long letters need a person."
    assert found["by"]["tried out"]["shadow"]
    assert found["by"]["stamps"]["why"] == "It counts the call once nothing else is against it."
    assert "deny (shadow)" in found["shown"]
    assert "post: deny" in found["shown"]


def test_a_silent_rule_tells_why(explain):
    found = explain(tables("pages", "names", "home"), "post", '{"to": "ann"}')
    assert {name: each["why"] for name, each in found["by"].items()} == {
        "pages": "It does not hold: args.pages > 3",
        "names": "It reads args.name, which post does not have.",
        "home": "It does not hold: args.to == 'home'",
    }
    assert found["verdict"] == "allow"


def test_a_policy_on_other_tools_is_not_named(explain):
    found = explain(tables("home", "asked", "kinds", "order"), "shred", '{"name": "a"}')
    assert set(found["by"]) == {"kinds", "requires_confirmation"}
    assert found["verdict"] == "ask"


def test_whom_the_call_runs_for_counts(explain):
    given = ("post", '{"to": "ann"}', "--user", "bob")
    others = explain(tables("of staff"), *given)
    assert others["by"]["of staff"]["says"] is None
    assert others["by"]["of staff"]["why"] == "It decides for other users or groups."
    assert explain(tables("of staff"), *given, "--group", "staff")["verdict"] == "deny"


def test_the_request_counts(explain):
    call = ("post", '{"to": "ann"}')
    assert explain(tables("asked"), *call)["verdict"] == "deny"
    assert explain(tables("asked"), *call, "--request", "Post it.")["verdict"] == "allow"


def test_a_limit_that_is_used_up_says_so(explain):
    found = explain(tables("stamps", "rate"), "post", '{"to": "ann"}')
    assert (found["by"]["stamps"]["says"], found["by"]["rate"]["says"]) == ("deny", None)
    assert found["by"]["stamps"]["why"].startswith("Quota exceeded: 0 of 0 calls")


def test_what_is_denied_by_default_says_so(explain):
    found = explain('[policy]\ndefault = "deny"\n', "post", '{"to": "ann"}')
    assert found["by"]["policy.default"]["says"] == "deny"
    allowed = '[policy]\ndefault = "deny"\n' + tables("home")
    assert explain(allowed, "post", '{"to": "home"}')["verdict"] == "allow"


def test_a_strangers_policy_is_named_also_where_it_fails(explain):
    bad = tables("moody") + 'mood = "bad"\n'
    assert explain(bad, "post", '{"to": "a"}')["by"]["moody"]["why"] == "Not in this mood."
    broken = explain(tables("moody") + 'mood = "broken"\n', "post", '{"to": "a"}')
    assert broken["by"]["moody"]["says"] == "deny"
    assert "could not decide" in broken["by"]["moody"]["why"]


@pytest.mark.parametrize("arguments", [("posst",), ("post", "{"), ("post", "{}")])
def test_what_is_no_call_is_not_explained(explain, arguments):
    found = explain(tables("home"), *arguments)
    assert (found["verdict"], found["status"], found["policies"]) == ("not judged", 1, [])
    assert "post" in found["shown"] or "arguments" in found["shown"]
