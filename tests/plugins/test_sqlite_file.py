"""The callers of a process that write to one SQLite file share its commits, and no faults."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import StateError
from toolstile_plugins import sqlite_file
from toolstile_plugins.sqlite_file import MOST_IN_GROUP, SqliteFile

ADD = "INSERT INTO numbers VALUES (?)"


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER UNIQUE)")


class SlowDisk(sqlite_file._Connection):
    """A connection whose commits take a moment, as on a disk; one of them may fail."""

    commits = 0
    fault: BaseException | None = None

    def commit(self) -> None:
        time.sleep(0.02)
        type(self).commits += 1
        if (fault := type(self).fault) is not None:
            type(self).fault = None
            raise fault
        super().commit()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[SlowDisk]:
    class Disk(SlowDisk):
        pass

    monkeypatch.setattr(sqlite_file, "_Connection", Disk)
    return Disk


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    with closing(SqliteFile(tmp_path / "numbers.db", "power", "numbers", prepare)) as file:
        file.open()
        yield file


def kept(file: SqliteFile) -> set[int]:
    """Return the numbers that another process finds."""
    with closing(sqlite3.connect(file.path)) as other:
        return {number for (number,) in other.execute("SELECT number FROM numbers")}


def at_once(callers: int, work: Callable[[int], Any]) -> dict[int, BaseException | None]:
    """Run the work of callers on a thread each; return what each raised."""
    ended: dict[int, BaseException | None] = {}
    together = threading.Barrier(callers)

    def run(number: int) -> None:
        together.wait(20)
        try:
            work(number)
        except BaseException as error:
            ended[number] = error
        else:
            ended[number] = None

    threads = [threading.Thread(target=run, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ended) == callers
    return ended


def add(file: SqliteFile, number: int) -> None:
    with file.writing() as connection:
        connection.execute(ADD, (number,))


def test_callers_that_wait_share_a_commit(disk: type[SlowDisk], file: SqliteFile) -> None:
    def work(number: int) -> None:
        for each in range(5):
            add(file, number * 5 + each)
            assert number * 5 + each in kept(file)

    assert set(at_once(32, work).values()) == {None}
    assert kept(file) == {*range(160)}
    assert disk.commits <= 40


def test_a_commit_is_for_a_bounded_number_of_callers(
    disk: type[SlowDisk], file: SqliteFile
) -> None:
    with file.writing():
        ended: dict[int, BaseException | None] = {}
        crowd = threading.Thread(
            target=lambda: ended.update(at_once(2 * MOST_IN_GROUP, lambda n: add(file, n)))
        )
        crowd.start()
        time.sleep(0.5)
    crowd.join(60)
    assert set(ended.values()) == {None}
    assert disk.commits >= 2


def test_views_of_one_file_share_its_writer(disk: type[SlowDisk], file: SqliteFile) -> None:
    again = file.path.parent / "." / file.path.name
    with closing(SqliteFile(again, "power", "the same numbers", prepare)) as other:
        ended = at_once(16, lambda number: add((file, other)[number % 2], number))
        assert set(ended.values()) == {None}
        assert disk.commits < 16
        with file.writing() as connection:
            connection.execute(ADD, (100,))
            # Another view of the file is within the transaction of its thread, too.
            assert other.read("SELECT count(*) FROM numbers") == [(17,)]
        file.close()
        add(other, 200)
    assert {100, 200} <= kept(file)


@pytest.mark.parametrize("fault", [ValueError("no"), KeyboardInterrupt(), StateError("no")])
def test_a_caller_that_fails_undoes_what_is_its_own(
    disk: type[SlowDisk], file: SqliteFile, fault: BaseException
) -> None:
    def work(number: int) -> None:
        with file.writing() as connection:
            connection.execute(ADD, (number,))
            if number % 3 == 0:
                raise fault

    ended = at_once(24, work)
    assert {number for number, error in ended.items() if error is None} == kept(file)
    assert {number for number, error in ended.items() if error is fault} == {*range(0, 24, 3)}


def test_a_statement_that_fails_leaves_its_neighbours_alone(
    disk: type[SlowDisk], file: SqliteFile
) -> None:
    add(file, 7)
    ended = at_once(16, lambda number: add(file, number))
    assert [number for number, error in ended.items() if error is not None] == [7]
    assert isinstance(ended[7], StateError)
    assert kept(file) == {*range(16)}


@pytest.mark.parametrize(
    "fault", [sqlite3.OperationalError("database or disk is full"), KeyboardInterrupt()]
)
def test_a_commit_that_fails_is_an_error_of_all_whose_changes_are_lost(
    disk: type[SlowDisk], file: SqliteFile, fault: BaseException
) -> None:
    disk.fault = fault
    ended = at_once(24, lambda number: add(file, number))
    failed = {number for number, error in ended.items() if error is not None}
    assert failed
    assert failed | kept(file) == {*range(24)}
    assert not failed & kept(file)
    told = [error for error in ended.values() if isinstance(error, StateError)]
    assert len(told) >= len(failed) - 1
    for number in failed:
        add(file, number)
    assert kept(file) == {*range(24)}


def test_an_interruption_after_a_commit_takes_nothing_from_the_neighbours(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(sqlite_file._Connection):
        left = 1

        def commit(self) -> None:
            time.sleep(0.02)
            super().commit()
            if Interrupted.left:
                Interrupted.left -= 1
                raise KeyboardInterrupt

    monkeypatch.setattr(sqlite_file, "_Connection", Interrupted)
    ended = at_once(24, lambda number: add(file, number))
    assert sum(error is not None for error in ended.values()) == 1
    assert kept(file) == {*range(24)}


def test_a_caller_that_leaves_the_line_keeps_none_waiting(file: SqliteFile) -> None:
    # As one that was interrupted before it could leave.
    writer = file._writer
    assert writer is not None
    writer._line.add(-1)
    started = time.monotonic()
    add(file, 1)
    assert time.monotonic() - started < 5
    assert kept(file) == {1}
    writer._line.discard(-1)
