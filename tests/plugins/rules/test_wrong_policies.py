"""A policy that can never do what it says keeps the host from opening, of whichever kind it is.

Right tables are changed a little, in each name, type, pattern and effect, at any depth. Each of
these is refused with file, rule and remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError, Contents, TextContent, ToolCall, tool
from toolstile_plugins.rules import ProvenancePolicy

from .conftest import table


@dataclass(frozen=True)
class Card:
    """An address."""

    email: str
    phone: str = ""


@dataclass(frozen=True)
class Contact:
    """A person."""

    name: str
    card: Card


@tool
def search_contacts(name: str) -> list[Contact]:
    """Search the contacts."""
    return [Contact(name, Card(f"{name}@work.example"))]


@tool
def read_page(url: str) -> str:
    """Read a page."""
    return url


@tool
def send_email(to: list[str], body: str = "") -> str:
    """Send a mail."""
    return "sent"


@tool
def delete_email(number: int) -> str:
    """Delete a mail."""
    return "deleted"


@tool
def create_event(title: str, participants: list[str]) -> str:
    """Create an event."""
    return title


TOOLS = [search_contacts, read_page, send_email, delete_email, create_event]
RIGHT: list[dict[str, Any]] = [
    {
        "kind": "asked_for",
        "otherwise": "deny",
        "words": {"send_email": "send|e-?mail .* to", "delete_*": r"\bdelete\b"},
    },
    {
        "kind": "provenance",
        "otherwise": "ask",
        "allow": ["*@example.com"],
        "most": 1000,
        "arguments": {
            "send_*": {"to": "value", "body": "links"},
            "create_event": {"title": "words", "participants": "request"},
        },
        "trusted": {"search_contacts": ["email", "name"]},
    },
    {
        "kind": "sequential_dependency",
        "otherwise": "deny",
        "any_of": {"send_email": ["read_page", "search_*"]},
        "not_after": {"delete_*": ["read_page"], "create_event": ["read_*"]},
    },
    {
        "kind": "quota",
        "max_calls": 20,
        "scope": "session",
        "tools": ["send_*", "delete_email"],
        "per_tool": {"send_email": 3, "delete_*": 2},
    },
    {"kind": "category", "tools": {"delete_email": "deny", "send_*": "ask", "read_page": "allow"}},
]
PATTERNS = ("(", "a)", "[", "(?=a)", r"(a)\1", "", "a|", "a*", "x{9999}", r"\q")
Path_ = tuple[str | int, ...]


def is_free(path: Path_) -> bool:
    """Tell whether any text may stand at a place."""
    return path[0] == "allow"


def misspelt(name: str) -> list[str]:
    """Return names with a letter more, fewer, another, or other case."""
    changed = {f"{name}x", name[1:], f"{name[0]}{name}", name.swapcase(), f"{name[:-1]}_", ""}
    return sorted(changed - {name})


def of_another_type(value: object) -> Iterator[object]:
    """Yield values of another JSON type."""
    yield from (
        other for other in (True, 1.5, "q", [3], {"q": 3}) if type(other) is not type(value)
    )
    if isinstance(value, int):
        yield from (-1, str(value), [value])
    if isinstance(value, str):
        yield from ([value], {value: value}, 3)
    if isinstance(value, list):
        yield from (value[0], [[each] for each in value], dict.fromkeys(value, True))


def changes(value: Any, path: Path_ = ()) -> Iterator[Any]:
    """Yield a value with each change, somewhere in it."""
    if path:
        yield from of_another_type(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            for other in misspelt(key):
                yield {other if own == key else own: each for own, each in value.items()}
            for changed in changes(inner, (*path, key)):
                yield {**value, key: changed}
    elif isinstance(value, list):
        yield from ([] for _ in value[:1] if not is_free(path))
        for place, inner in enumerate(value):
            for changed in changes(inner, (*path, place)):
                yield [*value[:place], changed, *value[place + 1 :]]
    elif isinstance(value, str) and not is_free(path):
        yield from PATTERNS if path[0] == "words" else misspelt(value)


def wrong_policies() -> Iterator[dict[str, Any]]:
    """Yield each right policy with each change."""
    for rule in RIGHT:
        yield from changes(rule)
        if "otherwise" in rule:
            yield from ({**rule, "otherwise": each} for each in ("allow", "DENY", "dney", "asks"))
        for key, wrong in (("users", "ann"), ("groups", [3]), ("shadow", "yes"), ("users", [])):
            yield {**rule, key: wrong}
        yield {**rule, "effect": "deny"}
        yield {**rule, "when": "true"}


WRONG = list({repr(each): each for each in wrong_policies()}.values())


def test_there_are_enough_of_them():
    kinds = [each.get("kind") for each in WRONG]
    assert len(WRONG) >= 300
    assert min(kinds.count(each["kind"]) for each in RIGHT) >= 40


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the host says to a policy, None where it opens."""
    file = tmp_path_factory.mktemp("wrong") / "toolstile.toml"

    def told(rule: Mapping[str, Any]) -> str | None:
        lines = table(rule).splitlines(keepends=True)
        # It is of the kind `rule` where it says no other; here it says none.
        file.write_text("".join(lines if "kind" in rule else [lines[0], *lines[2:]]))
        try:
            with Host(config=file, discover={"rules", "policies"}, tools=TOOLS):
                return None
        except ConfigurationError as error:
            return str(error)

    return told


