"""`toolstile check` names what an author should fix, and is content with what is right."""

import importlib
import json
import re
import sys

import pytest

from toolstile import Host, Settings
from toolstile_cli.lint.plugin import findings_in

GOOD = """
'''Tools for a room.'''

from pydantic import BaseModel, Field

from toolstile_hookspecs import MarkdownSection, hookimpl, tool


class Settings(BaseModel):
    '''The table of the room.

    Args:
        title: The heading.
    '''

    title: str = "The room"
    degrees: float = Field(21, description="What it begins with.")


@tool(category="write")
def warm(degrees: float) -> str:
    '''Warm the room.

    Args:
        degrees: How warm.
    '''
    return "Warm."


@hookimpl
def toolstile_settings():
    return Settings


@hookimpl
def toolstile_sections(settings):
    return [MarkdownSection(key="room", title=settings.title, tools=[warm])]
"""


@pytest.fixture
def written(folder):
    """Writes the good plugin with parts of it replaced."""

    def written(*changes, name="room"):
        source = GOOD
        for before, after in changes:
            assert before in source
            source = source.replace(before, after)
        path = folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        return path

    return written


@pytest.fixture
def findings(toolstile):
    """Checks the plugin in a file; gives where and what."""

    def findings(path, *others):
        files = [option for each in (*others, path) for option in ("--plugin", each)]
        status, out, err = toolstile("check", path.stem, "--json", *files, plugin=False)
        assert err == ""
        (report,) = map(json.loads, out.splitlines())
        assert status == (1 if report["findings"] else 0)
        assert all(each["remedy"] for each in report["findings"])
        return [(each["where"], each["cause"]) for each in report["findings"]]

    return findings


def test_a_good_plugin_is_clean(written, findings):
    assert findings(written()) == []


@pytest.mark.slow
def test_all_that_comes_with_toolstile_is_clean(toolstile):
    for example in ("orders", "workspace"):
        status, out, err = toolstile("check", f"--example={example}", plugin=False)
        assert (status, err) == (0, ""), out
        assert re.search(rf" {example} +✓ clean ", out)
        assert re.search(r" planning +✓ clean +toolstile 0\.1\.0", out)
        assert out.splitlines()[-1].endswith(" plugins: nothing to fix")


MISSPELT = ("def toolstile_settings", "def toolstile_setings")
ARGUMENT = ("def toolstile_sections(settings)", "def toolstile_sections(sittings)")
UNMARKED = ("@hookimpl\ndef toolstile_settings", "def toolstile_settings")
NO_NAME = ("import BaseModel", "import NoSuchModel")
NO_SYNTAX = ("return Settings", "return (")
NO_MODULE = ("from pydantic", "from no_such_module")
NO_TYPE = ("(degrees: float)", "(degrees)")
MUTABLE = (
    "from pydantic",
    "from dataclasses import dataclass\n@dataclass\nclass S:\n    seen: list = []\nfrom pydantic",
)
NO_FIELD = ('title: str = "The room"', 'title = "The room"')
UNDECLARED = ("@hookimpl\ndef toolstile_settings", "def declared")
RAISING = ("    return [Mark", "    raise OSError('off')\n    return [Mark")
BARE = ("degrees: How warm.", "")
NOT_TAKEN = ("degrees: How warm.", "degrees: How warm.\n        unit: The unit of it.")
NO_SUCH_TYPE = ("    degrees: float", "    degrees: 'flot'")
UNDOCUMENTED = ("title: The heading.", "")
NO_DOCSTRING = (
    "    '''The table of the room.\n\n    Args:\n        title: The heading.\n    '''\n",
    "",
)
INTERNAL = (
    "from toolstile_hookspecs",
    """\
from toolstile.testing import FakeClock
from toolstile.host import Host
from toolstile_hookspecs""",
)
NO_RESULT_SCHEMA = (") -> str:", ") -> type:")
NO_SCHEMA = (
    "@tool(",
    """\
from typing import Annotated
from pydantic import WithJsonSchema
float = Annotated[float, WithJsonSchema({'type': 'number-ish'})]

@tool(""",
)
BROKEN_SETUP = ("tools=[warm]", "tools=[warm], on_session=lambda session: 1 / 0")
BROKEN_ENABLED = ("tools=[warm]", "tools=[warm], enabled=lambda session: session is None or 1 / 0")
WRONG_SETUP = ("tools=[warm]", "tools=[warm], on_session=lambda: None")
NO_PROMPT = ("title=settings.title,", "title='x', template='Hello ${nobody}.',")


