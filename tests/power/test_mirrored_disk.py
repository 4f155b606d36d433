"""A disk that loses its power keeps what was synced, such as the names of our new files."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from .mirrored_disk import MirroredDisk

SAVE = """
import os
def sync(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
def save(name, text, *synced):
    with open(name, "w") as file:
        file.write(text)
    for each in synced:
        sync(each)
"""


def left_on(disk: MirroredDisk) -> dict[str, str]:
    disk.cut()
    files = (path for path in disk.root.rglob("*") if path.is_file())
    return {str(file.relative_to(disk.root)): file.read_text() for file in files}


@pytest.mark.parametrize(
    ("program", "left"),
    [
        ("save('a', 'new')", {"a": "old"}),
        ("save('a', 'new', 'a'); save('a', 'newer')", {"a": "new"}),
        ("os.truncate('a', 0)", {"a": "old"}),
        ("save('b', 'new', 'b')", {"a": "old"}),
        ("save('b', 'new', '.')", {"a": "old", "b": ""}),
        ("save('b', 'new', 'b', '.')", {"a": "old", "b": "new"}),
        ("os.mkdir('f'); save('f/b', 'new', 'f/b', 'f')", {"a": "old"}),
        ("os.mkdir('f'); save('f/b', 'new', 'f/b', '.')", {"a": "old"}),
        ("os.mkdir('f'); save('f/b', 'new', 'f/b', 'f', '.')", {"a": "old", "f/b": "new"}),
        ("os.unlink('a')", {"a": "old"}),
        ("os.unlink('a'); sync('.')", {}),
        ("os.unlink('a'); save('a', 'new', 'a')", {"a": "old"}),
        ("os.rename('a', 'b')", {"a": "old"}),
        ("os.rename('a', 'b'); sync('.')", {"b": "old"}),
        ("save('b', 'new', 'b'); os.replace('b', 'a')", {"a": "old"}),
        ("save('b', 'new', 'b'); os.replace('b', 'a'); sync('.')", {"a": "new"}),
        ("os.mkdir('f'); sync('.'); os.rename('a', 'f/a'); sync('f')", {"a": "old", "f/a": "old"}),
        ("os.mkdir('f'); os.rename('a', 'f/a'); sync('f'); sync('.')", {"f/a": "old"}),
        (
            "os.mkdir('f'); os.rename('a', 'f/a'); sync('f'); sync('.'); os.rename('f', 'g')",
            {"f/a": "old"},
        ),
        (
            "os.mkdir('f'); os.rename('a', 'f/a'); sync('f'); os.rename('f', 'g'); sync('.')",
            {"g/a": "old"},
        ),
        ("os.link('a', 'b'); sync('.')", {"a": "old", "b": "old"}),
    ],
)
def test_the_disk_has_bytes_and_names_as_of_their_last_sync(
    disk: MirroredDisk, program: str, left: dict[str, str]
) -> None:
    (disk.root / "a").write_text("old")
    disk.settle()
    disk.run(SAVE + program)
    assert left_on(disk) == left


def test_a_file_that_comes_back_has_its_inode_and_its_time(disk: MirroredDisk) -> None:
    (disk.root / "a").write_text("old")
    disk.settle()
    before = (disk.root / "a").stat()
    disk.run(SAVE + "save('b', 'new', 'b'); os.replace('b', 'a'); save('a', 'newer')")
    assert left_on(disk) == {"a": "old"}
    after = (disk.root / "a").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(("synchronous", "left"), [("full", 2), ("normal", 1)])
def test_sqlite_keeps_on_it_what_it_says(disk: MirroredDisk, synchronous: str, left: int) -> None:
    """Also in a file that is new, with a new log: SQLite syncs the folder of both."""
    disk.run(
        f"""
import os, sqlite3
connection = sqlite3.connect("a.db", isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE kept (number)")
connection.execute("INSERT INTO kept VALUES (1)")
connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
connection.execute("PRAGMA synchronous = {synchronous}")
connection.execute("INSERT INTO kept VALUES (2)")
os._exit(0)  # else it is all written when the connection closes
""",
    )
    disk.cut()
    with closing(sqlite3.connect(disk.root / "a.db")) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (left,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# --- Our files


def test_the_key_of_an_inbox_stays_with_the_questions_that_it_seals(disk: MirroredDisk) -> None:
    disk.run(
        """
from pathlib import Path
from toolstile_plugins.inbox.seal import Seal
Seal(Path("new/inbox.key")).approval_key()
""",
    )
    (key,) = left_on(disk).values()
    assert len(key) == 44


def test_the_records_of_policies_stay(disk: MirroredDisk) -> None:
    disk.run(
        """
from pathlib import Path
from toolstile.policies.persistence import locked, write
from toolstile_hookspecs import PolicyState
file = Path("new/limits.json").absolute()
with locked(file):
    write(file, {"daily": PolicyState("daily", data={"used": 1})})
""",
    )
    assert '"used": 1' in left_on(disk)["new/limits.json"]
