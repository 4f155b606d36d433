"""The files that govern an agent, which none of its calls may change."""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import time
import tomllib
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import dropwhile, product
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import (
    DefinitionError,
    HostHandle,
    PluginError,
    PolicyDecision,
    Tool,
    ToolContext,
    hookimpl,
)
from toolstile_plugins.hook.agents import AGENTS, Event
from toolstile_plugins.hook.client import state_folder
from toolstile_plugins.hook.install import SCRIPT, installed
from toolstile_plugins.policies.path_arguments import use_of
from toolstile_plugins.rules.rule import RulePolicy
from toolstile_plugins.rules.shell.lines import parsed
from toolstile_plugins.vfs.paths import Pattern

GOVERNING: Final = (
    "**/.claude/{settings,settings.local}.json",
    "**/.claude/hooks/**",
    "**/.claude.json",
    "**/{managed-settings,managed-mcp}.json",
    "**/.codex/{config.toml,hooks.json}",
    "**/.gemini/settings.json",
    "**/{.mcp,.cursor/mcp,.vscode/mcp}.json",
    "**/toolstile.toml",
    "**/.toolstile/**",
    "**/*-stops/{stops.json,*.slot}",
)
"""The settings of agents, and ours. Of a `pyproject.toml`, our table governs."""

_REPOSITORY: Final = re.compile(r"(?s:.*)/(?:\.git(?:/(?s:.*))?|head)", re.IGNORECASE)
"""A repository's files; git takes a folder with a HEAD for one, whose settings run programs."""

_BESIDE: Final = Pattern(
    "**/.{claude,codex,gemini}/{agents,commands,extensions,plugins,prompts,skills}/**"
)
"""Files with commands that agents run beside every hook, which no tool writes."""

_HOOK: Final = (SCRIPT, SCRIPT.with_name("client.py"))
_LINK: Final = b"a link to a folder"
_KEPT_BESIDE: Final = ("agents", "commands", "hooks", "skills")
_PACKAGES: Final = [
    Path(place).resolve()
    for name in ("toolstile", "toolstile_hookspecs", "toolstile_plugins")
    for place in getattr(find_spec(name), "submodule_search_locations", ())
] + [Path(sys.executable).parent.resolve(), Path(sys.executable).resolve()]
"""Our own program and its interpreter, which no tool writes."""

_KEPT: Final = (
    *(".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml"),
    *(".codex/hooks.json", ".gemini/settings.json", ".mcp.json", "toolstile.toml"),
    *(".cursor/mcp.json", ".vscode/mcp.json"),
)
_SETTINGS: Final = (
    *("settings.json", "hooks.json", "config.toml"),
    *("managed-settings.json", "requirements.toml"),
)
_MACHINE: Final = Path("/etc")
_CONFIGURATIONS: Final = ("toolstile.toml", "pyproject.toml")
_STOPS: Final = ".toolstile/stops"
_RECORD: Final = "governing"
_READERS: Final = frozenset(
    {
        *("[", "cat", "cd", "cksum", "cmp", "column", "cut", "diff", "du", "echo", "egrep"),
        *("fgrep", "file", "grep", "head", "jq", "less", "ls", "md5sum", "more", "pwd", "realpath"),
        *("rg", "sha256sum", "stat", "tail", "test", "tree", "true", "wc"),
    }
)
_GIT_READERS: Final = frozenset({"blame", "diff", "grep", "log", "ls-files", "show", "status"})
_BETWEEN: Final = re.compile(r"[;&|\n()`]+")
_WORDS: Final = re.compile(r"[\s<>=,:]*(?<=\s):/|[\s<>=,:]+")
_WRITTEN: Final = re.compile(r">(?!\s*(?:/dev/null|&\d)\b)")
_BRACES: Final = re.compile(r"\{[^{}\s]*\}")
_QUOTES: Final = re.compile(r"\\\n|[\"'\\]")
_IN_PYTHON: Final = re.compile(
    r"(?:import\s+toolstile|from\s+toolstile)(?s:.*)(?:\.go\(|approv|inbox|\.hook|_cli)",
    re.IGNORECASE,
)
_AGENTS: Final = frozenset({"claude", "codex", "gemini"})
_AGENT: Final = "The command may start another agent, which this hook need not govern."
_STARTS: Final = re.compile(
    r"-.*|\d+\w?|\w+=.*|[A-Z_]+|(?:\S*/)?(?:bash|bunx|command|env|exec|nice|nohup|npx|setsid|sh|sudo|time"
    r"|timeout|xargs)"
)
"""The words before the name of a program."""
_SHELL: Final = re.compile(r"(?:ba|da|fi|k|tc|z|c)?sh|python[\d.]*|node|irb|ruby|perl|script|tmux")
_TYPED: Final = (
    "This command would read further commands from its input, which no rule sees. Run each command "
    "by itself."
)
_REFUSED: Final = (
    "{tool} may not change {path}, which is protected. Do not change it; if the task needs that "
    "change, ask the user to make it."
)
_COMMAND: Final = (
    "This command would answer for the user, or loosen the rules for this agent. Continue without "
    "it; if the task needs it, ask the user to run it."
)


