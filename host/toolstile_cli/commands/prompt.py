"""`toolstile prompt`: the sections of all plugins, as a model reads them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from toolstile.host import Host
from toolstile.prompt_overrides import hash_of, text_of
from toolstile_cli.errors import UsageError
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import Prompt, Section


def prompt(host: Host, args: argparse.Namespace) -> int:
    """Print the prompt of a new session; with `--json`, its text and the names of its tools."""
    if args.overrides and args.out is not None:
        raise UsageError(
            "--overrides prints a file of TOML, and --json nothing but JSON; leave one of them out."
        )
    if args.overrides:
        sys.stdout.writelines(f"{line}\n" for line in skeleton(host.original_prompt))
        return Exit.OK
    with host.executor() as tools:
        rendered = tools.prompt.render(tools.session, tools.resources)
    if args.out is not None:
        names = [tool.name for tool in rendered.tools]
        args.out.write({"text": rendered.text, "tools": names})
    else:
        sys.stdout.write(f"{rendered.text}\n")
    return Exit.OK


def skeleton(prompt: Prompt) -> Iterator[str]:
    """Yield the lines of a file that overrides every text of the prompt with itself."""
    name = f'prompts."{prompt.ns}/{prompt.key}"'
    for path, section in _with_paths(prompt.sections, ""):
        template = text_of(section)
        if template is not None and getattr(section, "accepts_overrides", False):
            yield from _entry(f'{name}.sections."{path}"', "text", template)
        for tool in section.tools:
            if tool.accepts_overrides:
                yield from _entry(f"{name}.tools.{tool.name}", "description", tool.description)


def _entry(table: str, key: str, text: str) -> Iterator[str]:
    yield f"[{table}]"
    yield f'hash = "{hash_of(text)}"'
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    yield f"{key} = " + (f'"""\n{escaped}"""' if "\n" in text else f'"{escaped}"')
    yield ""


def _with_paths(sections: Sequence[Section], place: str) -> Iterator[tuple[str, Section]]:
    for section in sections:
        path = f"{place}{section.key}"
        yield path, section
        yield from _with_paths(section.children, f"{path}.")