GOOD_POLICY = """

from dataclasses import dataclass

from toolstile_hookspecs import PolicyDecision


@dataclass(frozen=True)
class Cold:
    name: str = ""

    def check(self, tool, params, *, context):
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        pass


@hookimpl
def toolstile_policies():
    return {"cold": Cold}
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("", "", None),
        ("def on_result", "def after", "Cold has no method on_result"),
        ("(self, tool, params, *, context)", "(self, tool)", "check of Cold cannot be called"),
        ("def on_result", "def reserve", "Cold has no method on_result"),
        ("result, *, context):", "*, context):", "on_result of Cold cannot be called"),
        ("    name:", "    named:", "Cold has no name"),
        ("    name:", "    rooms: NotImplemented\n    name:", "No table .* can be made into Cold"),
        ("    name:", "    rooms: 'strr' = 1\n    name:", "No table .* Cold: strr is not defined"),
        ("@dataclass(frozen=True)", "", "can be made into Cold: PydanticSchemaGenerationError"),
    ],
)
def test_a_kind_that_makes_no_policies_is_named(written, findings, before, after, told):
    path = written()
    path.write_text(path.read_text() + GOOD_POLICY.replace(before, after, 1))
    found = findings(path)
    assert {where for where, _ in found} == ({"policy cold"} if told else set())
    assert told is None or any(re.search(told, cause) for _, cause in found), found
    assert not any(cause.endswith("..") for _, cause in found)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "{'kind': 'cold'}",
            "A policy was expected in section 'room', not an instance of dict",
        ),
        ("Settings", "A policy was expected in section 'room', not the class Settings; give"),
    ],
)
def test_what_is_no_policy_of_a_section_is_named(written, findings, policy, told):
    ((where, cause),) = findings(written(("tools=[warm]", f"tools=[warm], policies=[{policy}]")))
    assert where == "policies"
    assert told in cause


def test_a_tool_that_nobody_offers_but_another_depends_on_is_named(written, toolstile):
    path = written(('category="write"', 'category="write", depends_on=("worm",)'))
    status, out, _ = toolstile("check", "room", "--json", "--plugin", path, plugin=False)
    (finding,) = json.loads(out)["findings"]
    assert (status, finding["where"]) == (1, "tool warm")
    assert finding["cause"] == "It depends on worm, but no tool here is called that."
    assert finding["remedy"].startswith("Write warm, if that is meant, or install")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("'check', run=warm", "'check' is left out: there is a command of that name already"),
        ("'warm'", "'warm' is left out: it has no `run`"),
        ("'rnu', extends=True", "'rnu' is left out: there is no command 'rnu' to extend"),
        ("'run', extends=True, configure=str.upper", "'run' is left out: its options cannot be"),
    ],
)
def test_a_command_that_is_left_out_is_named(written, toolstile, command, told):
    path = written()
    hook = "@hookimpl\ndef toolstile_commands():\n    return [COMMAND]\n"
    source = f"from toolstile_hookspecs import Command\nCOMMAND = Command({command})"
    path.write_text(f"{path.read_text()}\n{source}\n\n{hook}")
    status, out, _ = toolstile("check", "room", "--json", "--plugin", path, plugin=False)
    (finding,) = json.loads(out)["findings"]
    assert (status, finding["where"]) == (1, "commands")
    assert told in finding["cause"]


def test_only_whoever_comes_second_with_a_command_is_told_of_it(written, toolstile):
    hook = """
from toolstile_hookspecs import Command

