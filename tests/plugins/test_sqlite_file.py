"""The callers of a process that write to one SQLite file share its commits, and no faults."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

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


def test_a_neighbour_that_is_interrupted_between_two_statements_harms_none(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(sqlite_file._Connection):
        left: ClassVar = ["before SAVEPOINT", "after RELEASE"]

        def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
            for moment in [
                each for each in self.left if each.endswith(statement.split(maxsplit=1)[0])
            ]:
                self.left.remove(moment)
                if moment.startswith("after"):
                    super().execute(statement)
                raise KeyboardInterrupt
            return super().execute(statement, values)

        def commit(self) -> None:
            time.sleep(0.02)
            super().commit()

    monkeypatch.setattr(sqlite_file, "_Connection", Interrupted)
    ended = at_once(16, lambda number: add(file, number))
    failed = [error for error in ended.values() if error is not None]
    assert [type(error) for error in failed] == [KeyboardInterrupt, KeyboardInterrupt]
    # The one whose block had ended is kept, as after an interrupted commit.
    assert len(kept(file)) == 15
    assert {number for number, error in ended.items() if error is None} <= kept(file)


def test_another_working_directory_leads_to_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with closing(SqliteFile(Path("numbers.db"), "process", "numbers", prepare)) as file:
        add(file, 1)
        monkeypatch.chdir(there)
        with pytest.raises(ValueError, match="no"), file.writing():
            raise ValueError("no")
        add(file, 2)
    assert [*there.iterdir()] == []
    monkeypatch.chdir(here)
    assert kept(file) == {1, 2}


def test_after_a_fault_a_file_that_was_put_back_is_read_and_written(file: SqliteFile) -> None:
    add(file, 1)
    with closing(sqlite3.connect(file.path)) as other:
        other.execute("VACUUM INTO ?", (str(file.path.with_name("copy")),))
    for each in ("", "-wal", "-shm"):
        file.path.with_name(file.path.name + each).unlink()
    file.path.with_name("copy").rename(file.path)
    with pytest.raises(StateError, match="no such table"):
        file.change("INSERT INTO others VALUES (1)")
    assert file.change(ADD, 2) == 1
    assert kept(file) == {1, 2} == {number for (number,) in file.read("SELECT * FROM numbers")}


def test_callers_go_on_while_another_thread_closes_the_file(file: SqliteFile) -> None:
    class Closed(SqliteFile):
        closings = 2

        def open(self) -> None:
            super().open()
            if self.closings:
                self.closings -= 1
                self.close()

    with closing(Closed(file.path, "process", "numbers", prepare)) as other:
        assert other.change(ADD, 1) == 1
    assert kept(file) == {1}


def test_a_fork_waits_for_a_caller_that_needs_the_readers(file: SqliteFile) -> None:
    views = [SqliteFile(file.path, "power", "numbers", prepare) for _ in range(20)]
    for view in views:
        view.open()
    is_begun = threading.Event()

    def work() -> None:
        with file.writing() as connection:
            is_begun.set()
            time.sleep(0.3)
            for view in views:
                with pytest.raises(StateError, match="no such table"):
                    view.change("INSERT INTO others VALUES (1)")
            connection.execute(ADD, (1,))

    caller = threading.Thread(target=work)
    caller.start()
    assert is_begun.wait(5)
    started = time.monotonic()
    sqlite_file._close_all()
    sqlite_file._reopen_all()
    assert time.monotonic() - started < 5
    caller.join(20)
    assert kept(file) == {1}
    for view in views:
        view.close()
