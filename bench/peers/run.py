"""Measure Toolstile beside its peers: `tox -e bench-peers`.

Exit status 1 when a peer that does comparable work is as cheap as Toolstile, or cheaper.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from findings import Findings, behind
from pages import put_into
from peers import OWN, PEERS
from rounds import QUICK, THOROUGH, compare
from tables import report


def main() -> int:
    """Measure, show the tables, and return the exit status."""
    options = _options()
    chosen = [peer for peer in PEERS if not options.only or peer.runner in options.only]
    effort = QUICK if options.quick else THOROUGH
    found = compare(chosen, options.environments, effort, blocking=not options.quick)
    text = report(found, datetime.now(UTC).strftime("%d %B %Y"))
    print(text)
    if options.into is not None:
        put_into(options.into, text)
    if options.json is not None:
        options.json.write_text(_as_json(found), encoding="utf-8")
    return 0 if options.quick else _judge(found)


def _judge(found: Sequence[Findings]) -> int:
    own = next((findings for findings in found if findings.peer.name == OWN), None)
    if own is None:
        return 0
    cheaper = behind(own, [findings for findings in found if findings is not own])
    for line in cheaper:
        print(f"As cheap as {OWN}, or cheaper, at comparable work: {line}", file=sys.stderr)
    return 1 if cheaper or own.absent is not None else 0


def _as_json(found: Sequence[Findings]) -> str:
    written = [
        {
            "peer": each.peer.name,
            "absent": each.absent,
            **each.described,
            "calls": [
                {
                    "way": each.ways[way]["name"],
                    "tool": tool,
                    "handler": handler,
                    **vars(series),
                }
                for (way, tool, handler), series in each.calls.items()
            ],
            "growth": {each.ways[way]["name"]: vars(it) for way, it in each.growth.items()},
            "rollback": [
                {"files": files, "kept": kept, **vars(series)}
                for (kept, files), series in each.put_back.items()
            ],
            "watched": each.watched,
            "blocked": each.blocked,
            "faults": each.faults,
        }
        for each in found
    ]
    return json.dumps(written, indent=2) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Toolstile beside its peers.")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(".tox/bench-peers/peers"),
        metavar="DIR",
        help="keep the peers' virtual environments there",
    )
    parser.add_argument(
        "--quick", action="store_true", help="see that it works; the figures say nothing"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[peer.runner for peer in PEERS],
        metavar="PEER",
        help="measure only this one; may be given several times",
    )
    parser.add_argument(
        "--into", type=Path, metavar="PAGE", help="put the tables between a page's two markers"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
