"""A rule that can never do what it says keeps the host from opening.

Right rules are changed a little, in each name, type, path, operator and effect. Each of these is
refused with file, rule and remedy; or it means the same for every call there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.diagnostics import is_notice

from .conftest import Office

RIGHT: list[dict[str, Any]] = [
    {"tools": ["pay"], "when": "args.amount > 500", "effect": "deny"},
    {"tools": ["pay"], "when": "args.memo == 'gift' && args.amount >= 10.5", "effect": "ask"},
    {"tools": ["write_note"], "when": "path(args.path).startsWith('etc/')", "effect": "ask"},
    {"tools": ["read_note"], "when": "args.path.matches('^etc/.*$')", "effect": "deny"},
    {"tools": ["fetch"], "when": "host(args.url) != 'example.com'", "effect": "deny"},
    {"tools": ["send_email"], "when": "args.to.exists(one, mail_host(one) != 'x.com')"},
    {"tools": ["send_email"], "when": "args.cc != null && size(args.cc) > 3", "effect": "deny"},
    {"tools": ["send_email"], "when": "args.priority == 'high' && args.to.size() > 5"},
    {"tools": ["order"], "when": "args.urgent && args.lines.all(line, line.count < 3)"},
    {"tools": ["order"], "when": "args.lines.exists(line, line.article == 'bolt')"},
    {"tools": ["upload"], "when": "has(args.size) && args.size > 1000", "effect": "deny"},
    {"tools": ["upload"], "when": "has(args.owner) && args.owner.id == 'eve'"},
    {"tools": ["pay"], "when": "double(args.amount) * 1.2 > 600.0", "effect": "deny"},
    {"tools": ["order"], "when": "args.urgent ? size(args.lines) > 3 : size(args.lines) > 9"},
    {"tools": ["pay"], "when": "args.amount > 5 && session.count('fetch') >= 3"},
    {"when": "tool.category == 'write' && now.getHours() >= 18", "effect": "ask"},
    {"when": "'staff' in principal.groups && principal.id != 'eve'", "effect": "ask"},
    {"when": "request.exists(said, said.contains('send'))", "effect": "ask"},
]
_WORD = re.compile(r"(?<!['\w])[A-Za-z_]\w*(?![\w'])")
_KEPT = {"has", "null", "one", "line", "said", "exists", "all", "true"}
_TEXT = re.compile(r"(?<=[=(,] )'[^']*'|(?<=\()'[^']*'")
_NUMBER = re.compile(r"(?<= )\d+(?:\.\d+)?")


def misspelt(when: str) -> Iterator[str]:
    """Yield expressions in which one name has a letter more, fewer, another, or other case."""
    texts = [found.span() for found in _TEXT.finditer(when)]
    for found in _WORD.finditer(when):
        if any(start < found.start() < end for start, end in texts):
            continue
        name = found[0]
        changed = [f"{name}x", name[1:], f"{name[0]}{name}", name.swapcase(), f"{name[:-1]}_"]
        # The name of an item is free, where it is given; all else is somebody's.
        for other in changed if name not in _KEPT else ():
            yield f"{when[: found.start()]}{other or 'q'}{when[found.end() :]}"


def of_another_type(when: str) -> Iterator[str]:
    """Yield expressions in which one literal has another JSON type."""
    for pattern, others in ((_TEXT, ("3", "true", "['a']")), (_NUMBER, ("'3'", "true", "[3]"))):
        for found in pattern.finditer(when):
            for other in others:
                yield f"{when[: found.start()]}{other}{when[found.end() :]}"


def of_another_operator(when: str) -> Iterator[str]:
    """Yield expressions with an operator that CEL does not have, or that has no place there."""
    for old, new in ((" > ", " => "), (" == ", " = "), (" && ", " & "), (" && ", " and ")):
        if old in when:
            yield when.replace(old, new, 1)
    for old, new in ((" >= ", " =+ "), (" != ", " <> "), (" > ", " >> "), (" == ", " === ")):
        if old in when:
            yield when.replace(old, new, 1)
    yield from (f"({when}", f"{when})", f"{when} &&", f"{when}; true", f"size({when}) > 0")
    yield from (f"({when}) + 1", f"-({when})", f"{when} ? 1 : 2", f"'{when.replace(chr(39), '')}'")


def unguarded(when: str) -> Iterator[str]:
    """Yield expressions without the test whether an argument is there, or without `double`."""
    if "double(" in when:
        yield re.sub(r"double\((.*?)\)", r"\1", when)
    for guard in (r"has\([a-z.]+\) && ", r"[a-z.]+ != null && "):
        if re.search(guard, when):
            yield re.sub(guard, "", when)
            yield re.sub(guard, lambda found: found[0].replace("&&", "||"), when)


def wrong_rules() -> Iterator[dict[str, Any]]:
    """Yield each right rule with each change."""
    for rule in ({"effect": "deny", **each} for each in RIGHT):
        when = rule["when"]
        for change in (misspelt, of_another_type, of_another_operator, unguarded):
            yield from ({**rule, "when": each} for each in change(when))
        for effect in ("dny", "DENY", "", "denied", 1, True):
            yield {**rule, "effect": effect}
        for key in rule:
            yield {f"{own}x" if own == key else own: each for own, each in rule.items()}
        if "tools" in rule:
            yield {**rule, "tools": [f"{rule['tools'][0]}s"]}
            yield {**rule, "tools": []}
            yield {**rule, "tools": [3]}
            yield {**rule, "tools": ["tidy"]} if "path" not in when else {**rule, "tools": ["pay"]}
        yield {**rule, "tags": ["letters"]}
        yield {**rule, "category": ["deleted"]}
        yield {**rule, "root": "/nowhere/at/all"}


WRONG = list({repr(each): each for each in wrong_rules()}.values())


def test_there_are_enough_of_them():
    assert len(WRONG) >= 300


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the host says to a rule, None where it opens."""
    folder = tmp_path_factory.mktemp("wrong")

    def told(rule: dict[str, Any]) -> str | None:
        with ExitStack() as stack:
            try:
                Office("sync", folder, stack).open(rule, discover={"rules"})
            except ConfigurationError as error:
                return str(error)
        return None

    return told


