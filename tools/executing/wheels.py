"""An environment that has what a reader has after `pip install toolstile`, with all extras."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

_INSTALL = re.compile(r"\b(?:python -m )?pip install [^&|;]*")
_OURS = re.compile(
    r"(?<=\s)(['\"]?)(?:path/to/clone/docs/examples/)?(\.|path/to/clone|toolstile[\w-]*)"
    r"(\[[\w,-]+\])?\1(?=\s|$)"
)

#: Runs a program at the terminal that is its standard input.
AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Environment:
    """A virtual environment with the wheel, where the dependencies are those of this one.

    Args:
        folder: Where it is made.
        wheel: The wheel.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.wheel = wheel
        self.folder = folder
        venv.create(self.folder, symlinks=os.name != "nt", with_pip=False)
        self.scripts = self.folder / ("Scripts" if os.name == "nt" else "bin")
        paths = {"base": str(self.folder), "platbase": str(self.folder)}
        site = Path(sysconfig.get_path("purelib", vars=paths))
        outer = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
        # Each is a site of its own there, with the .pth files in it.
        lines = (f"import site; site.addsitedir({path!r})" for path in outer)
        (site / "dependencies.pth").write_text("\n".join(lines), encoding="utf-8")
        self._pip("install", "--quiet", "--force-reinstall", "--no-deps", str(self.wheel))
        for name, code in _PROGRAMS.items():
            program = self.scripts / name
            program.write_text(f"#!{self.scripts / 'python'}\n{code}", encoding="utf-8")
            program.chmod(0o755)

    def variables(self, home: Path) -> dict[str, str]:
        """Return the environment variables of a reader who has nothing else, and no index."""
        kept = ("LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "CHECKOUT": str(ROOT),
            "COLUMNS": "120",
            "HOME": str(home),
            "NO_COLOR": "1",
            "PATH": os.pathsep.join([str(self.scripts), "/usr/local/bin", "/usr/bin", "/bin"]),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": str(self.wheel.parent),
            "PIP_NO_INDEX": "1",
            # Which means that builds are not isolated: their backend is here, and not on an index.
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PYTHONUTF8": "1",
            "VIRTUAL_ENV": str(self.folder),
            # Outside of the home directory, because that is the workspace of a page, too.
            "XDG_STATE_HOME": str(self.folder / "state" / home.name),
        }

    def with_wheel(self, command: str, folder: Path) -> str:
        """Return a command whose `pip install` takes Toolstile from the wheel.

        Args:
            command: The command.
            folder: Where it is run; `.` is the checkout unless a package is there.
        """
        is_package = (folder / "pyproject.toml").exists()

        def ours(found: re.Match[str]) -> str:
            example = EXAMPLES / found[2]
            if found[2] not in {".", "path/to/clone", "toolstile"} and example.is_dir():
                # A stranger's package, as it stands in the documentation.
                return f"'{example}'"
            if found[2] == "." and is_package:
                return found[0]
            return f"'{self.wheel}{found[3] or ''}'"

        return _INSTALL.sub(lambda found: _OURS.sub(ours, found[0]), command)

    def _pip(self, *arguments: str) -> None:
        subprocess.run(
            [self.scripts / "python", "-m", "pip", *arguments],
            env=self.variables(self.folder),
            check=True,
            timeout=300,
        )


_PROGRAMS = {
    "pip": "import runpy; runpy.run_module('pip', run_name='__main__')\n",
    **dict.fromkeys(
        ("claude", "codex", "gemini"), (Path(__file__).parent / "client.py").read_text("utf-8")
    ),
}
"""The stand-ins for programs: pip's own, and MCP clients, which do what matters of theirs."""


def built(folder: Path) -> Path:
    """Return the wheel that tox has built, or build it into a directory."""
    folder.mkdir(parents=True)
    given = [name for name in os.environ.get("TOX_PACKAGE", "").split(os.pathsep) if name]
    wheels = [Path(name) for name in given if name.endswith(".whl")]
    if wheels:
        return Path(shutil.copy(wheels[0], folder))
    here = ["--no-isolation"] if find_spec("hatchling") else []
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", *here, "--outdir", folder, ROOT],
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=600,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel
