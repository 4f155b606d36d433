"""Programs that npm has, on a Node of their own; what was once installed is kept between runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

#: The line of Node that today's programs need; an older one may be all that a machine has.
NODE = "node@22"
OPTIONS = ("--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=30000")
#: Where Linux distributions keep the certificates that the machine trusts.
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
#: Seconds that one package may take.
LONGEST = 120


@dataclass(frozen=True)
class Npm:
    """An npm, and a folder of one's own in which it installs.

    Example:
        >>> inspector = npm.program("mcp-inspector", "@modelcontextprotocol/inspector@2.12.0")
        >>> subprocess.run([inspector, "--cli", ...], env=npm.environment())
    """

    executable: str
    cache: Path
    failures: list[str] = field(default_factory=list[str])
    """The fault that kept npm from installing: after one, nothing more is waited for."""

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
        if self.failures:
            pytest.skip(f"{package} is not here, and {self.failures[0]}")
        try:
            done = subprocess.run(
                [self.executable, "install", *OPTIONS, "--prefix", str(folder), package],
                cwd=folder,
                env={"NODE_EXTRA_CA_CERTS": authorities(), **os.environ},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._skip(f"npm did not get {package} from its registry within {LONGEST} s")
        if done.returncode != 0:
            self._skip(f"npm could not install {package}:\n{done.stdout}\n{done.stderr}")

    def _skip(self, why: str) -> NoReturn:
        self.failures.append(why)
        pytest.skip(why)


def authorities() -> str:
    """The certificates that this machine trusts, as a file; Node by itself knows its own only."""
    found = (os.environ.get("SSL_CERT_FILE"), *AUTHORITIES)
    return next((each for each in found if each and Path(each).is_file()), "")


def find_npm() -> Npm:
    """The npm of this machine; the test is skipped where there is none."""
    executable = shutil.which("npm")
    if executable is None:
        pytest.skip("no npm here: it comes with Node")
    cache = Path(tempfile.gettempdir()) / f"toolstile-tests-npm-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        pytest.fail(f"{cache} belongs to somebody else; what is in there is not run")
    return Npm(executable, cache)
