"""Where plugins keep their files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolstile_hookspecs.services.ledger import Claim
from toolstile_plugins.directories import make_directory_of
from toolstile_plugins.ledger.stores.sqlite import SqliteStore


def test_version_control_leaves_a_new_ledger_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / ".toolstile" / "ledger.db")
    store.claim(Claim("key", "pay", "hash", "effect", "s", "c", _NOW), now=_NOW)
    store.close()
    assert (tmp_path / ".toolstile" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("folder", ["data", "data/deeper"])
def test_directories_of_other_names_are_made_as_they_are(tmp_path: Path, folder: str) -> None:
    make_directory_of(tmp_path / folder / "ledger.db")
    assert list((tmp_path / folder).iterdir()) == []


def test_what_somebody_keeps_under_version_control_stays_so(tmp_path: Path) -> None:
    (tmp_path / ".toolstile").mkdir()
    make_directory_of(tmp_path / ".toolstile" / "ledger.db")
    assert list((tmp_path / ".toolstile").iterdir()) == []


_NOW = datetime(2026, 1, 1, tzinfo=UTC)
