"""Programs that npm has, on a Node of their own; what was once installed is kept between runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: The line of Node that today's programs need; an older one may be all that a machine has.
NODE = "node@22"


@dataclass(frozen=True)
class Npm:
    """An npm, and a folder of one's own in which it installs.

    Example:
        >>> inspector = npm.program("mcp-inspector", "@modelcontextprotocol/inspector@2.12.0")
        >>> subprocess.run([inspector, "--cli", ...], env=npm.environment())
    """

    executable: str
    cache: Path

    def program(self, name: str, package: str) -> str:
        """The path of a package's program, which is run with `environment()`."""
        return str(self._installed(package) / "node_modules" / ".bin" / name)

    def environment(self, **more: str) -> dict[str, str]:
        """This process's environment, with the Node that programs need, and with `more`."""
        node = self._installed(NODE) / "node_modules" / ".bin"
        path = os.pathsep.join([str(node), os.environ.get("PATH", os.defpath)])
        return {**os.environ, "PATH": path, **more}

    def _installed(self, package: str) -> Path:
        name = hashlib.sha256(package.encode()).hexdigest()[:16]
        kept = self.cache / name
        if not kept.is_dir():
            with self._scratch(name) as scratch:
                self._install(package, scratch)
                # Whoever is second in another process finds the place taken, which is as good.
                try:
                    scratch.rename(kept)
                except OSError:
                    if not kept.is_dir():
                        raise
        return kept

    @contextmanager
    def _scratch(self, name: str) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.cache))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _install(self, package: str, folder: Path) -> None:
        command = [self.executable, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        try:
            done = subprocess.run(
                [*command, package],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not get {package} from its registry within a minute")
        if done.returncode != 0:
            pytest.skip(f"npm could not install {package}:\n{done.stdout}\n{done.stderr}")


def find_npm() -> Npm:
    """The npm of this machine; the test is skipped where there is none."""
    executable = shutil.which("npm")
    if executable is None:
        pytest.skip("no npm here: it comes with Node")
    cache = Path(tempfile.gettempdir()) / f"toolyard-tests-npm-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        pytest.fail(f"{cache} belongs to somebody else; what is in there is not run")
    return Npm(executable, cache)