Command = tuple[list[str], bool]
"""The words of a command, and whether it is redirected to a file."""


class Protection:
    """The plugin that refuses changes of the files that govern an agent.

    Paths of tools are followed through links. A command is refused if it names such a file and does
    more than read it. Because a command can hide a name, the files are also kept while calls run,
    and put back after.
    """

    def __init__(self, host: HostHandle, workspace: Path, protected: Iterable[str]) -> None:
        self._host = host
        self._workspace = workspace.resolve()
        self._patterns = [Pattern(each.lstrip("/")) for each in (*GOVERNING, *protected)]
        self._secret = [Path(state_folder()).resolve(), *_folders(host)]
        homes = {self._workspace, Path.home().resolve()}
        self._roots = sorted(homes)
        self._above = (*homes, _MACHINE)
        # Of the configuration, and below: there, another would count instead.
        above = configuration(self._workspace)[0].parent
        folders = (self._workspace, *self._workspace.parents)
        self._folders = [each for each in folders if each.is_relative_to(above)]
        ours = (*_CONFIGURATIONS, f"{_STOPS}/stops.json")
        places = ((self._roots, _KEPT), (self._folders, ours))
        self._governing = [at / name for ats, names in places for at in ats for name in names]
        scopes = product(AGENTS.values(), ("user", "managed"))
        homes = {agent.settings_file(scope, workspace).parent for agent, scope in scopes}
        own = [at / name for at in sorted(homes) for name in _SETTINGS]
        self._governing += own
        folders = (*(root / ".claude" for root in self._roots), *homes)
        self._beside = [at / name for at in folders for name in _KEPT_BESIDE]
        self._settings = {each.resolve() for each in (*own, *map(Path, installed()), *_HOOK)}
        self._kept: dict[Path, bytes | None] = {}
        self.events: dict[str, Event] = {}
        """The events of calls on which the host decides, by the ids of the calls."""
        self.granted: set[str] = set()
        """The calls that a rule with `grant` allows, by their ids."""

    @hookimpl
    def toolstile_check(
        self, tool: Tool[Any, Any], params: Any, context: ToolContext
    ) -> PolicyDecision | None:
        """Deny a call that would change a protected file, or answer for the user."""
        call = context.tool_call
        event = None if call is None else self.events.get(call.id)
        if call is None or event is None:
            return None
        for rule in self._host.policies:
            if isinstance(rule, RulePolicy) and rule.grant and rule.selects(tool):
                decision = rule.check(tool, params, context=context)
                if decision.allowed and decision.reason:
                    self.granted.add(call.id)
        if (why := self._fault(tool, event)) is not None:
            return PolicyDecision.deny(why)
        return PolicyDecision.ask(_AGENT) if _starts_agent(event) else None

    def _fault(self, tool: Tool[Any, Any], event: Event) -> str | None:
        for name, value in event.arguments.items():
            if use_of(name, []) == "path" and isinstance(value, str):
                path = resolved(event.cwd, value)
                writes = tool.category != "read"
                if self._is_secret(path) or (
                    writes
                    and (self._governs(path) or self._is_beside(path) or _in_repository(path))
                ):
                    return _REFUSED.format(tool=event.tool, path=value)
        faults = (self._fault_of_line(line, event) for line in _lines_of(event))
        return next(filter(None, faults), None)

    def _fault_of_line(self, line: str, event: Event) -> str | None:
        plain = _QUOTES.sub("", line)
        lines = _BETWEEN.split(plain)
        if _IN_PYTHON.search(plain):
            return _COMMAND
        if event.types and any(_is_shell(each.split()) for each in lines):
            return _TYPED
        folders = [event.folder]
        for words, writes in (*_plainly(lines), *_parsed(line)):
            if self._decides(words):
                return _COMMAND
            meant = ((word, at) for each in folders for word in words for at in _paths(each, word))
            for word, path in meant:
                if self._is_secret(path) or ((writes or not _reads(words)) and self.names(path)):
                    return _REFUSED.format(tool=event.tool, path=word)
            if words[:1] in (["cd"], ["pushd"]) and len(words) > 1:
                folders.append(str(resolved(folders[-1], words[1])))
        return None

    def _decides(self, words: Sequence[str]) -> bool:
        """Tell whether a command runs ours, after any options, with words that are for a person."""
        ours = (at for at, word in enumerate(words) if word.rpartition("/")[2] == "toolstile")
        first = next(ours, len(words))
        return any(self._host.decides(words[at:]) for at in range(first + 1, len(words)))

    def names(self, path: Path) -> bool:
        """Tell whether a word names a protected file, or a folder around one."""
        files = [each for each in self._governing if each.name != "pyproject.toml"]
        around = any(each.is_relative_to(path) for each in (*files, *self._secret))
        is_above = any(each.is_relative_to(path) for each in self._above)
        return self._governs(path) or (around and not is_above)

    def _governs(self, path: Path) -> bool:
        inside = path.is_relative_to(self._workspace)
        names = [str(path).lstrip("/")]
        names += [str(path.relative_to(self._workspace))] if inside else []
        holds_ours = path.name == "pyproject.toml" and _part(path, _bytes(path)) is not None
        return (
            path in self._settings
            or holds_ours
            or any(
                each.matches(name.lower()) or each.matches(name)
                for each in self._patterns
                for name in names
            )
        )

    def _is_beside(self, path: Path) -> bool:
        """Tell whether a file may run beside every hook, or is of our own program."""
        # Commands run such files, so these are only put back after them.
        return _BESIDE.matches(str(path).lstrip("/").lower()) or any(
            path.is_relative_to(each) for each in (*self._beside, *_PACKAGES)
        )

    def _is_secret(self, path: Path) -> bool:
        """Tell whether a path is of our own state, which holds keys and may not be read either."""
        return any(path.is_relative_to(each) for each in self._secret)

    # --- Kept while calls run

    def stamp(self) -> list[object]:
        """Return the configuration and the slot: if they change, the helper is outdated."""
        self._host.stops()  # which makes the slot, without which it would hear of no stop
        slots = (sorted(each.glob(f"{_STOPS}/{os.getpid()}-*.slot")) for each in self._folders)
        files = (each / name for each in self._folders for name in _CONFIGURATIONS)
        return [*(_part(file, _bytes(file)) for file in files), *slots]

    def _held(self) -> Iterator[Path]:
        """Yield the files to put back; of folders, their files of now."""
        yield from (*self._governing, *_HOOK)
        for folder in self._beside:
            yield from (each for each in folder.rglob("*") if _bytes(each) is not None)

    def hold(self) -> None:
        """Put back the program of the hook while calls run: without it, no call would end here."""
        for file in _HOOK if self._kept else ():
            if (before := self._kept.get(file)) is not None and _bytes(file) != before:
                file.write_bytes(before)

    def keep(self, folder: Path | None) -> None:
        """Keep the governing files as they are before the first of the calls that run."""
        self._kept = {file: _bytes(file) for file in self._held()}
        if folder is not None:
            kept = {str(file): content for file, content in self._kept.items()}
            (folder / _RECORD).write_text(ascii(kept))

    def load(self, folder: Path) -> None:
        """Read the files that a helper had kept which was killed while calls ran."""
        with suppress(OSError, ValueError, SyntaxError):
            kept: dict[str, bytes | None] = literal_eval((folder / _RECORD).read_text())
            self._kept = {Path(file): content for file, content in kept.items()}

    def put_back(self, folder: Path, *, at_terminal: bool) -> list[str]:
        """Put back the governing files that have changed since; return their names.

        Because a person may have made the change, its bytes are kept in a folder. At a terminal,
        the agent itself notes the permissions that the person gives.
        """
        back: list[str] = []
        for file in dict.fromkeys((*self._kept, *(self._held() if self._kept else ()))):
            before, now = self._kept.get(file), _bytes(file)
            is_given = at_terminal and _only_permissions(file, before, now)
            if is_given or before == _LINK or not _is_other(file, before, now):
                continue
            back.append(str(file))
            with suppress(OSError):
                if now is not None:
                    (folder / f"{file.name}-{time.time_ns()}").write_bytes(now)
                if before is None:
                    file.unlink()
                else:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(before)
        self._kept = {}
        (folder / _RECORD).unlink(missing_ok=True)
        return back


