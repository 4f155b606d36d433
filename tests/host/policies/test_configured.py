"""Tables of the configuration become policies of the kinds that plugins offer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, DirectoryPath

from toolstile.policies.rule_set import make_policies
from toolstile.settings import Settings
from toolstile_hookspecs import ConfigurationError, PersistentPolicy, PolicyDecision


class Rules:
    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Hours(Rules):
    opens: int = 9
    days: frozenset[str] = frozenset()
    log: Path | None = None
    name: str = ""


class Model(BaseModel, Rules):
    model_config = ConfigDict(frozen=True)
    where: Path
    name: str = ""


class Checked(BaseModel, Rules):
    root: DirectoryPath
    name: str = ""


@dataclass(frozen=True)
class Nameless(Rules):
    level: int = 1

    @property
    def name(self) -> str:
        return "always the same"


KINDS = {"hours": Hours, "model": Model, "checked": Checked, "nameless": Nameless}


def made(*tables, path=Path("/conf/toolstile.toml")):
    return make_policies(Settings(path=path, policies=tables), KINDS)


def test_fields_become_what_their_types_say():
    [policy] = made({"kind": "hours", "opens": 8, "days": ["mon", "tue"], "name": "open"})
    assert policy == Hours(opens=8, days=frozenset({"mon", "tue"}), name="open")


def test_instances_without_a_name_get_one_of_kind_and_position():
    policies = made({"kind": "hours"}, {"kind": "model", "where": "x"}, {"kind": "hours"})
    assert [each.name for each in policies] == ["hours@host#1", "model@host#2", "hours@host#3"]


def test_a_kind_without_such_a_field_names_itself():
    [policy] = made({"kind": "nameless", "level": 2})
    assert (policy.name, policy.level) == ("always the same", 2)


@pytest.mark.parametrize(("given", "path"), [("a/b", "/conf/a/b"), ("/tmp/b", "/tmp/b")])
def test_paths_are_relative_to_the_file(given, path):
    hours, model = made({"kind": "hours", "log": given}, {"kind": "model", "where": given})
    assert (hours.log, model.where) == (Path(path), Path(path))


def test_any_kind_can_be_kept():
    named, nameless = made(
        {"kind": "hours", "name": "open", "keep": "state.json"},
        {"kind": "nameless", "keep": "/var/state.json"},
    )
    assert named == PersistentPolicy(Hours(name="open"), Path("/conf/state.json"))
    assert nameless == PersistentPolicy(Nameless(), Path("/var/state.json"))


def test_all_faults_of_a_table_are_told_at_once():
    with pytest.raises(ConfigurationError) as raised:
        made({"kind": "hours", "opens": "nine", "dais": []})
    place = "/conf/toolstile.toml, [[policies]] number 1:"
    assert str(raised.value).splitlines() == [
        f"{place} opens: expected a whole number, found the text 'nine'.",
        f"{place} dais: is not a known key; did you mean 'days'?",
    ]


def test_the_hosts_keys_are_known_keys_too():
    with pytest.raises(ConfigurationError, match=r"kep: is not a known key; did you mean 'keep'\?"):
        made({"kind": "hours", "kep": "state.json"})
    with pytest.raises(
        ConfigurationError, match=r"x: .*\(known: .*, name, kind, keep, groups, shadow, users\)"
    ):
        made({"kind": "hours", "x": 1})


def test_all_faults_of_all_tables_are_told_at_once():
    with pytest.raises(ConfigurationError) as raised:
        made(
            {"kind": "hour"},
            {"kind": "hours", "opens": "nine"},
            {"kind": "hours", "opens": 8},
            {"kind": "hours", "keep": 3},
        )
    kind, opens, keep = (
        line.removeprefix("/conf/toolstile.toml, [[policies]] number ")
        for line in str(raised.value).splitlines()
    )
    assert kind.startswith("1: kind: 'hour' is not a known kind of policy; did you mean 'hours'?")
    assert opens == "2: opens: expected a whole number, found the text 'nine'."
    assert keep == "4: keep: expected text, the name of a JSON file, found the number 3."


def test_a_path_is_checked_where_it_is_and_not_where_the_process_was_started(tmp_path, monkeypatch):
    (tmp_path / "wiki").mkdir()
    monkeypatch.chdir("/")
    path = tmp_path / "toolstile.toml"
    [policy] = made({"kind": "checked", "root": "wiki"}, path=path)
    assert policy.root == tmp_path / "wiki"
    with pytest.raises(ConfigurationError, match="number 1: root: "):
        made({"kind": "checked", "root": "tmp"}, path=path)


def test_without_a_file_the_place_is_the_configuration():
    with pytest.raises(ConfigurationError) as raised:
        made({"kind": "hour"}, path=None)
    assert str(raised.value) == (
        "the configuration, [[policies]] number 1: kind: 'hour' is not a known kind of policy; "
        "did you mean 'hours'? (known: checked, hours, model, nameless)."
    )


def test_without_any_kind_it_says_so():
    with pytest.raises(ConfigurationError, match="known: none; no loaded plugin offers any"):
        make_policies(Settings(policies=({"kind": "x"},)), {})
