"""A plugin that somebody asks for keeps the host from opening where it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError

BROKEN = "import no_such_module\n"
GUARD = '''
from dataclasses import dataclass
from toolstile_hookspecs import MarkdownSection, PolicyDecision, hookimpl, tool

@dataclass(frozen=True, kw_only=True)
class {name}:
    name: str = ""

    def check(self, tool, params, *, context):
        return PolicyDecision.deny("No.")

    def on_result(self, tool, params, result, *, context):
        pass

@hookimpl
def toolstile_policies():
    return {{"{kind}": {name}}}

@tool
def {tool}() -> str:
    """Say something."""
    return "said"

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="{tool}_{name}", title="Say", tools=[{tool}])]
'''


def guard(name="Guard", kind="guard", tool="say"):
    return GUARD.format(name=name, kind=kind, tool=tool)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clash(install):
    """Install two plugins that have one tool, of which the later one is refused."""
    install("zq-first", guard(name="First", kind="first"))
    install("zq-second", guard(name="Second", kind="second"))


CAUSE = "Plugin 'zq-second' has the tool 'say', a name that plugin 'zq-first'"


@pytest.mark.usefixtures("clash")
def test_one_that_is_only_installed_is_reported(caplog):
    with Host(discover=["zq-first"]) as host:
        assert host.catalog.names() == ("say",)
    with Host(settings=Settings()) as host:
        assert host.plugins.reports
    assert CAUSE in caplog.text


@pytest.mark.usefixtures("clash")
@pytest.mark.parametrize(
    "options",
    [
        {"settings": Settings(plugins={"zq-second": {}})},
        {"settings": Settings(plugins={"zq_second": {"enabled": True}})},
        {"discover": ["zq-first", "zq-second"]},
    ],
)
def test_one_that_is_named_keeps_the_host_from_opening(options):
    with pytest.raises(ConfigurationError) as raised:
        Host(**options).open()
    assert CAUSE in str(raised.value)


@pytest.mark.usefixtures("clash")
def test_one_whose_kind_of_policy_is_named_is_told_of_as_the_cause():
    with pytest.raises(ConfigurationError) as raised:
        Host(settings=Settings(policies=({"kind": "second"},)))
    first, *rest = str(raised.value).splitlines()
    assert "kind: 'second' is not a known kind of policy" in first
    assert any(CAUSE in line for line in rest)


def test_one_whose_kind_of_policy_another_has_keeps_the_host_from_opening(install):
    install("zq-first", guard(name="First", kind="guard", tool="one"))
    install("zq-second", guard(name="Second", kind="guard", tool="two"))
    Host(settings=Settings()).open().close()
    with pytest.raises(ConfigurationError, match="policy kind 'guard', which plugin 'zq-first'"):
        Host(settings=Settings(policies=({"kind": "guard"},))).open()


def test_one_that_is_switched_off_takes_nothing_down(install):
    install("zq-broken", BROKEN)
    settings = Settings(plugins={"zq-broken": {"enabled": False}})
    Host(settings=settings).open().close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["table", "option", "file", "kind"])
@pytest.mark.parametrize("command", ["tools", "plugins", "doctor", "mcp check", "call say"])
@pytest.mark.usefixtures("folder")
def test_every_command_names_the_cause(install, capsys, how, command):
    install("zq-first", guard(name="First", kind="first"))
    Path("second.py").write_text(guard(name="Second", kind="second"))
    cause, options, lines = "'second' has the tool 'say'", [], ""
    if how == "option":
        options = ["--plugin", "second.py"]
    elif how == "file":
        lines = 'plugin_files = ["second.py"]\n'
    else:
        install("zq-second", guard(name="Second", kind="second"))
        cause = "'zq-second' has the tool 'say'"
        lines = "[plugins.zq-second]\n" if how == "table" else '[[policies]]\nkind = "second"\n'
    Path("toolstile.toml").write_text(lines)

    assert main([*options, *command.split()]) == (1 if command == "doctor" else 2)
    said = capsys.readouterr()
    assert cause in " ".join((said.out + said.err).split())