def configuration(project: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return the configuration that counts in a project; a new file if there is none."""
    for folder in (project, *project.parents):
        for name in _CONFIGURATIONS:
            with suppress(OSError, ValueError, KeyError):
                data = tomllib.loads((folder / name).read_text(encoding="utf-8-sig"))
                is_own = name == "toolstile.toml"
                return folder / name, data if is_own else data["tool"]["toolstile"]
    return project / "toolstile.toml", {}


def _folders(host: HostHandle) -> Iterator[Path]:
    """Yield the places of undo's contents and of the inbox with its key, by the configuration."""
    for plugin, names in {"undo": ("directory",), "inbox": ("path", "key_file")}.items():
        with suppress(PluginError):
            settings = host.settings(plugin)
            places = (getattr(settings, name, None) for name in names)
            yield from (Path(place).resolve() for place in places if place is not None)


def _in_repository(path: Path) -> bool:
    beside = any((folder / "HEAD").exists() for folder in path.parents[:2])
    return beside or _REPOSITORY.fullmatch(str(path)) is not None


def resolved(cwd: str, text: str) -> Path:
    """Return the file or folder that a text means in a directory, without links."""
    return Path(os.path.realpath(os.path.join(cwd, os.path.expanduser(text))))  # noqa: PTH111, PTH118


def _plainly(lines: Iterable[str]) -> Iterator[Command]:
    """Yield the commands of a line as its words stand in it, also where no shell would see one."""
    for part in lines:
        words = [word for word in _WORDS.split(_BRACES.sub("*", part)) if word]
        yield words, _WRITTEN.search(part) is not None


def _parsed(line: str) -> Iterator[Command]:
    """Yield the commands of a line as a shell reads it, if the library for this is installed."""
    with suppress(DefinitionError):
        for command in parsed(line).commands:
            targets = [target.text for _, target in command.redirections]
            writes = any(">" in operator for operator, _ in command.redirections)
            yield [word.text for word in (*command.words, *command.assignments)] + targets, writes


def _paths(cwd: str, word: str) -> Iterator[Path]:
    """Yield the paths that a word of a command may stand for."""
    word = re.sub(r"\$\{?HOME\}?|^~(?=/|$)", lambda _: os.path.expanduser("~"), word)  # noqa: PTH111
    word = re.sub(r"\$\{?PWD\}?", lambda _: cwd, word)
    pattern = re.sub(r"\{[^/]*\}|\$\w+|\$$", "*", word)
    yield resolved(cwd, word)
    if pattern.strip("*./") and any(char in pattern for char in "*?["):
        for found in glob.iglob(pattern, root_dir=cwd, include_hidden=True):  # noqa: PTH207 - relative
            yield resolved(cwd, found)


def _reads(words: Sequence[str]) -> bool:
    if words[:1] == ["git"]:
        return words[1:2] != [] and words[1] in _GIT_READERS and "--output" not in words
    return not words or words[0] in _READERS


def _lines_of(event: Event) -> Iterator[str]:
    """Yield the lines of a shell in a call; a list of words stands for its line."""
    for name, value in event.arguments.items():
        if use_of(name, []) == "command":
            yield value if isinstance(value, str) else " ".join(map(str, value))


def _starts_agent(event: Event) -> bool:
    """Tell whether a command may run an agent: under any settings, or to change its own."""
    for part in _BETWEEN.split(_QUOTES.sub("", "\n".join(_lines_of(event)))):
        before = dropwhile(_STARTS.fullmatch, part.split())
        if next(before, "").rpartition("/")[2] in _AGENTS:
            return True
    return False


def _is_shell(words: Sequence[str]) -> bool:
    """Tell whether a command is a shell or an interpreter that reads commands from its input."""
    given = [word for word in words if not word.startswith("-")]
    name = given[-1].rpartition("/")[2] if given else ""
    return _SHELL.fullmatch(name) is not None and "-c" not in words


def _only_permissions(file: Path, before: bytes | None, now: bytes | None) -> bool:
    """Tell whether two texts of an agent's settings differ in its permissions alone."""
    if file.name not in {"settings.json", "settings.local.json"} or now is None:
        return False
    with suppress(ValueError, AttributeError):
        old, new = (json.loads(text or b"{}") for text in (before, now))
        return bool({**old, "permissions": None} == {**new, "permissions": None})
    return False


def _is_other(file: Path, before: bytes | None, now: bytes | None) -> bool:
    """Tell whether the part of a file that governs an agent has changed."""
    if now == before or file.name != "stops.json":
        return _part(file, before) != _part(file, now)
    # A person may stop more, or end a stop, which stays in the list for a day.
    then = datetime.now(UTC).isoformat()
    with suppress(ValueError, LookupError, TypeError):
        old, new = (json.loads(text or b"[0, []]")[1] for text in (before, now))
        held = {each["at"] for each in old if (each["until"] or "9") > then}
        return not held <= {each["at"] for each in new}
    return True


def _part(file: Path, content: bytes | None) -> object:
    """Return the part of a file that governs an agent: all, or our table of a `pyproject.toml`."""
    if content is None or file.name != "pyproject.toml":
        return content
    if b"toolstile" not in content:
        return None
    with suppress(ValueError, AttributeError):
        return tomllib.loads(content.decode("utf-8-sig")).get("tool", {}).get("toolstile")
    return content


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except IsADirectoryError:
        return _LINK if file.is_symlink() else None
    except OSError:
        return None
