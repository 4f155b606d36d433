"""Options of plugins can change the configuration of the run they are given to."""

import json

import pytest

from toolstile.settings import Settings
from toolstile_cli.options import MORE
from toolstile_cli.plugin_commands import without_configured

PLUGIN = '''
from pydantic import BaseModel

from toolstile_hookspecs import Command, MarkdownSection, hookimpl, tool


class Settings(BaseModel):
    word: str = "unset"
    number: int = 0


@hookimpl
def toolstile_settings():
    return Settings


@hookimpl
def toolstile_sections(settings):
    @tool(name="told")
    def told() -> str:
        """Tell the settings."""
        return f"{settings.word} {settings.number}"

    return [MarkdownSection(key="told", title="Told", tools=[told])]


def given(args):
    found = {}
    if args.word is not None:
        found["plugins.echo.word"] = args.word
    if args.number is not None:
        found["plugins.echo.number"] = args.number
    return found


def options(parser):
    parser.add_argument("--word")
    parser.add_argument("--number")


@hookimpl
def toolstile_commands():
    return [
        Command(
            "call",
            extends=True,
            configure=options,
            settings=given,
            defaults={"plugins.echo.word": "by default"},
        )
    ]
'''


@pytest.fixture
def echo(folder, toolstile):
    (folder / "echo.py").write_text(PLUGIN, encoding="utf-8")

    def run(*arguments, config=""):
        (folder / "toolstile.toml").write_text(config, encoding="utf-8")
        return toolstile("--plugin", "echo.py", "call", "told", *arguments)

    return run


@pytest.mark.slow
def test_a_default_fills_what_the_file_leaves_open(echo):
    assert echo()[1] == "by default 0\n"
    assert echo(config='[plugins.echo]\nword = "file"')[1] == "file 0\n"


def test_an_option_wins_over_the_file_and_leaves_the_rest(echo):
    config = '[plugins.echo]\nword = "file"\nnumber = 7'
    assert echo("--word", "mine", config=config)[1] == "mine 7\n"


@pytest.mark.slow
def test_an_option_wins_over_the_environment(echo, monkeypatch):
    monkeypatch.setenv("TOOLSTILE_PLUGINS__ECHO__WORD", "environment")
    assert echo()[1] == "environment 0\n"
    assert echo("--word", "mine")[1] == "mine 0\n"


def test_a_value_that_does_not_fit_is_told_with_its_source(echo):
    status, out, err = echo("--number", "many")
    assert (status, out) == (2, "")
    assert "the command line: plugins.echo.number: expected a whole number" in err


def test_options_that_cannot_be_added_are_told_in_a_sentence(toolstile, folder):
    broken = PLUGIN.replace('parser.add_argument("--word")', "raise ValueError('None today.')")
    (folder / "echo.py").write_text(broken, encoding="utf-8")
    _, _, err = toolstile("--plugin", "echo.py", "tools", plugin=False)
    assert "its options cannot be added: ValueError: None today. Fix the plugin." in err


@pytest.mark.parametrize("name", ["log", "out", "stopping"])
def test_an_option_in_the_place_of_what_is_the_hosts_is_left_out(toolstile, folder, name):
    clashing = PLUGIN.replace('parser.add_argument("--word")', f'parser.add_argument("--{name}")')
    (folder / "echo.py").write_text(clashing, encoding="utf-8")
    status, out, err = toolstile("--plugin", "echo.py", "call", "told", "--json", plugin=False)
    assert (status, json.loads(out)["data"]) == (0, "unset 0")
    assert (
        f"its options cannot be added: ValueError: --{name} would be args.{name}, which is the "
        "host's; give it another dest. Fix the plugin."
    ) in err


COMMAND = """
from toolstile_hookspecs import Command, hookimpl


async def late(host, args):
    return 0


@hookimpl
def toolstile_commands():
    return [Command("greet", "Say hello.", run={run})]
"""


@pytest.mark.parametrize(
    ("run", "kind"), [("lambda host, args: 'hello'", "str"), ("late", "coroutine")]
)
def test_what_a_command_returns_that_is_no_exit_status_is_told(toolstile, folder, run, kind):
    (folder / "mine.py").write_text(COMMAND.format(run=run), encoding="utf-8")
    status, out, err = toolstile("--plugin", "mine.py", "greet", plugin=False)
    assert (status, out) == (2, "")
    assert f"'greet' returned a value of type {kind}, which is not an exit status" in err


@pytest.mark.parametrize(("given", "status"), [("None", 0), ("True", 1), ("7", 7)])
def test_a_command_returns_its_exit_status_or_nothing(toolstile, folder, given, status):
    source = COMMAND.format(run=f"lambda host, args: {given}")
    (folder / "mine.py").write_text(source, encoding="utf-8")
    assert toolstile("--plugin", "mine.py", "greet", plugin=False)[0] == status


BENEATH = """
from toolstile_hookspecs import Command, hookimpl


def options(parser):
    parser.add_argument("--shade", choices={"dark": 1, "light": 2})
    parser.add_subparsers().add_parser("walls", description="Paint the walls.")


@hookimpl
def toolstile_commands():
    return [Command("paint", "paint a room", run=lambda host, args: 0, configure=options)]
"""


@pytest.fixture
def paint(toolstile, folder):
    """Run the command of a plugin that has another beneath it."""
    (folder / "paint.py").write_text(BENEATH)
    return lambda *words: toolstile("paint", *words, "--plugin", "paint.py", plugin=False)


def test_a_command_beneath_a_plugins_tells_of_the_options_of_all(paint):
    assert MORE in " ".join(paint("walls", "--help")[1].split())
    assert paint("--shade", "dark", "walls") == (0, "", "")


def test_what_such_a_command_does_not_take_is_told(paint):
    status, _, err = paint("--shade", "dark", "walls", "red")
    assert (status, "unrecognized arguments: red" in err) == (2, True)


def test_defaults_yield_to_what_is_configured():
    settings = Settings(timeout=3, plugins={"work-shop": {"root": "a"}})
    defaults = {"timeout": 9, "approver": "me", "plugins.work-shop.root": "b", "plugins.n.k": 1}
    assert without_configured(settings, defaults) == {"approver": "me", "plugins.n.k": 1}
