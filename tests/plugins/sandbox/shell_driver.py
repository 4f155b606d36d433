"""Runs commands as it is told on standard input, a JSON object a line, and prints their results.

A program of its own, since a test that runs as root has to be started as an ordinary user, too.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall
from toolstile_plugins import sandbox, vfs


def answer(call: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Run a command in a host of its own."""
    host = Host(settings=settings, discover=False)
    # They are not found: the installation may lie where only root can read.
    for name, plugin in (("sandbox", sandbox), ("vfs", vfs)):
        host.register(plugin, name)
    with host, host.executor() as executor:
        outcome = executor.dispatch(ToolCall("shell_execute", call))
    value: Any = outcome.result.value
    return {
        "status": outcome.status,
        "text": outcome.text,
        "value": None if value is None else json.loads(outcome.event.data or "null"),
    }


def tell(told: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


def main() -> None:
    """Do what standard input says, as the user of the number given, if one is."""
    logging.disable()
    settings, trial = (Settings(plugins=json.loads(told)) for told in sys.argv[1:3])
    # What is imported late may lie where only root can read.
    tell(answer({"command": ["touch", "tried"]}, trial))
    if len(sys.argv) > 3:
        user = int(sys.argv[3])
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    for line in sys.stdin:
        tell(answer(json.loads(line), settings))


if __name__ == "__main__":
    main()