@pytest.mark.parametrize("rule", RIGHT, ids=lambda rule: rule["kind"])
def test_right_policies_are_taken(opened, rule):
    assert opened(rule) is None


@tool
def look_up(name: str) -> dict[str, str]:
    """Look somebody up."""
    return {"email": f"{name}@work.example"}


@tool
def look_up_all(name: str) -> list[Any]:
    """Look several people up."""
    return [{"email": f"{name}@work.example"}]


@tool
def show_cards(name: str) -> Contents:
    """Show cards, as the tool of a server does."""
    return Contents((TextContent(name),), structured={"email": f"{name}@work.example"})


@pytest.mark.parametrize("own", [look_up, look_up_all, show_cards], ids=lambda own: own.name)
def test_a_result_that_may_have_any_fields_may_have_a_trusted_one(own):
    arguments = {"send_email": {"to": "value"}}
    policy = ProvenancePolicy(arguments=arguments, trusted={own.name: ("email",)}, otherwise="deny")
    with (
        Host(discover=False, policies=[policy], tools=[*TOOLS, own]) as host,
        host.executor(request="Look ann up.") as tools,
    ):
        assert tools.dispatch(ToolCall(own.name, {"name": "ann"})).success
        assert tools.dispatch(ToolCall("send_email", {"to": ["ann@work.example"]})).success


@pytest.mark.slow
@pytest.mark.much_alike(3)
@pytest.mark.parametrize("rule", WRONG, ids=repr)
def test_wrong_policies_are_refused_with_file_rule_and_remedy(opened, rule):
    told = opened(rule)
    assert told is not None
    assert "toolstile.toml" in told
    assert re.search(r"number 1\b|'\w+@host#1'|policies\[0\]", told)
    assert "Traceback" not in told


def test_words_of_an_argument_that_is_never_a_text_are_refused():
    @tool
    def reserve(hotel: str, rooms: int) -> str:
        """Reserve rooms."""
        return hotel

    policy = {"kind": "provenance", "arguments": {"reserve": {"rooms": "words"}}}
    with pytest.raises(
        ConfigurationError, match="'rooms' of 'reserve' by 'words', and it is never"
    ):
        Host(settings=Settings(policies=[policy]), tools=[reserve]).open()


def test_values_of_an_argument_that_is_only_true_or_false_are_refused():
    @tool
    def push(branch: str, force: bool = False) -> str:
        """Push a branch."""
        return branch

    policy = {"kind": "provenance", "arguments": {"push": {"force": "value"}}}
    with pytest.raises(ConfigurationError, match="'force' of 'push' by 'value', and it is never"):
        Host(settings=Settings(policies=[policy]), tools=[push]).open()


def test_a_name_that_no_tool_has_is_told_once(opened):
    told = opened({"kind": "category", "tools": {"delete_mail": "deny"}})
    assert told is not None
    assert told.count("'delete_mail'") == 1
