"""Tests the tests: `python tools/mutate.py --sample 150 --seed 1`.

Draws mutants of the pipeline, the state, the policies and the resources, runs for each the tests
that reach it, and prints what is different in those that no test noticed, and the score. It fails
where less than 85 % were noticed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

from mutating.drawing import drawn
from mutating.layout import ROOT, lay_out
from mutating.report import Report


def main() -> int:
    """Draw, run, report."""
    options = _options()
    lay_out(options.place)
    os.chdir(options.place)
    # mutmut reads its configuration when it is imported, from where that is done.
    from mutating.mutants import changed, make_mutants
    from mutating.running import look_at_tests, run, verdicts

    files = make_mutants(options.workers)
    if not options.report:
        for failed in look_at_tests(options.place).failed:
            print(f"fails without any mutant, and is left out: {failed}")
        names = options.names or drawn(files, options.sample, options.seed)
        run(options.place, names, options.workers, options.patience)
    report = Report(verdicts(options.place), lambda name: changed(name, files[name]))
    print(report)
    return 0 if report.is_enough else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these, instead of a sample")
    parser.add_argument("--sample", type=int, default=150, help="how many mutants (default: 150)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument(
        "--patience",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="leave out the slowest tests of a mutant beyond so many seconds (default: none)",
    )
    parser.add_argument("--report", action="store_true", help="run nothing, tell of the last run")
    parser.add_argument(
        "--place",
        type=lambda each: Path(each).resolve(),
        default=ROOT / "build" / "mutation",
        help="where the mutants are kept (default: build/mutation)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
