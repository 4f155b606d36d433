"""`toolyard plugins` shows what is loaded, and what is not and why."""

import json
import re

import pytest


@pytest.fixture
def broken(folder):
    """A configuration that names a plugin which cannot be imported."""
    (folder / "broken.py").write_text("import no_such_module\n")
    (folder / "toolyard.toml").write_text('plugin_files = ["broken.py"]\n')


def test_plugins_are_listed_with_what_they_bring(toolyard):
    status, out, err = toolyard("plugins")
    assert (status, err) == (0, "")
    assert re.search(r" desk +✓ loaded +.*desk\.py +tools: add, ", out)
    assert re.search(r" dialects +✓ loaded +toolyard 0\.1\.0 ", out)
    assert "loaded" in out.splitlines()[-1]


def test_json_is_an_object_for_each_plugin(toolyard):
    _, out, _ = toolyard("plugins", "--json")
    found = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert found["dialects"]["distribution"] == "toolyard"
    assert found["dialects"]["cause"] is None
    assert "add" in found["desk"]["tools"]


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--block", "dialects,other"), ("--block", "dialects")])
def test_a_blocked_plugin_is_shown_as_blocked(toolyard, option):
    status, out, _ = toolyard("plugins", *option)
    assert status == 0
    assert re.search(r" dialects +⊘ blocked", out)


@pytest.mark.slow
@pytest.mark.usefixtures("broken")
def test_a_failed_plugin_is_shown_with_cause_and_remedy(toolyard):
    _, out, _ = toolyard("plugins")
    assert re.search(r" broken +✗ failed", out)
    assert "no_such_module" in out
    _, out, _ = toolyard("plugins", "--json")
    (report,) = (each for each in map(json.loads, out.splitlines()) if each["name"] == "broken")
    assert report["status"] == "failed"
    assert report["cause"]
    assert report["remedy"]


STARTING = """
from toolyard_hookspecs import ConfigurationError, hookimpl

@hookimpl
def toolyard_lifespan(host, settings):
    raise {error}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "status"),
    [("OSError('no server there')", 0), ("ConfigurationError('no server is named')", 2)],
)
def test_a_plugin_that_cannot_be_started_is_shown_among_the_others(toolyard, folder, error, status):
    (folder / "server.py").write_text(STARTING.format(error=error))
    (folder / "toolyard.toml").write_text('plugin_files = ["server.py"]\n')
    ended, out, err = toolyard("plugins")
    assert (ended, err) == (status, "")
    assert re.search(r" server +✗ failed", out)
    assert "no server" in out
    assert re.search(r" desk +✓ loaded", out)
    assert re.search(r" dialects +✓ loaded", out)
    ended, out, _ = toolyard("plugins", "--json")
    reports = {each["name"]: each for each in map(json.loads, out.splitlines())}
    assert ended == status
    assert reports["server"]["status"] == "failed"
    assert "no server" in reports["server"]["cause"]
    assert reports["server"]["remedy"]
    assert reports["desk"]["status"] == "loaded"


@pytest.mark.slow
def test_an_approver_that_is_not_there_does_not_hide_the_list(toolyard, folder):
    (folder / "toolyard.toml").write_text('approver = "nobody"\n')
    status, out, err = toolyard("plugins")
    assert status == 2
    assert "nobody" in err
    assert re.search(r" desk +✓ loaded", out)


@pytest.mark.usefixtures("broken")
def test_nothing_runs_without_a_plugin_that_the_configuration_names(toolyard):
    status, out, err = toolyard("call", "add", '{"a": 1, "b": 2}')
    assert (status, out) == (2, "")
    assert err.startswith("toolyard: error: Plugin 'broken'")
    assert "no_such_module" in err


@pytest.mark.usefixtures("broken")
def test_a_failed_plugin_that_is_switched_off_takes_nothing_down(toolyard):
    status, out, err = toolyard("--block", "broken", "call", "add", '{"a": 1, "b": 2}')
    assert (status, out, err) == (0, "3\n", "")


def test_a_broken_plugin_that_was_asked_for_is_status_2(toolyard, folder):
    (folder / "broken.py").write_text("import no_such_module\n")
    status, _, err = toolyard("tools", "--plugin", "broken.py")
    assert status == 2
    assert "no_such_module" in err


def test_a_wrong_configuration_is_status_2(toolyard, folder):
    (folder / "toolyard.toml").write_text("timeuot = 3\n")
    for command in (["tools"], ["plugins"], ["call", "add"]):
        status, out, err = toolyard(*command)
        assert (status, out) == (2, "")
        assert "toolyard.toml" in err
        assert "timeuot" in err


def test_a_configuration_that_is_not_there_is_status_2(toolyard):
    status, _, err = toolyard("tools", "--config", "none.toml")
    assert status == 2
    assert "none.toml" in err


NEEDY = """
from pydantic import BaseModel
from toolyard_hookspecs import hookimpl

class Needs(BaseModel):
    url: str
    port: int = 80

@hookimpl
def toolyard_settings():
    return Needs
"""


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (
            None,
            "",
            "written below [plugins.needy] in a toolyard.toml, here or in a directory above.",
        ),
        ("toolyard.toml", "", "Its settings are written below [plugins.needy] there."),
        (
            "pyproject.toml",
            "[tool.toolyard]\n",
            "Its settings are written below [tool.toolyard.plugins.needy] there.",
        ),
        ("toolyard.toml", "[plugins.needy]\nport = 1\n", "url: is missing. Correct it there."),
    ],
)
def test_where_a_setting_that_is_missing_can_be_written_is_told(
    toolyard, folder, file, content, told
):
    (folder / "needy.py").write_text(NEEDY)
    (folder / "toolyard.toml").unlink()
    if file is not None:
        (folder / file).write_text(content)
    status, _, err = toolyard("--plugin", "needy.py", "tools", plugin=False)
    assert status == 2
    assert err.endswith(f"{told}\n")
