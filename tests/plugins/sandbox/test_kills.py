"""A host that is killed, at whatever moment, leaves all of a command's changes or none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile_plugins.vfs.workspace import VirtualFilesystem

DRIVER = Path(__file__).with_name("kill_driver.py")
OLD, GONE, NEW = 4, 2, 4
"""Of ten files four are changed, two are removed, and four are new."""

Tree = Mapping[str, str]

pytestmark = pytest.mark.slow


def lay_out(root: Path, size: int) -> tuple[Tree, Tree]:
    """Make a workspace; returns what it holds, and what it will hold after the script."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for number in range(size):
        path, rest = f"d{number % 7}/f{number}", number % 10
        if rest < OLD + GONE:
            before[path] = "old\n"
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("old\n")
        if rest < OLD or rest >= OLD + GONE:
            after[path] = "new\n"
    return before, after


def script_of(before: Tree, after: Tree, mark: str) -> str:
    """Return a script that changes one to the other, by few words."""
    size = len({*before, *after})
    return (
        f"(sleep {mark} &) ; sleep {mark} & mkdir -p d0 d1 d2 d3 d4 d5 d6; n=0;"
        f"while [ $n -lt {size} ]; do f=d$((n % 7))/f$n; r=$((n % 10));"
        f"if [ $r -ge {OLD} ] && [ $r -lt {OLD + GONE} ]; then rm $f; else echo new > $f; fi;"
        "n=$((n + 1)); done"
    )


def tree_of(root: Path) -> Tree:
    found = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): path.read_text()
        for path in found
        if ".toolstile" not in path.parts
    }


def driver(root: Path, scratch: Path, script: str, fatal: str) -> subprocess.Popen[str]:
    scratch.mkdir(exist_ok=True)
    words = [sys.executable, str(DRIVER), str(root), str(scratch), script, fatal]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def assert_cleared(root: Path, scratch: Path, mark: str) -> None:
    """Start a host as the next start would, and look for what is left."""
    names = [path.stem for path in scratch.glob("*/*.lock")]
    settings = Settings(plugins={"sandbox": {"scratch": str(scratch)}})
    with Host(settings=settings, discover=["sandbox"]):
        VirtualFilesystem.on_disk(root).close()
    until = time.monotonic() + 20
    while f"sleep {mark}" in processes():
        assert time.monotonic() < until, "a process is left"
        time.sleep(0.05)
    assert [path.name for path in scratch.glob("*/*")] == []
    assert str(scratch) not in Path("/proc/self/mountinfo").read_text()
    left = {path.name for path in root.glob(".toolstile/*")}
    assert left <= {".gitignore", "lock"}
    groups = Path("/sys/fs/cgroup").glob("**/toolstile-[0-9a-f]*")
    assert {path.name for path in groups}.isdisjoint(f"toolstile-{name}" for name in names)


FIXED = ("laying out", "starting", "running", "harvesting", "harvested", "staging", "staged")
DECIDING = ("prepared", "deciding")
DECIDED = ("decided", "apply:0", "apply:3", "apply:11", "applied")


@pytest.mark.much_alike(4)
@pytest.mark.parametrize("step", [*FIXED, *DECIDING, *DECIDED])
def test_killed_at_a_step_it_leaves_all_or_nothing(tmp_path: Path, step: str):
    root, scratch, mark = (
        tmp_path / "workspace",
        tmp_path / "scratch",
        f"62{os.getpid()}{hash(step) % 1000}",
    )
    root.mkdir()
    before, after = lay_out(root, 40)
    with driver(root, scratch, script_of(before, after, mark), step) as process:
        told = process.communicate()[0].split("\n")
    assert process.returncode == -signal.SIGKILL
    assert told[-2] == step
    assert_cleared(root, scratch, mark)
    assert tree_of(root) == (after if step in DECIDED else before)


def test_the_steps_are_all_of_a_commands_life(tmp_path: Path):
    root, mark = tmp_path / "workspace", f"63{os.getpid()}"
    root.mkdir()
    before, after = lay_out(root, 40)
    with driver(root, tmp_path / "scratch", script_of(before, after, mark), "") as process:
        told = process.communicate()[0].split("\n")
    assert process.returncode == 0
    named = [step for step in told if step in {*FIXED, *DECIDING, *DECIDED}]
    assert named == [*FIXED, *DECIDING, *DECIDED]
    assert tree_of(root) == after


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_killed_at_any_moment_it_leaves_all_or_nothing(tmp_path: Path, part: int):
    """Two hundred moments in all, over the life of a command that changes a thousand files."""
    chance = random.Random(part)
    longest = 3.0
    for number in range(25):
        root, scratch = tmp_path / f"workspace{number}", tmp_path / f"scratch{number}"
        mark = f"64{os.getpid()}{number}"
        root.mkdir()
        before, after = lay_out(root, 1000)
        began = time.monotonic()
        with driver(root, scratch, script_of(before, after, mark), "") as process:
            try:
                told = process.communicate(timeout=chance.uniform(0.2, longest))[0]
                longest = time.monotonic() - began
            except subprocess.TimeoutExpired:
                process.kill()
                told = process.communicate()[0]
        assert_cleared(root, scratch, mark)
        is_decided = "decided\n" in told
        found = tree_of(root)
        assert found in (before, after)
        assert found == after or not is_decided
