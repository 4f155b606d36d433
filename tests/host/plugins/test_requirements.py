"""Plugins that need a newer contract are refused, and those that use deprecated parts told of."""

import types
import warnings

import pytest

from toolstile.plugins import inspection as managers, registry
from toolstile.plugins.registry import Plugins
from toolstile.settings import Settings
from toolstile_cli.lint.contributions import deprecated_uses
from toolstile_hookspecs import (
    CONTRACT_VERSION,
    ContractDeprecationWarning,
    PluginError,
    hookimpl,
    hooks as contract,
    hookspec,
)
from toolstile_hookspecs.support.deprecation import deprecated

NEWER = """
    {statement}
    from toolstile_hookspecs import {name}, hookimpl

    @hookimpl
    def toolstile_check(tool):
        return None
"""


@pytest.mark.parametrize("needed", ["1.0", CONTRACT_VERSION])
def test_one_that_needs_no_more_than_there_is_loads(install, discovered, report_of, needed):
    install("zq-now", NEWER.format(statement=f'toolstile_requires = "{needed}"', name="Tool"))
    assert report_of(discovered(), "zq-now").status == "loaded"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ('toolstile_requires = "1.999"', "Tool"),
        ('toolstile_requires: str = "1.999"', "Tool"),
    ],
    ids=["loads", "loads, annotated"],
)
def test_one_that_needs_a_newer_contract_is_refused(
    install, discovered, report_of, statement, name
):
    install("zq-newer", NEWER.format(statement=statement, name=name), version="7.1")
    report = report_of(discovered(), "zq-newer")
    assert report.status == "failed"
    told = str(report)
    assert "zq-newer 7.1" in told
    assert "It needs version 1.999 of Toolstile's contract" in told
    assert f"has {CONTRACT_VERSION}." in told
    assert "Install a newer toolstile, or an older version of zq-newer." in told


def test_one_that_imports_what_only_a_newer_contract_has_is_refused(install, discovered, report_of):
    install("zq-newer", NEWER.format(statement="", name="OfVersion1999"), version="7.1")
    told = str(report_of(discovered(), "zq-newer"))
    assert "zq-newer 7.1" in told
    assert "It needs a newer version of Toolstile's contract" in told
    assert f"has {CONTRACT_VERSION} (ImportError: cannot import name 'OfVersion1999'" in told
    assert "Install a newer toolstile, or an older version of zq-newer." in told


def test_so_is_a_single_file(tmp_path):
    file = tmp_path / "newer.py"
    file.write_text("from toolstile_hookspecs.sections import OfVersion2\n")
    with pytest.raises(PluginError, match="needs a newer version of Toolstile's contract"):
        Plugins(settings=Settings()).register_file(file)


def test_and_an_object():
    plugin = types.SimpleNamespace(toolstile_requires="9.0")
    with pytest.raises(PluginError, match=r"needs version 9\.0"):
        Plugins(settings=Settings()).register(plugin, "newer")


def test_what_is_no_version_is_told_of(install, discovered, report_of):
    install("zq-odd", NEWER.format(statement='toolstile_requires = ">=1"', name="Tool"))
    report = report_of(discovered(), "zq-odd")
    assert report.status == "failed"
    assert "Its toolstile_requires is '>=1'" in report.fault
    assert f'toolstile_requires = "MAJOR.MINOR", such as "{CONTRACT_VERSION}"' in report.remedy


@pytest.mark.parametrize("source", ["import no_such_module_zq", "this is no Python"])
def test_what_cannot_be_imported_otherwise_is_told_of_as_ever(
    install, discovered, report_of, source
):
    install("zq-broken", f'    toolstile_requires = "1.0"\n    {source}\n')
    report = report_of(discovered(), "zq-broken")
    assert report.status == "failed"
    assert "cannot be imported" in report.fault


OLD_HOOK = deprecated("toolstile_old", since="1.3", until="2.0", instead="Use toolstile_new.")
OLD_ARGUMENT = deprecated(
    "The argument kind of toolstile_later", since="1.3", until="2.0", instead="Take tool."
)


@pytest.fixture
def later(monkeypatch):
    """A later contract, which deprecates a hook and an argument."""

    @hookspec(warn_on_impl=OLD_HOOK)
    def toolstile_old(call):
        """Do it the old way."""

    @hookspec(warn_on_impl_args={"kind": OLD_ARGUMENT})
    def toolstile_later(tool, kind):
        """Do it."""

    names = {name: value for name, value in vars(contract).items() if name.startswith("toolstile_")}
    names |= {"toolstile_old": toolstile_old, "toolstile_later": toolstile_later}
    specifications = types.SimpleNamespace(**names)
    monkeypatch.setattr(registry, "HookManager", lambda: managers.HookManager(specifications))


class Old:
    @hookimpl
    def toolstile_old(self, call):
        return None

    @hookimpl
    def toolstile_later(self, kind):
        return None


class New:
    @hookimpl
    def toolstile_later(self, tool):
        return None


@pytest.mark.usefixtures("later")
def test_deprecated_hooks_and_arguments_still_work_and_warn_where_they_are_written():
    plugins = Plugins(settings=Settings())
    with pytest.warns(ContractDeprecationWarning) as seen:
        report = plugins.register(Old(), "old")
    assert {str(each.message) for each in seen} == {str(OLD_HOOK), str(OLD_ARGUMENT)}
    assert {each.filename for each in seen} == {__file__}
    assert report.status == "loaded"
    assert set(deprecated_uses(plugins, "old")) == {str(OLD_HOOK), str(OLD_ARGUMENT)}
    assert report.fault is None


@pytest.mark.usefixtures("later")
def test_who_uses_nothing_deprecated_is_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (plugins := Plugins(settings=Settings())).register(New(), "new")
    assert deprecated_uses(plugins, "new") == ()


@pytest.mark.usefixtures("later")
def test_where_warnings_are_errors_nothing_stays_of_it():
    plugins = Plugins(settings=Settings())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContractDeprecationWarning)
        with pytest.raises(PluginError, match=r"uses a deprecated name.* since version 1\.3"):
            plugins.register(Old(), "old")
    with pytest.warns(ContractDeprecationWarning):
        assert plugins.register(Old(), "old").status == "loaded"
