"""The reference of the command line, from its parser with the commands of built-in plugins."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Set as AbstractSet
from importlib.metadata import entry_points

from documenting.built_in import built_in
from documenting.pages import Page
from toolstile import Host, Settings
from toolstile_cli.options import common_options
from toolstile_cli.plugin_commands import with_extensions
from toolstile_cli.program import BUILT_IN

_INTRO = """\
What `toolstile --help` and `toolstile COMMAND --help` say, with the commands and options that the
built-in plugins add. [The guide](../how-to/command-line.md) shows them at work."""


def commands_page() -> Page:
    """Write the page."""
    page = Page("Commands")
    page.add(_INTRO)
    foreign = {each.name for each in entry_points(group="toolstile")} - {p.name for p in built_in()}
    with Host(settings=Settings(block=tuple(foreign))) as host:
        parser, _, _ = with_extensions(host.plugins.commands(), BUILT_IN)
    common = argparse.ArgumentParser(add_help=False)
    common_options(common)
    shared = {option for each in common._actions for option in each.option_strings}
    page.heading(2, "Options of all commands")
    page.add("They can stand before or after the command.")
    _add_arguments(page, "toolstile", common)
    _add_examples(page, parser)
    for command, says in _commands(parser):
        _add_command(page, f"toolstile {command}", _parsers(parser)[command], says, shared)
    return page


def _add_command(
    page: Page, name: str, parser: argparse.ArgumentParser, says: str, shared: AbstractSet[str]
) -> None:
    inner = list(_commands(parser))
    page.heading(2 + name.count(" ") - 1, name)
    page.says(name, says)
    page.add(parser.description or f"{says[:1].upper()}{says[1:].rstrip('.')}.")
    _add_arguments(page, name, parser, shared)
    _add_examples(page, parser)
    for command, text in inner:
        _add_command(page, f"{name} {command}", _parsers(parser)[command], text, shared)


def _add_arguments(
    page: Page, name: str, parser: argparse.ArgumentParser, shared: AbstractSet[str] = frozenset()
) -> None:
    listed = [
        each
        for each in parser._actions
        if not isinstance(each, (argparse._SubParsersAction, argparse._HelpAction))
        and shared.isdisjoint(each.option_strings)
        and each.help is not argparse.SUPPRESS
    ]
    for head, wanted in (("argument", False), ("option", True)):
        rows = [each for each in listed if bool(each.option_strings) is wanted]
        page.table(
            (head, ""), ((f"`{_shown(each)}`", _help(page, name, parser, each)) for each in rows)
        )


def _shown(action: argparse.Action) -> str:
    """Return an option or argument as it is given."""
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    names = metavar if isinstance(metavar, str) else " ".join(metavar)
    if not action.option_strings:
        return names if action.nargs not in {"?", "*"} else f"[{names}]"
    options = ", ".join(action.option_strings)
    return options if action.nargs == 0 else f"{options} {names}"


def _help(page: Page, name: str, parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    what = action.option_strings[-1] if action.option_strings else _shown(action)
    text = page.says(f"{name} {what}", action.help)
    return text % {**vars(action), "prog": parser.prog} if "%(" in text else text


def _add_examples(page: Page, parser: argparse.ArgumentParser) -> None:
    """Append the examples that stand below a parser's help."""
    if parser.epilog and parser.epilog.startswith("examples:"):
        page.block("text", parser.epilog)


def _sub(
    parser: argparse.ArgumentParser,
) -> Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]:
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            yield each


def _parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {name: each for action in _sub(parser) for name, each in action.choices.items()}


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the name and help of each command of a parser."""
    for action in _sub(parser):
        for choice in action._choices_actions:
            yield choice.dest, choice.help or ""
