"""`toolstile tools`: the tools that can be called."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from typing import Any

from pydantic import PydanticUserError
from rich.text import Text

from toolstile.host import Host
from toolstile_cli.console import Column, Table, Terminal, widest
from toolstile_cli.errors import say
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import Tool
from toolstile_hookspecs.support.text import counted, printable
from toolstile_hookspecs.tools import HostDefault

CONSEQUENCES = {"low": "dim", "medium": "", "high": "yellow"}


def tools(host: Host, args: argparse.Namespace) -> int:
    """List the tools, or print them in a provider's format with `--schema`."""
    if args.schema is not None:
        dialect, offered = host.dialect(args.schema), _offered(host)
        fit = [tool for tool in offered if _schema(tool, "error") is not None]
        schemas = dialect.schemas(fit)
        if args.out is None:
            sys.stdout.write(json.dumps(schemas, indent=2) + "\n")
        else:
            for schema in schemas:
                args.out.write(schema)
        return Exit.OK if len(fit) == len(offered) else Exit.USAGE
    if args.out is not None:
        for tool in _offered(host):
            args.out.write(_described(tool, host))
    else:
        _print_table(host)
    return Exit.OK


def _offered(host: Host) -> list[Tool[Any, Any]]:
    """Return all tools as a model is shown them, with the descriptions that are overridden."""
    shown = {tool.name: tool for section in host.prompt.everywhere() for tool in section.tools}
    return [shown[tool.name] for tool in host.catalog if tool.name in shown]


def _described(tool: Tool[Any, Any], host: Host) -> dict[str, Any]:
    default = host.configuration.timeout
    seconds = default if isinstance(tool.timeout, HostDefault) else tool.timeout
    return {
        "name": tool.name,
        "description": tool.description,
        "plugin": host.catalog.plugin_of(tool.name),
        "category": tool.category,
        "consequenceLevel": tool.consequence,
        "requiresConfirmation": tool.requires_confirmation,
        "timeout": None if seconds is None or seconds == math.inf else round(seconds * 1000),
        "tags": list(tool.tags),
        "version": tool.version,
        "dependsOn": list(tool.depends_on),
        "schema": _schema(tool),
    }


def _schema(tool: Tool[Any, Any], kind: str = "warning") -> dict[str, Any] | None:
    """Return the JSON Schema of the params, or None where they have none, which is said."""
    try:
        return tool.params_codec.schema()
    except PydanticUserError as error:
        say(
            kind,
            f"the params of {tool.name} have no JSON Schema ({error.message.rstrip('.')}). Use "
            "types that JSON has, or give a schema with pydantic's WithJsonSchema.",
        )
        return None


def _print_table(host: Host) -> None:
    terminal = Terminal()
    found = _offered(host)
    if not found:
        terminal.print("No plugin offers a tool. `toolstile plugins` lists the plugins.")
        _print_withheld(host, terminal)
        return
    plugins = [printable(host.catalog.plugin_of(tool.name) or "") for tool in found]
    table = Table(
        terminal,
        [
            Column("tool", widest([tool.name for tool in found], 32)),
            Column("category", widest([tool.category for tool in found], 16)),
            Column("consequence", 11),
            Column("plugin", widest(plugins, 20)),
        ],
        "what it does",
    )
    table.head()
    for tool, plugin in zip(found, plugins, strict=True):
        cells = [
            Text(tool.name, "bold cyan"),
            Text(tool.category),
            Text(tool.consequence, CONSEQUENCES[tool.consequence]),
            Text(plugin, "dim"),
        ]
        texts = [
            Text(printable(tool.description)),
            Text(_arguments(tool), "dim"),
            Text(_labels(tool), "dim"),
        ]
        table.row(cells, [text for text in texts if text])
    terminal.print()
    terminal.print(Text(f" {counted(len(found), 'tool')}", "bold"))
    _print_withheld(host, terminal)


def _print_withheld(host: Host, terminal: Terminal) -> None:
    for remedy in dict.fromkeys(host.plugins.view.withheld.values()):
        terminal.print(Text(f" Not offered: {printable(remedy)}.", "dim"))


def _labels(tool: Tool[Any, Any]) -> str:
    """Return the version, the tags and the dependencies, `1.2.0; tags: mail; calls: send`."""
    lists = (("tags", tool.tags), ("calls", tool.depends_on))
    labels = [tool.version or "", *(f"{name}: {', '.join(each)}" for name, each in lists if each)]
    return printable("; ".join(filter(None, labels)))


def _arguments(tool: Tool[Any, Any]) -> str:
    """Return the names of the arguments, `(product, quantity?)`."""
    required = _required(tool)
    names = [name if needed else f"{name}?" for name, needed in required.items()]
    return printable(f"({', '.join(names)})") if names else ""


def _required(tool: Tool[Any, Any]) -> dict[str, bool]:
    """Return which arguments there are, and whether they must be given.

    Of a plain dataclass the fields tell; to make a schema takes far longer.
    """
    params = tool.signature.params
    if tool.params_schema is None and dataclasses.is_dataclass(params):
        absent = dataclasses.MISSING
        return {
            field.name: field.default is absent and field.default_factory is absent
            for field in dataclasses.fields(params)
            if field.init
        }
    schema = _schema(tool) or {}
    required = set(schema.get("required", ()))
    return {name: name in required for name in schema.get("properties", ())}
