"""A plugin that was written for the first release loads and works as it did then."""

import importlib
import sys
import warnings
from pathlib import Path

import pytest

import toolstile_hookspecs
from toolstile import Host, Settings, ToolCall
from toolstile_cli.main import main
from toolstile_hookspecs import ContractDeprecationWarning

PACKAGE = Path(__file__).parent / "toolstile-first"

#: The hooks of version 1.0 of the contract.
HOOKS = {
    "toolstile_approve",
    "toolstile_check",
    "toolstile_commands",
    "toolstile_diagnose",
    "toolstile_dialects",
    "toolstile_execute",
    "toolstile_lifespan",
    "toolstile_lookup",
    "toolstile_on_result",
    "toolstile_parse",
    "toolstile_policies",
    "toolstile_render",
    "toolstile_resources",
    "toolstile_rollback",
    "toolstile_sections",
    "toolstile_settings",
    "toolstile_snapshot",
    "toolstile_telemetry",
    "toolstile_trace",
}

# What is deprecated since is still there.
pytestmark = pytest.mark.filterwarnings("default::toolstile_hookspecs.ContractDeprecationWarning")


@pytest.fixture
def first(tmp_path, monkeypatch):
    """The package, installed as pip leaves it; gives what its hooks have heard."""
    info = tmp_path / "site" / "toolstile_first-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toolstile-first\nVersion: 1.0.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[toolstile]\nfirst = toolstile_first\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(PACKAGE / "src"), str(info.parent), *sys.path])
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    parts = importlib.import_module("toolstile_first.parts")
    yield parts.HEARD
    for name in [each for each in sys.modules if each.split(".")[0] == "toolstile_first"]:
        del sys.modules[name]


def test_it_loads_with_all_it_offers(first):
    settings = Settings(
        approver="first",
        plugins={"first": {"title": "Diary"}},
        policies=({"kind": "first_curfew", "category": "delete"},),
    )
    with Host(settings=settings) as host:
        (report,) = [each for each in host.plugins.reports if each.name == "first"]
        assert (report.status, report.fault) == ("loaded", None)
        assert (report.distribution, report.version) == ("toolstile-first", "1.0.0")
        assert set(report.hooks) == HOOKS
        assert report.tools == ("note", "count_notes", "tear_out", "spill", "far")


def test_its_calls_pass_every_stage_as_they_did(first):
    settings = Settings(
        approver="first",
        plugins={"first": {"title": "Diary"}},
        policies=({"kind": "first_curfew", "category": "delete"},),
    )
    with Host(settings=settings) as host, host.executor() as tools:
        host.plugins.commands()
        dialect = host.dialect("first_lines")
        calls = dialect.calls('write_down {"text": "a"}\ncount_notes {"prefix": "a"}\nspill {}')
        outcomes = [tools.dispatch(each) for each in calls]
        assert [each.success for each in outcomes] == [True, True, False]
        assert [each.text for each in outcomes] == [
            "Diary: noted.\n- a",
            "1",
            "The ink was spilt. Use note, then retry.",
        ]
        assert dialect.results(outcomes)[1] == {"line": '"1"'}
        assert tools.dispatch(ToolCall("far")).text == "far away"
        assert tools.dispatch(ToolCall("tear_out")).text == "Torn out."
        assert tools.dispatch(ToolCall("count_notes")).text == "0"
    assert set(first) >= HOOKS - {"toolstile_diagnose"}
    assert {"commit", "rollback", "stage execute"} <= set(first)


def test_its_command_runs(first, capsys):
    assert main(["first", "--twice"]) == 0
    assert capsys.readouterr().out == "10\n"


def test_the_doctor_asks_it(first, capsys):
    main(["doctor", "--json"])
    assert "They are called Notes." in capsys.readouterr().out
    assert "toolstile_diagnose" in first


def test_every_name_of_the_first_contract_is_there(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContractDeprecationWarning)
        names = importlib.import_module("toolstile_first.names")
        assert len(names.__all__) > 100
        assert all(getattr(toolstile_hookspecs, each) is not None for each in names.__all__)
