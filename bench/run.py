"""Measure what Toolstile costs: `tox -e bench`, or `python bench/run.py`.

Exit status 1 when something is dearer than it may be, or with `--against` than it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from against import BASELINE, as_table_against, measure_against
from measuring import QUICK, THOROUGH, Effort, Row
from report import as_json, as_table, machine

GROUPS: Final[Mapping[str, str]] = {
    "adapters": "cases_adapters",
    "agent": "cases_agent",
    "code": "cases_code",
    "console": "cases_console",
    "digest": "cases_digest",
    "dispatch": "cases_dispatch",
    "stages": "cases_stages",
    "batch": "cases_dispatch",
    "sessions": "cases_sessions",
    "growth": "cases_growth",
    "history": "cases_history",
    "isolation": "cases_isolation",
    "ledger": "cases_ledger",
    "loop": "cases_loop",
    "record": "cases_record",
    "rollback": "cases_rollback",
    "rules": "cases_rules",
    "sandbox": "cases_sandbox",
    "workspace": "cases_workspace",
    "startup": "cases_startup",
    "mcp": "cases_mcp",
    "tracing": "cases_tracing",
    "workers": "cases_workers",
}
"""The modules of the groups: what a module imports may make calls dearer, so it waits its turn."""


def main() -> int:
    """Measure, show the table, and return the exit status."""
    options = _options()
    effort = QUICK if options.quick else THOROUGH
    if options.against is not None:
        return _against(options.against, options.environments, effort)
    rows: list[Row] = []
    for name in options.only or GROUPS:
        print(f"Measuring {name} ...", file=sys.stderr, flush=True)
        measure = getattr(import_module(GROUPS[name]), f"measure_{name}")
        rows += measure(effort)
    rows = list({row.case: row for row in rows}.values())
    print(f"{machine()}\n\n{as_table(rows, judged=effort.judged)}")
    if options.json is not None:
        options.json.write_text(as_json(rows, judged=effort.judged), encoding="utf-8")
    return 1 if effort.judged and any(row.over for row in rows) else 0


def _against(revision: str, folder: Path, effort: Effort) -> int:
    found = measure_against(revision, folder, effort)
    print(f"{machine()}\n\n{as_table_against(revision, found, judged=effort.judged)}")
    return 1 if effort.judged and any(compared.worse for compared in found.values()) else 0


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
    parser.add_argument(
        "--against",
        nargs="?",
        const=BASELINE,
        metavar="REV",
        help="measure a few calls beside those of REV instead, or of the revision to beat",
    )
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path("build/against"),
        metavar="DIR",
        help="keep there what --against builds",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
