"""Walk the pages of the first hour as a reader does: `python tools/first_minutes.py [pages|doors]`.

The README's first command runs in a fresh clone, each tutorial's commands in an empty folder. Each
page gets an empty HOME, a new environment and the package index. The steps are the page's own;
the program adds none, but for the files that the page takes for granted, which its invisible
Python blocks write. It prints the typed commands, the names imported from Toolstile, and the
seconds on this machine. Exit status 1 if a command ends otherwise than its page says, or if the
first success takes more than three commands or four names.

The doors are walked with the built wheel: Claude Code with a played model, and a published MCP
server with a client over stdio. Each gets from an empty HOME to a refused call by `toolstile init`;
exit status 1 if that takes more than three commands, or if the call was not refused. They need npm.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, cast

from executing.claude_model import PlayedModel, played, scripted
from executing.fences import fences
from executing.markers import markers
from executing.wheels import Environment, built
from executing.workplace import Workplace

from toolstile_hookspecs import ToolCall

ROOT: Final = Path(__file__).resolve().parents[1]
MOST_COMMANDS: Final = 3
MOST_NAMES: Final = 4
PATIENCE: Final = 900
"""Seconds for a command; pip downloads all requirements in one."""
START: Final = tuple(f"docs/start/{page}.md" for page in ("coding-agent", "application", "plugin"))


class Reader:
    """The environment of a reader: an empty HOME, a new environment, and the package index.

    Args:
        folder: The folder of both.
        programs: The folders of further programs.
        more: Further variables.
    """

    def __init__(
        self, folder: Path, programs: tuple[str, ...] = (), more: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._programs = programs
        self._more = more or {}

    def variables(self, _: Path) -> dict[str, str]:
        """Return the environment variables."""
        return {
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join(
                [str(self.folder / "venv" / "bin"), *self._programs, "/usr/bin", "/bin"]
            ),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **self._more,
        }

    def with_wheel(self, command: str, _: Path) -> str:
        """Return the command as it stands on the page."""
        return command


@dataclass
class Walk:
    """A reader on one page.

    Args:
        page: The name of the page.
        folder: The folder in which the reader works.
        place: The shell there.
    """

    page: str
    folder: Path
    place: Workplace
    typed: list[str] = field(default_factory=list[str])
    printed: list[str] = field(default_factory=list[str])
    imported: set[str] = field(default_factory=set[str])
    started: float = field(default_factory=monotonic)
    ended: float = 0.0
    first_success: tuple[int, float, int] | None = None
    success: str = "first success"

    def write(self, name: str, text: str) -> None:
        """Write a file that the page shows."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.endswith(".py"):
            self.read(text)

    def read(self, code: str) -> None:
        """Note the names that code imports from Toolstile."""
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolstile"):
                self.imported |= {each.name for each in node.names}

    def type(self, command: str, status: int, answer: str | None, question: str) -> None:
        """Run a command as typed; with an answer at a terminal, once the question is there.

        Raises:
            SystemExit: It ended neither with 0 nor with the status that the page says.
        """
        self.typed.append(command)
        began = monotonic()
        printed, ended = self.place.run(
            command, typed=answer, seen=lambda printed: question in printed
        )
        self.printed.append(printed)
        seconds = monotonic() - self.started
        print(f"  {monotonic() - began:6.1f} s  [{ended}]  {command}")
        if ended not in {0, status}:
            sys.exit(
                f"{self.page}: that ended with {ended}, and the page says {status}:\n{printed}"
            )
        if (
            self.first_success is None
            and status == 0
            and re.search(r"\btoolstile (?!new)|^python \w+\.py", command)
        ):
            self.first_success = len(self.typed), seconds, len(self.imported)


def blocks(page: Path) -> Iterator[tuple[dict[str, str], str, str]]:
    """Yield the notes, the language and the text of each block of a page.

    An invisible block of Python has the language `setup`; other invisible blocks are left out.
    """
    text = page.read_text(encoding="utf-8")
    for fence in fences(text, invisible=True):
        said = {name: values[0] for name, values in markers(text, fence.start).items()}
        if not text.startswith("<!--", fence.start):
            yield said, fence.language, fence.text
        elif fence.language == "python":
            yield said, "setup", fence.text


def commands(body: str) -> Iterator[str]:
    """Yield the commands of a console block; a block without a `$` is one command."""
    lines = [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]
    yield from lines or [body.strip()]


def walk(page: Path, walker: Walk, clone: Path, *, only_first: bool = False) -> None:
    """Do what a page says, from top to bottom."""
    for notes, language, body in blocks(page):
        if name := notes.get("file"):
            walker.write(name, body)
        elif language == "setup":
            subprocess.run([sys.executable, "-c", body], cwd=walker.folder, check=True)
        elif language == "python":
            walker.read(body)
        elif language == "console":
            for command in commands(body):
                walker.type(
                    command.replace("path/to/clone", str(clone)),
                    int(notes.get("exit", 0)),
                    notes.get("typed"),
                    body.splitlines()[-1],
                )
            if only_first:
                break
    walker.ended = monotonic()


# --- Doors

