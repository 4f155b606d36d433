"""The present tree beside an earlier revision, both built and installed alike, in CPU time.

A machine that is shared makes single figures worthless, so processes of the revision, of the
present tree, and of the revision again take short slices in turn. The two of the revision differ
by noise alone: a case counts as worse if it is slower by more than twice that, and by more than
3 %, in the smallest and in the median slice alike, and still is when it is measured again.
"""

from __future__ import annotations

import json
import site
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.append(str(Path(__file__).resolve().parent / "peers"))

from environments import python_in, run
from measuring import Effort
from report import table
from worker import PeerFailedError, Worker, working

ROOT: Final = Path(__file__).resolve().parents[1]
BASELINE: Final[str] = json.loads(
    Path(__file__).with_name("baseline.json").read_text(encoding="utf-8")
)["revision"]
"""The revision to beat."""
NAME: Final = "toolstile"
FORMER: Final = "toolyard"
"""The beginning of our packages' names at earlier revisions."""
EXTRAS: Final = "mcp"
BEFORE, NOW, AGAIN = "before", "now", "again"
SIDES: Final = (BEFORE, NOW, AGAIN)
LEAST: Final = 0.03
"""The slowdown that is never called one."""
SLICE_SECONDS: Final = 0.02
PROCESSES, SLICES = 3, 12
"""The processes of each side, one after the other, and the slices that each of them takes."""
REPEATS: Final = 2
"""The most further measurements of a case that looks worse."""
LIMIT_SECONDS: Final = 300.0


@dataclass
class Compared:
    """The slices of one case, in CPU seconds per call, by side."""

    slices: dict[str, list[float]] = field(
        default_factory=lambda: {side: list[float]() for side in SIDES}
    )

    def figures(self) -> list[tuple[float, float, float]]:
        """Return the smallest and the median: the revision's, the present one, the noise."""
        found: list[tuple[float, float, float]] = []
        for of in (min, statistics.median):
            first, now, again = (of(self.slices[side]) for side in SIDES)
            found.append(((first + again) / 2, now, abs(first - again) / min(first, again)))
        return found

    @property
    def lacking(self) -> bool:
        """True if the revision cannot run the case."""
        return not self.slices[BEFORE]

    @property
    def worse(self) -> bool:
        """True if the case is slower by more than noise explains."""
        return not self.lacking and all(
            now / before > 1 + max(LEAST, 2 * noise) for before, now, noise in self.figures()
        )


def measure_against(revision: str, folder: Path, effort: Effort) -> dict[str, Compared]:
    """Measure all cases of `peers/revision.py`.

    Args:
        revision: The earlier revision, as git names it.
        folder: The environments are kept there, by their trees.
        effort: If it is not to be judged, one short slice each is taken.
    """
    folder = folder.resolve()  # The workers run in another directory.
    present = _git("stash", "create") or "HEAD"
    pythons = dict(zip(SIDES, _pythons((revision, present, revision), folder), strict=True))
    found: dict[str, Compared] = {}
    if not effort.judged:
        _visit(found, None, pythons, folder, (effort.seconds, 1))
        return found
    for number in range(PROCESSES):
        _say(f"Processes {number + 1} of {PROCESSES} ...")
        _visit(found, None, pythons, folder)
    for _ in range(REPEATS):
        suspects = [case for case, compared in found.items() if compared.worse]
        for _ in range(PROCESSES if suspects else 0):
            _say(f"Measuring again: {', '.join(suspects)} ...")
            _visit(found, suspects, pythons, folder)
    return found


def as_table_against(revision: str, found: Mapping[str, Compared], *, judged: bool) -> str:
    """Return a Markdown table of the cases."""
    head = ("case", f"{revision[:9]} min us", "now min us", "ratio", "noise")
    lines: list[tuple[str, ...]] = [(*head, "median us", "now median us", "ratio", "noise", "")]
    for case, compared in found.items():
        if compared.lacking:
            lines.append((case, *["-"] * 8, ""))
            continue
        cells = [
            cell
            for before, now, noise in compared.figures()
            for cell in (
                f"{before * 1e6:,.1f}",
                f"{now * 1e6:,.1f}",
                f"{now / before:.3f}x",
                f"{noise:.1%}",
            )
        ]
        lines.append((case, *cells, ("worse" if compared.worse else "ok") if judged else ""))
    return table(lines)


