"""Shows what published MCP servers offer behind the gateway: `python tools/survey_servers.py`.

It installs each server of `surveying/servers.toml` from npm or PyPI, connects to it with
`toolstile mcp check`, and writes the table of `docs/reference/mcp-servers.md`. It fails where a
server is lost.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from surveying.installing import Server, install, read_servers
from surveying.report import PAGE, page_with
from surveying.visiting import Visit, visit

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Install, connect, write the table."""
    options = _options()
    place: Path = options.place
    servers = [
        server for server in read_servers() if not options.names or server.name in options.names
    ]
    with ThreadPoolExecutor(options.workers) as pool:
        visits = list(pool.map(lambda server: _survey(server, place), servers))
    if not options.names:
        PAGE.write_text(page_with(visits), encoding="utf-8", newline="\n")
    return 1 if any(seen.fault is not None for seen in visits) else 0


def _survey(server: Server, place: Path) -> Visit:
    installed = install(server, place)
    seen = visit(installed, place / "visits" / server.name)
    print(
        f"{server.name}: {len(seen.tools)} tools; {seen.fault or dict(seen.left_out)}", flush=True
    )
    return seen


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone; writes no table")
    parser.add_argument("--workers", type=int, default=2, help="how many at once (default: 2)")
    parser.add_argument(
        "--place",
        type=lambda given: Path(given).resolve(),
        default=ROOT / "build" / "servers",
        help="where they are installed, and kept (default: build/servers)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
