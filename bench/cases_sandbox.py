"""Commands in a sandbox: beside bare ones, over many files, and with many changes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import sub
from pathlib import Path
from time import perf_counter
from typing import Any

from cases_workspace import IN_A_DIRECTORY, KILOBYTE
from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Executor, Host
from toolstile_hookspecs import Prompt, ToolCall
from toolstile_plugins.sandbox import SandboxSettings, ShellSection
from toolstile_plugins.vfs import VfsConfig
from toolstile_plugins.vfs.section import workspace_binding

FLAT = 1.5
TWICE = 2.0
SIZES = (1_000, 10_000, 100_000)
CHANGED, BYTES_EACH = 10_000, 50_000
COMMAND = ["sh", "-c", "echo more >> d0/f0.txt; echo new > d0/new.txt"]

Measured = Callable[[], AbstractContextManager[Block]]


def measure_sandbox(effort: Effort) -> list[Row]:
    """Measure commands in a sandbox."""
    with tempfile.TemporaryDirectory(prefix="toolstile-bench-") as place:
        roots = {size: _laid_out(Path(place, str(size)), size) for size in _up_to(effort.calls)}
        (least, root), *larger = roots.items()
        bare = Probe("a command, bare", _bare(root))
        cases = [Case(Probe("a command in a sandbox, whole call", _whole(root)), bare)]
        floor = Probe(f"a command, without it: {least:,} files", _kept(root))
        cases += [
            Case(Probe(f"a command, without it: {size:,} files", _kept(each)), floor, FLAT)
            for size, each in larger
        ]
        number = CHANGED if effort.judged else 100
        source, target = _filled(Path(place, "many"), number), Path(place, "target")
        copied = Probe(f"cp -a of {number:,} files", _copied(source, target))
        memory = Path("/dev/shm")
        for where, scratch, limit in (("by default", None, TWICE), ("in memory", memory, None)):
            name = f"the same as a command, whole call: scratch {where}"
            cases.append(Case(Probe(name, _taken(source, target, scratch)), copied, limit))
        return compare(cases, effort)


def _up_to(most: int) -> list[int]:
    return [size for size in SIZES if size <= most] or [SIZES[0]]


def _laid_out(root: Path, size: int) -> Path:
    for number in range(0, size, IN_A_DIRECTORY):
        directory = root / f"d{number // IN_A_DIRECTORY}"
        directory.mkdir(parents=True)
        for name in range(number, min(number + IN_A_DIRECTORY, size)):
            (directory / f"f{name}.txt").write_text(KILOBYTE)
    return root


def _filled(directory: Path, number: int) -> Path:
    for name in range(number):
        path = directory / f"d{name // IN_A_DIRECTORY}" / f"f{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0123456789" * (BYTES_EACH // 10))
    return directory


@contextmanager
def _shell(root: Path, settings: SandboxSettings | None = None) -> Iterator[Executor]:
    root.mkdir(exist_ok=True)
    prompt = Prompt.of("bench", "shell", (ShellSection(config=settings),))
    binding = workspace_binding(VfsConfig(root=root, durability="process"))
    with Host(discover=False) as host, host.executor(prompt=prompt, resources=(binding,)) as tools:
        yield tools


def _run(tools: Executor, words: list[str]) -> tuple[float, float]:
    """Return the seconds of a call, and those for which its command ran."""
    began = perf_counter()
    outcome = tools.dispatch(ToolCall("shell_execute", {"command": words, "timeout_seconds": 120}))
    took = perf_counter() - began
    assert outcome.success, outcome.text
    value: Any = outcome.result.value
    assert value.exit_code == 0, value.stderr
    return took, value.duration_ms / 1000


def _bare(root: Path) -> Measured:
    @contextmanager
    def probe() -> Iterator[Block]:
        yield timed(lambda: subprocess.run(COMMAND, cwd=root, check=True, capture_output=True))

    return probe


def _whole(root: Path) -> Measured:
    @contextmanager
    def probe() -> Iterator[Block]:
        with _shell(root) as tools:
            yield timed(lambda: _run(tools, COMMAND))

    return probe


def _kept(root: Path) -> Measured:
    @contextmanager
    def probe() -> Iterator[Block]:
        with _shell(root) as tools:
            yield lambda times: sum(sub(*_run(tools, COMMAND)) for _ in range(times))

    return probe


def _taken(source: Path, target: Path, scratch: Path | None) -> Measured:
    settings = SandboxSettings(readable=(source,), scratch=scratch)

    @contextmanager
    def probe() -> Iterator[Block]:
        with _shell(target, settings) as tools:
            yield lambda times: sum(take(tools) for _ in range(times))
        shutil.rmtree(target)

    def take(tools: Executor) -> float:
        took, _ = _run(tools, ["cp", "-a", str(source), "many"])
        shutil.rmtree(target / "many")
        return took

    return probe


def _copied(source: Path, target: Path) -> Measured:
    @contextmanager
    def probe() -> Iterator[Block]:
        target.mkdir(exist_ok=True)
        yield lambda times: sum(copy() for _ in range(times))
        shutil.rmtree(target)

    def copy() -> float:
        began = perf_counter()
        subprocess.run(["cp", "-a", str(source), str(target / "many")], check=True)
        took = perf_counter() - began
        shutil.rmtree(target / "many")
        return took

    return probe
