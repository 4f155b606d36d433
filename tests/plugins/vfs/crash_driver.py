"""Kills processes that commit to a directory, and tells what is there when it is opened again.

A program of its own, since it forks. `random ROUNDS` kills at random instants and checks after
each; `at STEP` kills one process at a step of its one commit and leaves the rest to the caller.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from toolstile_hookspecs import ToolContext
from toolstile_plugins.vfs import DiskStore
from toolstile_plugins.vfs.backends.disk import operations as renames
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

CONTEXT = ToolContext(session=None)


def change(files: VirtualFilesystem, number: int) -> WorkspaceBranch:
    """Make the changes of one call: every kind of operation, all showing one number."""
    branch = files.branch(CONTEXT, None)
    tree = branch.resource
    for name in ("a", "b", "c/d"):
        tree.write(f"{name}.txt", f"{number}\r\n")
    tree.move(f"moving-{number - 1}", f"moving-{number}")
    tree.delete(f"made-{number - 1}", recursive=True)
    tree.write(f"made-{number}/x/y.txt", f"{number}\r\n")
    # A file where a directory was, and the reverse.
    tree.delete("kind", recursive=True)
    tree.write("kind" if number % 2 else "kind/inner.txt", f"{number}\r\n")
    tree.delete("link")
    tree.link("link", f"target-{number}")
    tree.delete(f"empty-{number - 1}")
    tree.mkdir(f"empty-{number}")
    for path in ("run.sh", "folder"):
        tree.chmod(path, mode_of(number))
    tree.chmod(f"made-{number}/x", 0o500)
    left = Path(store_of(files).root).with_name("left")
    left.write_bytes(f"{number}\r\n".encode())
    tree.take("taken.txt", left, mode=mode_of(number), modified=number)
    return branch


def mode_of(number: int) -> int:
    """Return a mode that shows a number, at least one that differs from its neighbours'."""
    return 0o700 + number % 8


def store_of(files: VirtualFilesystem) -> DiskStore:
    """Return the store of a workspace on disk."""
    assert isinstance(files.store, DiskStore)
    return files.store


def lay_out(root: Path) -> None:
    """Make the tree as call 0 would have left it."""
    files = VirtualFilesystem.on_disk(root)
    for path in ("a.txt", "b.txt", "c/d.txt", "made-0/x/y.txt", "kind/inner.txt"):
        files.write(path, "0\r\n")
    files.write("moving-0/big.bin", "unchanged")
    files.mkdir("moving-0/empty")
    files.mkdir("empty-0")
    files.link("link", "target-0")
    for path in ("run.sh", "taken.txt", "folder/held.txt"):
        files.write(path, "0\r\n")
    files.close()
    for path in ("run.sh", "taken.txt", "folder"):
        (root / path).chmod(mode_of(0))
    (root / "b.txt").chmod(0o640)