def _visit(
    found: dict[str, Compared],
    cases: Sequence[str] | None,
    pythons: Mapping[str, Path],
    folder: Path,
    effort: tuple[float, int] = (SLICE_SECONDS, SLICES),
) -> None:
    """Take slices of cases, all of them if none are named, by a new process for each side."""
    seconds, slices = effort
    with ExitStack() as stack:
        workers = {
            side: stack.enter_context(
                working(python, _program_for(python), side, folder / f"{side}.log")
            )
            for side, python in pythons.items()
        }
        for case in cases or workers[NOW].ask("cases", LIMIT_SECONDS):
            compared = found.setdefault(case, Compared())
            workers[NOW].ask("open", LIMIT_SECONDS, case=case)
            try:
                for side in (BEFORE, AGAIN):
                    workers[side].ask("open", LIMIT_SECONDS, case=case)
            except PeerFailedError as error:
                _say(f"The revision cannot run {case}: {error}")
                continue
            # All make the same number of calls: what a call costs may depend on those before.
            calls = [each.ask("fit", LIMIT_SECONDS, seconds=seconds) for each in workers.values()]
            for number in range(slices):
                for side in _in_turn(number):
                    taken = _take(workers[side], min(calls))
                    compared.slices[side].append(taken)


def _program_for(python: Path) -> Path:
    """Return the program for a revision's Python, with the names that our packages have there."""
    home = python.parents[1]
    if not any(home.glob(f"[Ll]ib/**/site-packages/{FORMER}")):
        return ROOT / "bench/peers/revision.py"
    for each in (ROOT / "bench").rglob("*.py"):
        there = home / each.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(each.read_text(encoding="utf-8").replace(NAME, FORMER), encoding="utf-8")
    return home / "bench/peers/revision.py"


def _in_turn(number: int) -> Iterable[str]:
    """Return the sides, those of the revision changing places."""
    return SIDES if number % 2 else reversed(SIDES)


def _take(worker: Worker, calls: int) -> float:
    seconds: float = worker.ask("take", LIMIT_SECONDS, calls=calls)
    return seconds


def _pythons(revisions: Iterable[str], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [_python_of(revision, folder) for revision in revisions]


def _python_of(revision: str, folder: Path) -> Path:
    """Return the Python of a revision's environment, which is made where it is not there yet."""
    home = folder / f"{_git('rev-parse', f'{revision}^{{tree}}')}-{sys.implementation.cache_tag}"
    python, done = python_in(home), home / "installed.txt"
    if done.exists():
        return python
    _say(f"Building {revision} ...")
    with TemporaryDirectory() as source:
        archive = Path(source) / "tree.tar"
        _git("archive", "--output", str(archive), revision)
        run("tar", "-xf", str(archive), "-C", source)
        pip = (sys.executable, "-m", "pip", "--quiet")
        run(*pip, "wheel", "--no-deps", "--wheel-dir", f"{source}/wheels", source)
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(home))
        (wheel,) = Path(source, "wheels").glob("*.whl")
        into = (*pip, "--python", str(python), "install")
        run(*into, "--no-deps", str(wheel))
        # Both sides have the dependencies of this environment; its own Toolstile comes second.
        (own,) = home.glob("[Ll]ib/**/site-packages")
        (own / "dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
        # The revision may need others, too.
        run(*into, f"{wheel.name.partition('-')[0]}[{EXTRAS}]")
    done.touch()
    return python


def _git(*arguments: str) -> str:
    # A checkout may belong to another user, as it does in many containers.
    command = ("git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {arguments[0]} failed: {done.stderr.strip()}. Give a revision of this tree.")
    return done.stdout.strip()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
