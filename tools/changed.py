"""Runs the tests of the files that changed: `tox -e changed [-- REV]`.

Changes are counted since REV, by default since the branch left `origin/HEAD`, with those that are
not committed. A plugin's change runs its own tests, a shared module's those of the plugins that
import the module; the contract's tests always run. The exit status is pytest's.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

PLUGINS = "plugins/toolstile_plugins"

CONTRACT = ("tests/hookspecs", "tests/host/pipeline")

HOST = ("tests/host", "tests/test_house.py", "tests/test_stored_names.py")


def changed_files(revision: str) -> list[str]:
    """Return the files that differ from a revision, those that git does not know yet included."""
    tracked = _git("diff", "--name-only", "--merge-base", revision)
    return sorted({*tracked, *_git("ls-files", "--others", "--exclude-standard")})


def tests_of(files: Iterable[str]) -> list[str]:
    """Return the files and folders of tests that a change of these files concerns."""
    found = set(CONTRACT)
    for file in files:
        found.update(_tests_of_one(file))
    return sorted(
        path
        for path in found
        if (ROOT / path).exists() and not any(str(above) in found for above in Path(path).parents)
    )


def _tests_of_one(file: str) -> Iterator[str]:
    top = file.partition("/")[0]
    if plugin := re.match(rf"(?:{PLUGINS}|tests/plugins)/(\w+)/", file):
        yield f"tests/plugins/{plugin[1]}"
    elif shared := re.match(rf"{PLUGINS}/(\w+)\.py", file):
        yield f"tests/plugins/test_{shared[1]}.py"
        yield from _importers_of(shared[1])
    elif top in {"hookspecs", "host"}:
        yield from HOST
    elif top == "tests" and file.endswith(".py"):
        is_test = Path(file).name.startswith("test_")
        yield file if is_test else str(Path(file).parent)
    elif top in {"docs", "tools"} or file.endswith(".md"):
        yield "tests/docs"


def _importers_of(name: str) -> Iterator[str]:
    """Yield the tests of each plugin that imports a module shared by plugins."""
    for path in (ROOT / PLUGINS).glob("*/**/*.py"):
        if re.search(rf"\btoolstile_plugins(\.| import ){name}\b", path.read_text("utf-8")):
            yield f"tests/plugins/{path.relative_to(ROOT / PLUGINS).parts[0]}"


def _git(*arguments: str) -> list[str]:
    command = ("git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {arguments[0]} failed: {done.stderr.strip()}. Name a revision: -- REV.")
    return done.stdout.splitlines()


def main() -> int:
    """Run pytest on the tests that the changes concern."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("revision", nargs="?", default="origin/HEAD", metavar="REV")
    parser.add_argument("--list", action="store_true", help="show the tests, and run none")
    options = parser.parse_args()
    tests = tests_of(changed_files(options.revision))
    print(*tests, sep="\n", flush=True)
    if options.list:
        return 0
    chosen = "not long and not packaging and not agents and not docs"
    workers = ("--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder")
    again = ("--reruns", "1", "--reruns-delay", "2", "-raR")
    command = (sys.executable, "-m", "pytest", "-m", chosen, *workers, *again, *tests)
    return subprocess.run(command, check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
