"""Fixtures of the packaging tests: the tree, its builds, and the Pythons that are there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: The Pythons that the distribution says it supports.
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")

#: What the fallback of `tracked_files` leaves out: what tools and builds leave in a tree.
LEFTOVERS = {".git", ".tox", ".hypothesis", "__pycache__", "build", "dist", "venv"}


@dataclass(frozen=True)
class Tree:
    """A source tree and the files that belong to it, as posix paths relative to its root."""

    root: Path
    files: frozenset[str]


@dataclass(frozen=True)
class Built:
    """The files that one build made, from one tree."""

    tree: Tree
    sdist: Path
    wheel: Path


def run(*command: str | os.PathLike[str], cwd: Path | None = None) -> str:
    """Runs a command without the surroundings' Python settings and returns what it printed.

    A failure shows everything that the command said.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TOOLSTILE_", "COVERAGE_", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [os.fspath(part) for part in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        said = f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        pytest.fail(f"{command} ended with {done.returncode}\n{said}", pytrace=False)
    return done.stdout


def tracked_files() -> frozenset[str]:
    """The files that belong to the tree: those git knows, or in an unpacked sdist all there are."""
    if (ROOT / ".git").exists():
        # A checkout may belong to another user, as it does in many containers.
        names = run("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", cwd=ROOT).split("\0")
        return frozenset(name for name in names if name and (ROOT / name).is_file())
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return frozenset(
        path.as_posix()
        for path in found
        if path.name != "PKG-INFO"
        and LEFTOVERS.isdisjoint(path.parts)
        and not any(part.endswith(("_cache", ".egg-info")) for part in path.parts)
    )


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A clean copy of the working tree: the files that belong to it and nothing else."""
    copy = tmp_path_factory.mktemp("tree") / "toolstile"
    files = tracked_files()
    for name in sorted(files):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return Tree(copy, files)


@pytest.fixture(scope="session")
def built(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel that is built from that sdist, as an index would get them."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, tree.root)
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return Built(tree, sdist, wheel)


def candidates(version: str) -> Iterator[Path]:
    """Where a Python of that version may be: this one, those on PATH, those pyenv keeps."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield Path(sys.executable)
    name = f"python{version}"
    for folder in os.get_exec_path():
        if (Path(folder) / name).is_file():
            yield Path(folder) / name
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(kept.glob(f"{version}.*/bin/{name}"), reverse=True)


def find_python(version: str) -> Path | None:
    """The first Python of that version that starts; None when there is none.

    It has to start, because a launcher (pyenv's, for one) may stand in for a Python that is not
    chosen and only say so.
    """
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in candidates(version):
        try:
            done = subprocess.run(
                [path, "-c", code], capture_output=True, text=True, timeout=60, check=False
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    return None


@dataclass(frozen=True)
class Venv:
    """A clean virtual environment."""

    folder: Path

    @property
    def scripts(self) -> Path:
        """Where its commands are."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def python(self, *arguments: str | os.PathLike[str], cwd: Path | None = None) -> str:
        """Runs its Python, isolated from the user's own settings."""
        return run(self.scripts / "python", "-I", *arguments, cwd=cwd)

    def toolstile(self, *arguments: str, cwd: Path) -> str:
        """Runs the command that the distribution installs."""
        return run(self.scripts / "toolstile", *arguments, cwd=cwd)


@pytest.fixture(scope="session", params=SUPPORTED)
def installed(
    request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Venv:
    """A clean environment of each supported Python found, with the wheel installed in it."""
    version: str = request.param
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    return _environment(python, tmp_path_factory.mktemp(f"py{version.replace('.', '')}"), built)


@pytest.fixture(scope="session")
def own(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """A clean environment of the Python that runs the tests, with the wheel installed in it."""
    return _environment(Path(sys.executable), tmp_path_factory.mktemp("own"), built)


def _environment(python: Path, folder: Path, built: Built) -> Venv:
    run(sys.executable, "-m", "virtualenv", "--python", python, folder / "venv")
    venv = Venv(folder / "venv")
    # As a machine without an index installs it: from a folder of wheels.
    wheels = folder / "wheels"
    venv.python("-m", "pip", "wheel", "--quiet", "--wheel-dir", wheels, built.wheel)
    venv.python("-m", "pip", "install", "--quiet", "--no-index", "-f", wheels, "toolstile")
    return venv