@hookimpl
def toolstile_commands():
    return [Command("walk", "walk", run=lambda host, args: 0)]
"""
    options = []
    for name in ("first", "second"):
        path = written(
            ('key="room"', f'key="{name}"'),
            ("def warm", f"def {name}"),
            ("tools=[warm]", f"tools=[{name}]"),
            name=name,
        )
        path.write_text(path.read_text() + hook)
        options += ["--plugin", path]
    _, out, _ = toolstile("check", "first", "second", "--json", *options, plugin=False)
    first, second = (json.loads(line)["findings"] for line in out.splitlines())
    assert first == []
    assert [(each["where"], each["cause"]) for each in second] == [
        ("offers", "It offers the command 'walk', which plugin 'first' has already.")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "where", "told"),
    [
        (MISSPELT, "hooks", "There is no hook toolstile_setings."),
        (ARGUMENT, "hooks", r"has no argument sittings; .* Did you mean settings\?"),
        (UNMARKED, "hooks", "toolstile_settings is not marked with @hookimpl"),
        (NO_NAME, "import", r"NoSuchModel.*room\.py, line 4\.$"),
        (NO_SYNTAX, "import", r"SyntaxError.*room\.py, line \d+\.$"),
        (NO_MODULE, "import", "No module named 'no_such_module'"),
        (NO_TYPE, "import", "argument 'degrees' has no type"),
        (MUTABLE, "import", r"ValueError: mutable default.*room\.py, line \d+\.$"),
        (NO_FIELD, "import", r"PydanticUserError: .*room\.py, line \d+\.$"),
        (RAISING, "offers", "OSError: off"),
        (UNDECLARED, "settings", "toolstile_sections takes settings, which are always None"),
        (BARE, "tool warm", "Its argument degrees has no description"),
        (NOT_TAKEN, "tool warm", r"^The docstring describes unit, which it does not take\.$"),
        (UNDOCUMENTED, "settings", "The key title of Settings is documented nowhere"),
        (NO_SUCH_TYPE, "settings", "settings, Settings, names flot, which is not defined"),
        (NO_DOCSTRING, "settings", "Settings has no docstring"),
        (INTERNAL, "imports", r"imports toolstile\.host \(line 7\), which may change"),
        (NO_SCHEMA, "tool warm", 'The JSON Schema of its params is not valid .*"number-ish"'),
        (NO_RESULT_SCHEMA, "tool warm", "Its result has no JSON Schema: Cannot generate"),
        (NO_PROMPT, "prompt", "nobody"),
        (BROKEN_SETUP, "prompt", "cannot be rendered, or set up: ZeroDivisionError"),
        (BROKEN_ENABLED, "prompt", "ZeroDivisionError"),
        (WRONG_SETUP, "offers", "Section 'room': on_session does not take the session"),
    ],
)
def test_a_fault_is_named(written, findings, change, where, told):
    found = findings(written(change))
    assert [place for place, _ in found] == [where], found
    assert re.search(told, found[0][1]), found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    return [Mark", "    raise OSError('off')\n    return [Mark"),
        (
            "@hookimpl",
            "@hookimpl\ndef toolstile_dialects():\n    raise OSError('off')\n\n@hookimpl",
        ),
    ],
)
def test_the_author_is_told_where_a_hook_raised(written, toolstile, before, after):
    source = GOOD.replace(before, after, 1)
    path = written((GOOD, source))
    _, out, _ = toolstile("check", "room", "--json", "--plugin", path, plugin=False)
    (finding,) = json.loads(out)["findings"]
    line = source.splitlines().index("    raise OSError('off')") + 1
    assert finding["where"] == "offers"
    assert finding["remedy"] == f"Fix it in {path}, line {line}."


def test_all_faults_are_named_at_once(written, findings):
    path = written(MISSPELT, ARGUMENT, INTERNAL)
    assert [where for where, _ in findings(path)] == ["hooks", "hooks", "imports"]


def test_a_clash_names_the_other(written, findings):
    other = written(('key="room"', 'key="other"'), name="another")
    ((where, told),) = findings(written(), other)
    assert findings(other) == []
    assert where == "offers"
    assert "the tool 'warm', a name that plugin 'another' has already" in told


def test_the_author_of_a_tool_whose_name_is_taken_is_told_to_rename_it_first(written, toolstile):
    other = written(('key="room"', 'key="other"'), name="another")
    options = ["--plugin", other, "--plugin", written()]
    _, out, _ = toolstile("check", "room", "--json", *options, plugin=False)
    (finding,) = json.loads(out)["findings"]
    assert finding["remedy"] == (
        'If the plugin is yours, give the tool another name there. Or write prefix = "x_" into '
        "[plugins.room] of the configuration, or switch one of the two off with TOOLSTILE_BLOCK."
    )


@pytest.mark.parametrize("change", [("", ""), MISSPELT])
def test_a_file_that_is_named_twice_is_checked_once(written, folder, toolstile, change):
    path = written(change)
    (folder / "toolstile.toml").write_text('plugin_files = ["room.py"]\n')
    _, out, _ = toolstile("check", "room", "--json", "--plugin", path.name, plugin=False)
    assert len(out.splitlines()) == 1


def test_the_configuration_is_told_from_the_plugin(folder, toolstile, written):
    path = written()
    (folder / "toolstile.toml").write_text("[plugins.room]\ndegrees = 'warm'\n[plugins.roof]\n")
    status, out, _ = toolstile("check", "room", "roof", "--plugin", path, "--json", plugin=False)
    found = {each["name"]: each["findings"] for each in map(json.loads, out.splitlines())}
    assert status == 1
    assert [each["where"] for each in (*found["room"], *found["roof"])] == ["configuration"] * 2
    assert "degrees" in found["room"][0]["cause"]
    assert "Did you mean 'room'?" in found["roof"][0]["remedy"]


def test_the_author_is_told_of_a_setting_that_keeps_hosts_from_opening(folder, toolstile, written):
    path = written(('title: str = "The room"', "title: str"))

    def finding():
        _, out, _ = toolstile("check", "room", "--plugin", path, "--json", plugin=False)
        return json.loads(out)["findings"][0]

    assert finding()["remedy"].endswith(
        "Where a key can have a default, give it one in the plugin: without, "
        "no host opens where the plugin is installed and not configured."
    )
    (folder / "toolstile.toml").write_text("[plugins.room]\ndegrees = 'warm'\n")
    assert finding()["remedy"] == "Correct it there."


def test_what_is_deprecated_is_named(folder, written):
    path = written()
    with Host(settings=Settings(plugin_files=(path,)), discover=["planning"]) as host:
        (report,) = [each for each in host.plugins.reports if each.name == "room"]
        old = "toolstile_old has another name from now on: toolstile_new."
        host.plugins.manager.hook.toolstile_settings.spec.warn_on_impl = Warning(old)
        (finding,) = findings_in(host, report)
    assert (finding.subject, finding.text) == ("hooks", old)
    assert finding.remedy


def test_what_a_plugin_prints_is_no_part_of_the_answer(toolstile, written):
    path = written(MISSPELT, ("from pydantic", "print('hello')\nfrom pydantic"))
    _, out, err = toolstile("check", "room", "--plugin", path, "--json", plugin=False)
    assert len(out.splitlines()) == 1
    assert err.count("hello") == 2


def test_without_names_all_are_checked(toolstile, written):
    path = written(BARE)
    status, out, _ = toolstile("check", "--plugin", path, "--block", "vfs", plugin=False)
    assert status == 1
    assert re.search(r" vfs +⊘ blocked .*switched off", out)
    assert re.search(r" room +✗ to fix .* tool warm: Its argument degrees", out)
    assert out.splitlines()[-1].endswith(" plugins: 1 thing to fix in 1 of them")


def test_an_unknown_name_is_told_with_the_nearest(toolstile):
    status, out, err = toolstile("check", "planing", plugin=False)
    assert (status, out) == (2, "")
    assert "there is no plugin 'planing'; did you mean 'planning'?" in err
    assert "after `python -m pip install -e .` in its folder" in err


# --- installed distributions ---------------------------------------------------------------


@pytest.fixture
def install(folder, monkeypatch):
    """Installs a distribution as pip leaves it: a package and its metadata."""
    site = folder / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def install(
        name,
        *,
        requires="toolstile>=0.1,<0.2",
        typed=True,
        source=GOOD,
        entry=None,
        group="toolstile",
        plugin=None,
    ):
        package = site / name
        package.mkdir()
        (package / "__init__.py").write_text(source, encoding="utf-8")
        if typed:
            (package / "py.typed").touch()
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        metadata += [f"Requires-Dist: {requires}"] if requires else []
        (info / "METADATA").write_text("\n".join([*metadata, ""]))
        (info / "entry_points.txt").write_text(f"[{group}]\n{plugin or name} = {entry or name}\n")
        importlib.invalidate_caches()

    yield install
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(site)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "where", "told"),
    [
        ({}, None, None),
        ({"requires": "toolstile[mcp] (>=0.1)"}, None, None),
        ({"requires": "toolstile"}, "package", "does not say which versions of toolstile it works"),
        ({"requires": "toolstile-other>=1"}, "package", "does not say that it needs toolstile"),
        ({"requires": ""}, "package", "does not say that it needs toolstile"),
        ({"typed": False}, "package", r"room_kit has no file py\.typed"),
        ({"source": "import no_such_module"}, "import", "No module named 'no_such_module'"),
        ({"source": f"import toolstile\n{GOOD}"}, "imports", r"imports toolstile \(line 1\)"),
    ],
)
def test_what_an_installed_package_lacks_is_named(toolstile, install, options, where, told):
    install("room_kit", **options)
    status, out, _ = toolstile("check", "room_kit", "--json", plugin=False)
    (report,) = map(json.loads, out.splitlines())
    assert (report["distribution"], report["version"]) == ("room_kit", "1.0")
    found = [(each["where"], each["cause"]) for each in report["findings"]]
    if where is None:
        assert (status, found) == (0, [])
    else:
        assert status == 1
        assert [place for place, _ in found] == [where]
        assert re.search(told, found[0][1]), found


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["room_kti", "room_kit.hooks", "room_kit:hooks", "room kit"])
def test_an_entry_point_that_names_what_is_not_there_is_to_be_mended(toolstile, install, entry):
    install("room_kit", entry=entry)
    _, out, _ = toolstile("check", "room_kit", "--json", plugin=False)
    (finding,) = [each for each in json.loads(out)["findings"] if each["where"] == "import"]
    assert finding["remedy"] == (
        f'Fix the entry point `room_kit = "{entry}"` in pyproject.toml, or add the module '
        "that it names; then install it again."
    )


@pytest.mark.parametrize("name", ["room-kit", "toolstile-room-kit", "Toolstile.Room_Kit"])
def test_a_package_without_an_entry_point_is_told_what_to_write(toolstile, install, name):
    install("toolstile_room_kit", group="toolyrad", plugin="room-kit")
    status, out, err = toolstile("check", name, plugin=False)
    assert (status, out) == (2, "")
    assert err == (
        f"toolstile: error: there is no plugin {name!r}: toolstile_room_kit 1.0 is installed, but "
        "has no entry point in the group 'toolstile'. Write `[project.entry-points.toolstile]` and "
        'below it `room-kit = "toolstile_room_kit"`, the module that has the hooks, into its '
        "pyproject.toml; then install it again.\n"
    )


def test_the_name_of_a_package_stands_for_the_plugins_that_it_brings(toolstile, install):
    install("toolstile_room_kit", plugin="room")
    status, out, _ = toolstile("check", "toolstile-room-kit", "--json", plugin=False)
    assert (status, json.loads(out)["name"]) == (0, "room")
    status, _, err = toolstile("check", "room-kit", plugin=False)
    assert status == 2
    assert err.endswith(
        "there is no plugin 'room-kit'; toolstile_room_kit 1.0 is installed and brings 'room'.\n"
    )
