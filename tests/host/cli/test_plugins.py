"""`toolstile plugins` shows what is loaded, and what is not and why."""

import json
import re

import pytest


@pytest.fixture
def broken(folder):
    """A configuration that names a plugin which cannot be imported."""
    (folder / "broken.py").write_text("import no_such_module\n")
    (folder / "toolstile.toml").write_text('plugin_files = ["broken.py"]\n')


def test_plugins_are_listed_with_what_they_bring(toolstile):
    status, out, err = toolstile("plugins")
    assert (status, err) == (0, "")
    assert re.search(r" desk +✓ loaded +.*desk\.py +tools: add, ", out)
    assert re.search(r" dialects +✓ loaded +toolstile 0\.1\.0 ", out)
    assert "loaded" in out.splitlines()[-1]


def test_json_is_an_object_for_each_plugin(toolstile):
    _, out, _ = toolstile("plugins", "--json")
    found = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert found["dialects"]["distribution"] == "toolstile"
    assert found["dialects"]["cause"] is None
    assert "add" in found["desk"]["tools"]


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--block", "dialects,other"), ("--block", "dialects")])
def test_a_blocked_plugin_is_shown_as_blocked(toolstile, option):
    status, out, _ = toolstile("plugins", *option)
    assert status == 0
    assert re.search(r" dialects +⊘ blocked", out)


@pytest.mark.slow
@pytest.mark.usefixtures("broken")
def test_a_failed_plugin_is_shown_with_cause_and_remedy(toolstile):
    _, out, _ = toolstile("plugins")
    assert re.search(r" broken +✗ failed", out)
    assert "no_such_module" in out
    _, out, _ = toolstile("plugins", "--json")
    (report,) = (each for each in map(json.loads, out.splitlines()) if each["name"] == "broken")
    assert report["status"] == "failed"
    assert report["cause"]
    assert report["remedy"]


STARTING = """
from toolstile_hookspecs import ConfigurationError, hookimpl

@hookimpl
def toolstile_lifespan(host, settings):
    raise {error}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "status"),
    [("OSError('no server there')", 0), ("ConfigurationError('no server is named')", 2)],
)
def test_a_plugin_that_cannot_be_started_is_shown_among_the_others(
    toolstile, folder, error, status
):
    (folder / "server.py").write_text(STARTING.format(error=error))
    (folder / "toolstile.toml").write_text('plugin_files = ["server.py"]\n')
    ended, out, err = toolstile("plugins")
    assert (ended, err) == (status, "")
    assert re.search(r" server +✗ failed", out)
    assert "no server" in out
    assert re.search(r" desk +✓ loaded", out)
    assert re.search(r" dialects +✓ loaded", out)
    ended, out, _ = toolstile("plugins", "--json")
    reports = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert ended == status
    assert reports["server"]["status"] == "failed"
    assert "no server" in reports["server"]["cause"]
    assert reports["server"]["remedy"]
    assert reports["desk"]["status"] == "loaded"


@pytest.mark.slow
def test_an_approver_that_is_not_there_does_not_hide_the_list(toolstile, folder):
    (folder / "toolstile.toml").write_text('approver = "nobody"\n')
    status, out, err = toolstile("plugins")
    assert status == 2
    assert "nobody" in err
    assert re.search(r" desk +✓ loaded", out)


@pytest.mark.usefixtures("broken")
def test_nothing_runs_without_a_plugin_that_the_configuration_names(toolstile):
    status, out, err = toolstile("call", "add", '{"a": 1, "b": 2}')
    assert (status, out) == (2, "")
    assert err.startswith("toolstile: error: Plugin 'broken'")
    assert "no_such_module" in err


@pytest.mark.usefixtures("broken")
def test_a_failed_plugin_that_is_switched_off_takes_nothing_down(toolstile):
    status, out, err = toolstile("--block", "broken", "call", "add", '{"a": 1, "b": 2}')
    assert (status, out, err) == (0, "3\n", "")


def test_a_broken_plugin_that_was_asked_for_is_status_2(toolstile, folder):
    (folder / "broken.py").write_text("import no_such_module\n")
    status, _, err = toolstile("tools", "--plugin", "broken.py")
    assert status == 2
    assert "no_such_module" in err


def test_a_wrong_configuration_is_status_2(toolstile, folder):
    (folder / "toolstile.toml").write_text("timeuot = 3\n")
    for command in (["tools"], ["plugins"], ["call", "add"]):
        status, out, err = toolstile(*command)
        assert (status, out) == (2, "")
        assert "toolstile.toml" in err
        assert "timeuot" in err


def test_a_configuration_that_is_not_there_is_status_2(toolstile):
    status, _, err = toolstile("tools", "--config", "none.toml")
    assert status == 2
    assert "none.toml" in err


NEEDY = """
from pydantic import BaseModel
from toolstile_hookspecs import hookimpl

class Needs(BaseModel):
    url: str
    port: int = 80

@hookimpl
def toolstile_settings():
    return Needs
"""


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (
            None,
            "",
            "written below [plugins.needy] in a toolstile.toml, here or in a directory above.",
        ),
        ("toolstile.toml", "", "Its settings are written below [plugins.needy] there."),
        (
            "pyproject.toml",
            "[tool.toolstile]\n",
            "Its settings are written below [tool.toolstile.plugins.needy] there.",
        ),
        ("toolstile.toml", "[plugins.needy]\nport = 1\n", "url: is missing. Correct it there."),
    ],
)
def test_where_a_setting_that_is_missing_can_be_written_is_told(
    toolstile, folder, file, content, told
):
    (folder / "needy.py").write_text(NEEDY)
    (folder / "toolstile.toml").unlink()
    if file is not None:
        (folder / file).write_text(content)
    status, _, err = toolstile("--plugin", "needy.py", "tools", plugin=False)
    assert status == 2
    assert err.endswith(f"{told}\n")


@pytest.mark.slow
def test_a_misspelt_table_is_an_error_and_the_commands_that_explain_work(toolstile, folder):
    (folder / "toolstile.toml").write_text("[plugins.recordr]\nfile = 'calls.jsonl'\n")
    for command in (["run", "--example"], ["call", "add", '{"a": 1, "b": 2}'], ["tools"]):
        status, _, err = toolstile(*command)
        assert status == 2
        assert "table for 'recordr', which is not installed. Did you mean 'record'?" in err
    assert toolstile("call", "--help")[0] == toolstile("--help")[0] == 0
    assert toolstile("completion", "bash")[0] == 0
    for command in ("plugins", "doctor", "check"):
        status, out, _ = toolstile(command)
        assert (status, "recordr" in out) == ({"plugins": 2}.get(command, 1), True), command
    (folder / "toolstile.toml").write_text(
        "optional_plugins = ['recordr']\n[plugins.recordr]\nfile = 'calls.jsonl'\n"
    )
    status, _, err = toolstile("call", "add", '{"a": 1, "b": 2}')
    assert status == 0
    assert "warning: Plugin 'recordr': absent." in err
