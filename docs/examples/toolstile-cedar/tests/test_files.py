"""Files that are wrong are told of when the host starts, with the line."""

import pytest
import toolstile_cedar
from hypothesis import given, strategies as st
from toolstile_cedar import CedarPolicy
from toolstile_cedar.statements import split

from toolstile import ConfigurationError, Host
from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import DefinitionError

SCHEMA = """\
entity Group;
entity User in [Group];
entity Anonymous;
entity Tool { category: String, consequence: String, tags: Set<String>, owner?: String };
action read, side_effect;
action read_note in [read] appliesTo {
    principal: [User, Anonymous], resource: Tool,
    context: { params: { path: String, lines?: Long } }
};
action refund in [side_effect] appliesTo {
    principal: [User], resource: Tool, context: { params: { cents: String } }
};
"""
STRANGER = [{"uid": {"type": "Person", "id": "a"}, "attrs": {}, "parents": []}]
READERS = 'permit (principal, action in Action::"read", resource);\n'


def test_every_fault_of_every_file_is_told_with_its_line(tmp_path):
    first = tmp_path / "first.cedar"
    first.write_text(
        f"// fine; so far\n{READERS}\n\n"
        "permit (principl, action, resource);\n"
        '@id("a;b") permit (principal, action, resource)\n'
        '  when { context.params.text == "\\";" };\n'
        '@id("a;b") permit (principal == ?principal, action, resource);\n'
        "forbid (principal, action",
        encoding="utf-8",
    )
    second = tmp_path / "second.cedar"
    second.write_bytes(b"\xff")
    with pytest.raises(DefinitionError) as raised:
        CedarPolicy(policies=[first, second, tmp_path / "third.cedar"])
    text = str(raised.value)
    for said in (
        "first.cedar, line 5: ",
        "first.cedar, line 8: ",
        "first.cedar, line 9: ",
        "second.cedar: not UTF-8",
        "third.cedar: No such file",
        "template",
    ):
        assert said in text
    assert "line 6" not in text


def test_one_name_for_two_policies_is_refused(policy_of):
    with pytest.raises(DefinitionError, match=r"line 2: the @id 'a' is that of .* line 1 already"):
        policy_of('@id("a") permit (principal, action, resource);\n' * 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rules": "", "entities": {"uid": 1}}, "people.json: not a list of Cedar entities"),
        ({"schema": "entity User in [Grou"}, "shop.cedarschema: error parsing schema"),
        ({"rules": READERS.replace("read", "write"), "schema": SCHEMA}, "rules.cedar, line 1: "),
        (
            {"rules": READERS, "schema": SCHEMA, "entities": STRANGER},
            'Person::"a" does not fit the schema',
        ),
    ],
)
def test_other_files_are_told_of_too(policy_of, options, said):
    with pytest.raises(DefinitionError, match=said):
        policy_of(**options)


def test_a_policy_needs_a_file():
    with pytest.raises(DefinitionError, match="name a file"):
        CedarPolicy(policies=[])


def test_a_schema_holds_requests_to_it(open_tools):
    tools = open_tools(READERS, schema=SCHEMA, user_id="ann")
    assert_ok(tools.call("read_note", path="a", lines=3))
    for name, arguments in (("weigh", {"grams": 1.0}), ("refund", {"cents": 1})):
        outcome = tools.call(name, **arguments)
        assert_failed(outcome, status="denied", contains=["schema", "human intervention"])
    nobody = open_tools(READERS, schema=SCHEMA)
    assert_ok(nobody.call("read_note", path="a"))


def test_the_configuration_makes_the_policy(tmp_path, monkeypatch):
    (tmp_path / "rules").mkdir()
    rules = tmp_path / "rules" / "all.cedar"
    rules.write_text("permit (principal, action, resource);", encoding="utf-8")
    table = '[[policies]]\nkind = "cedar"\npolicies = ["rules/all.cedar"]\n'
    config = tmp_path / "toolstile.toml"
    config.write_text(table, encoding="utf-8")
    monkeypatch.chdir("/")
    with Host(discover=False, plugins=[toolstile_cedar], config=config) as host:
        assert host.plugins.reports

    rules.write_text("\n\npermit (principal, action, what);", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"toolstile\.toml.*all\.cedar, line 3"):
        Host(discover=False, plugins=[toolstile_cedar], config=config)


PIECES = st.sampled_from(
    [
        "permit (principal, action, resource)",
        '@id("a;b") ',
        'forbid (principal, action, resource) when { context.x == "\\\\" }',
        'forbid (principal, action, resource) when { context.x == "\\";//" }',
        ";",
        "\n",
        '// a comment; with "quotes\n',
        '"',
        "\\",
        " ",
        "é",
    ]
)


@given(st.lists(PIECES).map("".join))
def test_splitting_loses_nothing_and_counts_lines(text):
    lines = text.split("\n")
    for begin, source in split(text):
        first = source.split("\n")[0]
        assert first in lines[begin - 1]
        assert source == source.lstrip()
        assert source in text
