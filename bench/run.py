"""Measure what Toolstile costs: `tox -e bench`, or `python bench/run.py`.

Exit status 1 when something is dearer than it may be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cases_dispatch import measure_batch, measure_dispatch
from cases_history import measure_history
from cases_ledger import measure_ledger
from cases_mcp import measure_mcp
from cases_record import measure_record
from cases_rollback import measure_rollback
from cases_stages import measure_stages
from cases_startup import measure_startup
from cases_tracing import measure_tracing
from cases_workspace import measure_workspace
from measuring import QUICK, THOROUGH, Effort, Row
from report import as_json, as_table, machine

GROUPS: Final[Mapping[str, Callable[[Effort], list[Row]]]] = {
    "dispatch": measure_dispatch,
    "stages": measure_stages,
    "batch": measure_batch,
    "history": measure_history,
    "ledger": measure_ledger,
    "mcp": measure_mcp,
    "record": measure_record,
    "rollback": measure_rollback,
    "startup": measure_startup,
    "tracing": measure_tracing,
    "workspace": measure_workspace,
}


def main() -> int:
    """Measure, show the table, and return the exit status."""
    options = _options()
    effort = QUICK if options.quick else THOROUGH
    rows: list[Row] = []
    for name in options.only or GROUPS:
        print(f"Measuring {name} ...", file=sys.stderr, flush=True)
        rows += GROUPS[name](effort)
    rows = list({row.case: row for row in rows}.values())
    print(f"{machine()}\n\n{as_table(rows, judged=effort.judged)}")
    if options.json is not None:
        options.json.write_text(as_json(rows, judged=effort.judged), encoding="utf-8")
    return 1 if effort.judged and any(row.over for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what Toolstile costs.")
    parser.add_argument(
        "--quick", action="store_true", help="see that it works; the figures say nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--only",
        action="append",
        choices=GROUPS,
        metavar="NAME",
        help=f"measure only this, one of {', '.join(GROUPS)}; may be given several times",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