def held(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(each.name for each in directory.iterdir())


def check_entries(root: Path, number: int) -> None:
    """Check links, modes, times and empty directories; fails when one does not show the number."""
    if str((root / "link").readlink()) != f"target-{number}":
        raise AssertionError(f"torn at {number}: the link")
    for path in ("run.sh", "folder", "taken.txt"):
        if (root / path).stat().st_mode & 0o777 != mode_of(number):
            raise AssertionError(f"torn at {number}: the mode of {path}")
    if held(root / f"empty-{number}") or held(root / "folder") != ["held.txt"]:
        raise AssertionError(f"torn at {number}: a directory")
    if number and (root / f"made-{number}/x").stat().st_mode & 0o777 != 0o500:
        raise AssertionError("the mode of a new directory was lost")
    if number and (root / "taken.txt").stat().st_mtime_ns != number:
        raise AssertionError("a time was lost")


def number_of(root: Path) -> int:
    """Return the one number that everything shows; fails when there is more than one."""
    paths = ("a.txt", "b.txt", "c/d.txt", "taken.txt")
    numbers = {(root / path).read_bytes() for path in paths}
    if len(numbers) != 1:
        raise AssertionError(f"torn: {numbers}")
    number = int(numbers.pop().decode())
    expected = {"a.txt", "b.txt", "c", "kind", ".toolstile", f"moving-{number}", f"made-{number}"}
    expected |= {"taken.txt", "link", "run.sh", "folder", f"empty-{number}"}
    found = set(held(root))
    untouched = {name for name in found if name.startswith("untouched")}
    if found - untouched != expected:
        raise AssertionError(f"torn at {number}: {sorted(found)}")
    shown = root / "kind" if number % 2 else root / "kind" / "inner.txt"
    for path in (root / f"made-{number}" / "x" / "y.txt", shown):
        if path.read_bytes() != f"{number}\r\n".encode():
            raise AssertionError(f"torn at {number}: {path}")
    if held(root / f"moving-{number}") != ["big.bin", "empty"]:
        raise AssertionError(f"torn at {number}: the moved directory")
    check_entries(root, number)
    if (root / "b.txt").stat().st_mode & 0o777 != 0o640:
        raise AssertionError("a mode was lost")
    return number


def child(work: Callable[[], None]) -> int:
    """Fork a process that does some work; return its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as error:
        sys.stderr.write(f"child: {error!r}\n")
    sys.stderr.flush()
    os._exit(1)


def at_random(root: Path, rounds: int, seed: int) -> None:
    """Kill at random instants; check after each."""
    chance = random.Random(seed)
    lay_out(root)
    progress = 0
    # Seconds; as a machine is fast or slow, it becomes what a few commits take there.
    longest = 0.03
    for _ in range(rounds):
        reader, writer = os.pipe()

        def commit_for_ever(told: int = writer) -> NoReturn:
            files = VirtualFilesystem.on_disk(root)
            number = number_of(root)
            while True:
                number += 1
                branch = change(files, number)
                branch.prepare()
                branch.commit()
                os.write(told, f"{number}\n".encode())

        pid = child(commit_for_ever)
        os.close(writer)
        time.sleep(chance.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            raise AssertionError("the child has failed")
        with os.fdopen(reader) as stream:
            told = [int(line) for line in stream]
        files = VirtualFilesystem.on_disk(root)
        number = number_of(root)
        if told and not told[-1] <= number <= told[-1] + 1:
            raise AssertionError(f"committed {told[-1]}, found {number}")
        if number < progress:
            raise AssertionError(f"had {progress}, found {number}")
        if held(root / ".toolstile") != [".gitignore", "lock"]:
            raise AssertionError("litter")
        files.close()
        longest *= 1.2 if number == progress else 0.95
        progress = number
    sys.stdout.write(f"{progress}\n")


def at_step(root: Path, step: str, key: str | None, edit: str | None) -> None:
    """Kill at a step of the one commit after laying out the tree."""
    lay_out(root)
    # What has just changed is known by its content from the start; what is older is not.
    time.sleep(0.1)
    last: list[str] = []

    def steps(now: str) -> None:
        last.append(now)
        if edit is not None and now == "decided":
            (root / edit).write_text("edited at the last moment")
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def commit() -> None:
        files = VirtualFilesystem(DiskStore(root, steps=steps))
        branch = change(files, 1)
        branch.key = key
        branch.prepare()
        branch.commit()
        sys.stderr.write(f"never came to {step}, but to {last}\n")

    _, status = os.waitpid(child(commit), 0)
    if not os.WIFSIGNALED(status):
        raise AssertionError(f"{step} did not happen")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--random", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at")
    parser.add_argument("--key")
    parser.add_argument("--edit")
    parser.add_argument("--plain-renames", action="store_true")
    parser.add_argument("--number", action="store_true")
    options = parser.parse_args()
    if options.plain_renames:
        renames._system_call = lambda: None  # type: ignore[assignment]
    if options.random is not None:
        at_random(options.root, options.random, options.seed)
    elif options.at is not None:
        at_step(options.root, options.at, options.key, options.edit)
    elif options.number:
        sys.stdout.write(f"{number_of(options.root)}\n")


if __name__ == "__main__":
    main()
