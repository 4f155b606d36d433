"""The settings of agents with our hook, and without it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, cast

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.process import replaced
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.hook.agents import AGENTS, Agent
from toolstile_plugins.hook.client import private, state_folder

INSTALLED: Final = "installed.json"
SCRIPT: Final = Path(__file__).with_name("hook.sh")
LIMIT: Final = 30
"""Seconds after which the command of a hook refuses a call; the client ends before."""
_OF_AGENT: Final = 60


def command_for(agent: Agent, *, refuses: bool) -> str:
    """Return the shell command of a hook, which refuses the event if anything of it fails."""
    status = 2 if refuses else 1
    words = ["sh", str(SCRIPT), sys.executable, agent.name, str(LIMIT), str(status)]
    return f"{shlex.join(words)} || exit {status}"


def with_hook(agent: Agent, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's settings with our hook, once."""
    settings = without_hook(settings)
    hooks = dict(settings.get("hooks", {}))
    for event, kind in agent.EVENTS.items():
        refuses = kind in {"before", "settings"}
        hook: dict[str, Any] = {
            "type": "command",
            "command": command_for(agent, refuses=refuses),
            "timeout": _OF_AGENT * agent.second,
        }
        # Even if `sh` is killed, the versions that know the keys refuse the call.
        hook |= agent.refusing if refuses else {}
        group = {"matcher": ".*" if "Tool" in event else "*", "hooks": [hook]}
        hooks[event] = [*hooks.get(event, []), group]
    return {**settings, "hooks": hooks}


def without_hook(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's settings without our hook; everything else stays."""
    left = dict(settings)
    if "hooks" not in left:
        return left
    hooks: dict[str, Any] = {}
    for event, groups in left["hooks"].items():
        kept = [others for group in groups if (others := _without_ours(group))]
        if kept or not groups:
            hooks[event] = kept
    if hooks:
        left["hooks"] = hooks
    else:
        del left["hooks"]
    return left


def text_with_hook(agent: Agent, file: Path, before: str | None) -> str:
    """Return the text of an agent's settings with our hook; the same text if it is there."""
    settings = read_settings(file, before)
    after = with_hook(agent, settings)
    if before is not None and after == settings:
        return before
    return json.dumps(after, indent=2, ensure_ascii=False) + "\n"


def diff_of(file: Path, before: str | None, after: str | None) -> list[str]:
    """Return the lines of the difference of two texts of a file, for people."""
    old, new = (before or "").splitlines(), (after or "").splitlines()
    return [*map(printable, unified_diff(old, new, str(file), str(file), n=1, lineterm=""))]


def _without_ours(group: Any) -> Any:
    """Return a group of hooks without ours; None if no other is in it."""
    if not _is_ours(group):
        return group
    others = [hook for hook in group["hooks"] if not _is_ours(hook)]
    return {**group, "hooks": others} if others else None


def _is_ours(part: Any) -> bool:
    return SCRIPT.name in str(part) and "toolstile_plugins" in str(part)


def text_of(file: Path) -> str | None:
    """Return the text of a file with its ends of lines; None without the file."""
    return file.read_bytes().decode() if file.exists() else None


def read_settings(file: Path, text: str | None) -> dict[str, Any]:
    """Return the settings in the text of a file; raise `ConfigurationError` for anything else."""
    try:
        found: object = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigurationError(
            f"{file} is not valid JSON: {error}. Correct it there, then retry."
        ) from error
    settings = cast("dict[str, Any]", found)
    if not isinstance(found, dict) or not isinstance(settings.get("hooks", {}), dict):
        told = f"{file} has no JSON object, or none for its hooks. Correct it there, then retry."
        raise ConfigurationError(told)
    return settings


def write_settings(file: Path, text: str) -> None:
    """Replace the text of a file, at once and with its mode."""
    file = file.resolve()  # a link stays a link
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced(file, 0o644) as new:  # all users read the settings of a machine
        new.write(text.encode())


def write_hook(agent: Agent, file: Path, before: str | None, after: str) -> None:
    """Write an agent's settings with our hook, and note the settings before."""
    note_installed(file, {"agent": agent.name, "before": before, "after": after})
    write_settings(file, after)


def missing(agent: Agent, settings: Mapping[str, Any]) -> list[str]:
    """Return the events for which an agent's settings have no line of ours."""
    there, wanted = settings.get("hooks", {}), with_hook(agent, {})["hooks"]
    return [name for name, (group,) in wanted.items() if group not in there.get(name, ())]


def hooked(project: Path) -> Iterator[tuple[Agent, Path, bool]]:
    """Yield the agents with our hook: their settings, and whether all lines are there."""
    for agent in AGENTS.values():
        for scope in agent.files:
            with suppress(ConfigurationError, OSError):  # doctor reports broken settings
                file = agent.settings_file(scope, project)
                settings = read_settings(file, text_of(file))
                if without_hook(settings) != settings:
                    yield agent, file, not missing(agent, settings)


def switches_off(agent: Agent, file: Path) -> bool:
    """Tell whether changed settings would switch our hook off."""
    try:
        settings = read_settings(file, text_of(file))
    except (OSError, ValueError):
        return True
    lost = str(file) in installed() and missing(agent, settings)
    return bool(lost or settings.get("disableAllHooks"))


def installed() -> dict[str, Any]:
    """Return the notes about the settings with our hook, by their files."""
    return notes_in(Path(state_folder(), INSTALLED))


def notes_in(file: Path) -> dict[str, Any]:
    """Return the notes in a JSON file of ours; none if it is missing or broken."""
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found


def note_installed(file: Path, noted: Mapping[str, Any] | None) -> None:
    """Note the settings before and after, while the hook is installed there."""
    private(state_folder())
    left = installed()
    if noted is None:
        left.pop(str(file), None)
    else:
        first = left.get(str(file), {"before": noted["before"]})
        left[str(file)] = {**noted, "before": first["before"]}
    place = Path(state_folder(), INSTALLED)
    if left:
        place.write_text(json.dumps(left))
    else:
        place.unlink(missing_ok=True)
