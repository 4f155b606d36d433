"""Installs published servers, each into a folder of its own that is kept between runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

NODE = "node@22"
"""The Node that today's servers need, from npm; a machine may have an older one alone."""
LONGEST = 600


@dataclass(frozen=True)
class Server:
    """A published server.

    Args:
        name: Its name in the table.
        npm: Its package on npm, or None.
        pypi: Its package on PyPI, or None.
        program: The program that the package brings; named as the package where not given.
        args: Its arguments.
        env: Variables that let it start.
    """

    name: str
    npm: str | None = None
    pypi: str | None = None
    program: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def package(self) -> str:
        """Its package."""
        return self.npm or self.pypi or ""


@dataclass(frozen=True)
class Installed:
    """A server that is installed.

    Args:
        server: The server.
        version: The version that is there.
        path: The path of its program.
        env: Its environment.
    """

    server: Server
    version: str
    path: Path
    env: Mapping[str, str]


def read_servers() -> list[Server]:
    """Return the servers of the list."""
    listed = tomllib.loads(Path(__file__).with_name("servers.toml").read_text("utf-8"))
    return [
        Server(**{**table, "args": tuple(table.get("args", ()))}) for table in listed["servers"]
    ]


def install(server: Server, place: Path) -> Installed:
    """Install a server, unless it is there already."""
    if server.npm is not None:
        return _from_npm(server, place)
    return _from_pypi(server, place)


def _from_npm(server: Server, place: Path) -> Installed:
    here = os.environ.get("PATH", os.defpath)
    node = _npm_install(NODE, place / "npm" / "node", here) / ".bin"
    # npm chooses a version by the Node that runs it.
    path = os.pathsep.join([str(node), here])
    modules = _npm_install(server.package, place / "npm" / server.name, path)
    described = json.loads((modules / server.package / "package.json").read_text("utf-8"))
    program = modules / ".bin" / (server.program or server.package)
    return Installed(server, described["version"], program, {**server.env, "PATH": path})


def _npm_install(package: str, folder: Path, path: str) -> Path:
    modules = folder / "node_modules"
    if not modules.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("There is no npm here: it comes with Node.")
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        # Browsers are not needed to list tools.
        quiet = {"PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}
        _run(command, {**os.environ, **quiet, "PATH": path})
    return modules


def _from_pypi(server: Server, place: Path) -> Installed:
    folder = place / "pypi" / server.name
    binaries = folder / "bin"
    if not folder.is_dir():
        venv.create(folder, with_pip=True)
        _run([str(binaries / "pip"), "install", "--quiet", server.package], dict(os.environ))
    show = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    version = _run([str(binaries / "python"), "-c", show, server.package], dict(os.environ))
    program = binaries / (server.program or server.package)
    return Installed(server, version.strip(), program, server.env)


def _run(command: list[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