def test_right_rules_are_taken(opened, subtests):
    for rule in RIGHT:
        with subtests.test(rule=rule):
            assert opened({"effect": "deny", **rule}) is None


@pytest.mark.slow
@pytest.mark.much_alike(3)
@pytest.mark.parametrize("rule", WRONG, ids=repr)
def test_wrong_rules_are_refused_with_file_rule_and_remedy(opened, rule):
    told = opened(rule)
    assert told is not None
    assert "toolstile.toml" in told
    assert "number 1" in told or "'rule@host#1'" in told
    assert "Traceback" not in told


NEVER_GIVEN = [
    ("fetch", "host(args.url) == 'https://example.com'"),
    ("fetch", "host(args.url) != 'Example.com'"),
    ("fetch", "host(args.url) in ['example.com', 'Example.org']"),
    ("fetch", "host(args.url).endsWith('.Example.com')"),
    ("send_email", "args.to.all(one, mail_host(one) == 'ann@example.com')"),
    ("write_note", "path(args.path) == './etc'"),
    ("write_note", "path(args.path) == 'etc/'"),
    ("write_note", "path(args.path).startsWith('/workspace/etc')"),
    ("write_note", "path(args.path).contains('/../')"),
    ("write_note", "words(args.text).exists(word, word == 'Push')"),
    ("write_note", "words(args.text).exists(word, word in ['curl', 'git push'])"),
    ("write_note", "'Push' in words(args.text)"),
]


def test_a_text_that_a_function_never_gives_is_refused(opened, subtests):
    for tool, when in NEVER_GIVEN:
        with subtests.test(tool=tool, when=when):
            told = opened({"tools": [tool], "when": when, "effect": "deny"})
            assert told is not None
            assert re.search(r"\b(host|mail_host|path|words)\(\) never gives; write ", told)


@pytest.mark.parametrize(
    ("tool", "when"),
    [
        ("fetch", "host(args.url).endsWith('.example.com') || host(args.url) == '[::1]'"),
        ("fetch", "host(args.url).startsWith('10.') || host(args.url).contains('-')"),
        ("write_note", "path(args.path).startsWith('etc/.') || path(args.path) == 'Etc'"),
        ("write_note", "path(args.path).startsWith('/') || path(args.path).endsWith('.env')"),
        ("write_note", "words(args.text).exists(word, word.startsWith('pass') || word == 'key')"),
    ],
)
def test_a_text_that_a_function_may_give_is_taken(opened, tool, when):
    assert opened({"tools": [tool], "when": when, "effect": "deny"}) is None


