"""The shop on three hosts, two workers and one PostgreSQL, each killed once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(
        not any(Path("/usr/lib/postgresql").glob("*/bin")),
        reason="No PostgreSQL server is installed (on Debian: apt-get install postgresql).",
    ),
]

SHOP = Path(__file__).parents[2] / "docs/examples/shop/many_hosts/shop.py"


def test_its_books_balance_whoever_was_killed():
    pytest.importorskip("dbos")
    ended = subprocess.run(
        [sys.executable, SHOP, "--orders", "60"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "The books balance: 60 orders, each paid and entered once." in ended.stdout
    assert ended.stdout.count("is killed, and ") == 3