_CLAUDE: Final = "@anthropic-ai/claude-code@2.1.330"
_SERVER: Final = "@modelcontextprotocol/server-filesystem@2026.8.31"
_DENIED: Final = "git status && dd if=/dev/zero of=ran bs=1 count=1"
_MODEL: Final = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}
_CLIENT: Final = """\
import json, subprocess, sys

server = json.load(open(".mcp.json"))["mcpServers"]["files"]
words = [server["command"], *server["args"]]
process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(method, **params):
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    is_call = not method.startswith("notifications/")
    print(json.dumps({**said, "id": method} if is_call else said), file=process.stdin, flush=True)
    while is_call:
        answer = json.loads(process.stdout.readline())
        if answer.get("id") == method and "method" not in answer:
            return answer["result"]


info = {"name": "client", "version": "1"}
send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
send("notifications/initialized")
print(send("tools/call", name=sys.argv[1], arguments=json.loads(sys.argv[2])))
process.stdin.close()
process.wait()
"""


def doors(space: Path) -> list[Walk]:
    """Walk both doors, each to a refused call."""
    sys.path.insert(0, str(ROOT))
    from tests.node import find_npm  # because the tests install the same programs

    npm, wheel = find_npm(), built(space / "wheel")
    node = npm.environment()["PATH"].partition(os.pathsep)[0]
    files = npm.program("mcp-server-filesystem", _SERVER)
    claude = str(Path(npm.program("claude", _CLAUDE)).parent)
    call = ToolCall("Bash", {"command": _DENIED, "description": "x"}, id="toolu_1")
    with played(scripted([[call]])) as model:
        variables = {**_MODEL, "ANTHROPIC_BASE_URL": model.url}
        agent = _door(
            "Claude Code",
            Reader(space / "agent", (claude, node), variables),
            {},
            wheel,
            "claude --print 'Tidy up.' --permission-mode bypassPermissions",
            lambda _: _was_read(model),
        )
    servers = f'{{"mcpServers": {{"files": {{"command": "{files}", "args": ["."]}}}}}}'
    server = _door(
        "an MCP server",
        Reader(space / "server", (node,)),
        {".mcp.json": servers, "client.py": _CLIENT},
        wheel,
        """python client.py write_file '{"path": "ran", "content": "x"}'""",
        lambda printed: "'isError': True" in printed and "waits for a person" in printed,
    )
    return [agent, server]


def _was_read(model: PlayedModel) -> bool:
    text, is_error = model.read()["toolu_1"]
    return is_error and "does not run this command here: dd" in text


def _door(  # noqa: PLR0913, PLR0917 - each is named above
    name: str,
    reader: Reader,
    files: Mapping[str, str],
    wheel: Path,
    calling: str,
    is_refused: Callable[[str], bool],
) -> Walk:
    """Install, govern and call from an empty HOME; end if the call is not refused."""
    here = reader.folder
    work = here / "work"
    (here / "home").mkdir(parents=True)
    work.mkdir()
    venv.create(here / "venv", with_pip=True)
    for file, text in files.items():
        (work / file).write_text(text, encoding="utf-8")
    print(name)
    with closing(Workplace(work, cast("Environment", reader), patience=PATIENCE)) as place:
        walker = Walk(name, work, place)
        for command in (
            f"python -m pip install --quiet '{wheel}[mcp,policies]'",
            "toolstile init --yes",
            calling,
        ):
            walker.type(command, 0, None, "")
    walker.ended = monotonic()
    if not is_refused(walker.printed[-1]) or (work / "ran").exists():
        sys.exit(f"{name}: the call was not refused:\n{''.join(walker.printed)}")
    walker.success = "a refused call"
    walker.first_success = len(walker.typed), walker.ended - walker.started, 0
    return walker


def main() -> None:
    """Walk the chosen pages and doors, and print the seconds."""
    asked = sys.argv[1:] or ["pages", "doors"]
    results: list[Walk] = []
    with TemporaryDirectory() as name:
        space = Path(name)
        clone = space / "clone"
        pages = {"README.md": True, **dict.fromkeys(START, False)} if "pages" in asked else {}
        if pages:
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for page, only_first in pages.items():
            here = space / Path(page).stem
            work = clone if only_first else here / "work"
            work.mkdir(parents=True, exist_ok=True)
            (here / "home").mkdir(parents=True)
            venv.create(here / "venv", with_pip=True)
            place = Workplace(work, cast("Environment", Reader(here)), patience=PATIENCE)
            print(page)
            walker = Walk(page, work, place)
            walk(clone / page, walker, clone, only_first=only_first)
            results.append(walker)
        results += doors(space) if "doors" in asked else []
    failed = False
    for walker in results:
        assert walker.first_success is not None, walker.page
        count, seconds, names = walker.first_success
        failed |= count > MOST_COMMANDS or names > MOST_NAMES
        print(
            f"{walker.page}: {walker.success} after {count} command(s), {names} imported name(s), "
            f"{seconds:.0f} s here; in all {len(walker.typed)} commands, "
            f"{len(walker.imported)} names, {walker.ended - walker.started:.0f} s"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