@pytest.mark.parametrize("scheme", ["args.to", "'https://'", "''", "'a b'"])
def test_a_scheme_by_default_stands_in_the_rule(opened, scheme):
    told = opened({"tools": ["pay"], "when": f"host(args.memo, {scheme}) == 'a'", "effect": "deny"})
    assert told is not None
    assert "host() takes a scheme by default from the rule; write it out" in told


PATH, URL, COMMAND = "Write path(", "Write host(", "each of commands(args."
RAW = [
    ("write_note", "args.path.startsWith('etc/')", PATH),
    ("write_note", "!args.path.contains('..')", PATH),
    ("write_note", "args.path == 'etc/hosts'", PATH),
    ("write_note", "'etc/hosts' != args['path']", PATH),
    ("write_note", "args.path in ['a', 'b']", PATH),
    ("write_note", "args.path.matches('^src/') || path(args.path) == 'a'", PATH),
    ("write_note", "string(args.path).endsWith('.py')", PATH),
    ("write_note", "('/' + args.path).startsWith('/etc')", PATH),
    ("fetch", "args.url.startsWith('https://example.com')", URL),
    ("fetch", "args.url.contains('example.com') && host(args.url) != 'a'", URL),
    ("fetch", "[args.url].exists(one, one == 'https://example.com/')", ""),
    ("run", "args.command.startsWith('git ')", COMMAND),
    ("run", "args.command.matches('^git (status|diff)')", COMMAND),
    ("run", "args.options.shell_cmd.contains('rm')", COMMAND),
    ("run", "args.files.all(one, one.startsWith('src/'))", PATH),
    ("run", "'src' in args.files", PATH),
    ("run", "has(args.where) && args.where != null && args.where.startsWith('src/')", PATH),
    ("run", "args.site == 'https://example.com/'", URL),
    ("write_note", "path(args.path).startsWith('etc/') || path(args.path) in ['a']", ""),
    ("write_note", "args.path != '' && args.text.contains('x') && size(args.path) > 3", ""),
    ("fetch", "host(args.url) == 'example.com' || host(args.url).endsWith('.example.com')", ""),
    ("run", "args.command in ['git status'] || args.command == 'ls'", ""),
    ("run", "words(args.command).exists(word, word == 'rm')", ""),
    ("run", "args.mode.source == 'web'", ""),
]


@pytest.mark.parametrize(("tool", "when", "remedy"), RAW)
def test_what_another_spelling_passes_is_warned_of_as_the_host_opens(
    opened, caplog, tool, when, remedy
):
    assert opened({"tools": [tool], "when": when, "effect": "deny"}) is None
    told = [each.getMessage() for each in caplog.records if "Policy 'rule@" in each.getMessage()]
    assert len(told) == bool(remedy), told
    assert all(f", for {tool}: it compares " in each and remedy in each for each in told)
    assert all(is_notice(each) for each in caplog.records if each.getMessage() in told)


def test_what_the_language_does_not_take_is_told_with_a_remedy(opened, subtests):
    for when, remedy in [
        ("args.amount > 5 and args.amount < 9", "joined by && and ||"),
        ("args.memo = 'x'", "compared by =="),
        ("args.memo == gift", "write args.gift for an argument, and 'gift' for a text"),
        ("memo == 'gift'", "write args.memo for an argument"),
        ("args.memo.startswith('x')", "did you mean startsWith?"),
        ("arg.memo == 'x'", "did you mean args?"),
        ("args.amount > 5 && True", "did you mean true?"),
        ("len(args.memo) > 3", "there are all, commands, contains, count"),
        ("session.count() > 1", "count() is called with other values than these"),
        ("now > '2020'", "give it values of types that it takes"),
        ("now.getHours('Europe/Berln') > 20", "Invalid timezone; correct 'Europe/Berln'"),
        ("timestamp('monday') < now", "conversion failed; correct 'monday'"),
        ("args.memo.matches('[a')", "correct '[a'"),
    ]:
        with subtests.test(when=when, remedy=remedy):
            told = opened({"tools": ["pay"], "when": when, "effect": "deny"})
            assert told is not None
            assert remedy in told
