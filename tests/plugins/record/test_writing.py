"""A record is written by one at a time, continued by the next, and never overwrites anything."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from toolstile_plugins.record import RecordError, RecordFile, verify
from toolstile_plugins.record.file import Chain, Damage, read_link, seal

HOLDER = """
import sys
from pathlib import Path
from toolstile_plugins.record import RecordFile

file = RecordFile(Path(sys.argv[1]))
file.append('{"said":"held"}')
print("held", flush=True)
sys.stdin.read()
"""

FULL = """
import resource, signal, sys
from pathlib import Path
from toolstile_plugins.record import RecordFile

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = RecordFile(Path(sys.argv[1]))
file.append('{"said":"a"}')
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    file.append('{"said":"' + "b" * 2000 + '"}')
except OSError:
    print("full")
file.append('{"said":"c"}')
file.close()
"""


def said(path: Path) -> list[object]:
    chain = Chain()
    with path.open("rb") as file:
        found = [json.loads(text)["said"] for _, text in chain.follow(file)]
    assert chain.faults == []
    return found


def faults_of(path: Path) -> list[Damage]:
    chain = Chain()
    with path.open("rb") as file:
        list(chain.follow(file))
    return [each.damage for each in chain.faults]


def until(holds: Callable[[], object]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never did")


def append(path: Path, *texts: str) -> RecordFile:
    file = RecordFile(path)
    for text in texts:
        file.append(json.dumps({"said": text}))
    file.close()
    return file


def test_a_second_run_continues_the_chain(path):
    append(path, "a", "b")
    append(path, "c")
    assert said(path) == ["a", "b", "c"]


def test_a_run_without_a_line_leaves_no_file(path):
    append(path)
    assert not path.exists()


def test_only_the_owner_may_read_it(path):
    append(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_torn_last_line_is_cut_off_and_told(path, caplog):
    append(path, "a", "b" * 200_000)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    assert append(path, "c").torn == len(whole) - 50 - (whole.index(b"\n") + 1)
    assert said(path) == ["a", "c"]
    assert "ended in the middle of a line" in caplog.text


@pytest.mark.parametrize("texts", [["a"], ["a", "b"]])
def test_a_last_line_gets_back_the_newline_that_it_lost(path, texts):
    append(path, *texts)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert said(path) == texts
    assert append(path, "c").torn == 0
    assert (said(path), faults_of(path)) == ([*texts, "c"], [])


def test_a_last_line_whose_newline_does_not_fit_on_the_disk_says_so(path, monkeypatch):
    append(path, "a")
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(RecordError, match=r"opened to record: No space left on device\. Name"):
            RecordFile(path)
    assert append(path, "b").torn == 0


@pytest.mark.parametrize("place", [(3, True), (2, False)])
def test_a_last_line_without_newline_that_would_not_have_followed_is_left_as_it_is(path, place):
    append(path, "a")
    number, follows = place
    link = read_link(path.read_bytes().splitlines()[-1])
    assert link is not None
    line, _ = seal(number, link.hash if follows else "1" * 64, '{"said":"b"}')
    path.write_bytes(path.read_bytes() + line[:-1])
    content = path.read_bytes()
    with pytest.raises(RecordError, match="is not part of a record"):
        RecordFile(path)
    assert path.read_bytes() == content


def test_a_torn_first_line_is_cut_off(path):
    path.write_bytes(b'{"n"')
    assert append(path, "a").torn == 4
    assert said(path) == ["a"]


@pytest.mark.parametrize("torn", [b"", b'{"n":2,', b'{"n":2,"prev":"'])
def test_what_a_loss_of_power_left_is_cut_off(path, torn):
    append(path, "a")
    with path.open("ab") as file:
        file.write(torn + b"\0" * 300)
    assert faults_of(path) == [Damage.TORN]
    assert append(path, "b").torn == len(torn) + 300
    assert said(path) == ["a", "b"]


def test_a_last_line_that_would_not_have_followed_is_left_as_it_is(path):
    append(path, "a")
    with path.open("ab") as file:
        file.write(b'{"n":7,"prev":"')
    content = path.read_bytes()
    with pytest.raises(RecordError, match="is not part of a record"):
        RecordFile(path)
    assert path.read_bytes() == content


def test_long_lines_are_continued_too(path):
    append(path, "a" * 300_000)
    append(path, "b")
    assert said(path) == ["a" * 300_000, "b"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"# Read me\n", "is not part of a record"),
        (b"# Read me", "is not part of a record"),
        (b"\n", "is not part of a record"),
        (b'{"n":1,"prev":"x"}\n', "was changed after"),
        (b'{"n":1,"name":"a line of others"}', "is not part of a record"),
        (b"\0" * 200, "is not part of a record"),
    ],
)
def test_a_file_that_is_something_else_is_left_as_it_is(path, content, why):
    path.write_bytes(content)
    for _ in range(2):  # nor is it kept open
        with pytest.raises(RecordError, match=why):
            RecordFile(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"gone/calls\.jsonl cannot be opened") as raised:
        RecordFile(tmp_path / "gone" / "calls.jsonl")
    assert f"Make the folder {tmp_path / 'gone'}" in str(raised.value)
    with pytest.raises(RecordError, match="Name a file that can be written"):
        RecordFile(tmp_path)


def test_two_recorders_of_one_process_are_kept_apart(path):
    file = RecordFile(path)
    with pytest.raises(RecordError, match="written by another recorder"):
        RecordFile(path)
    file.close()
    append(path, "a")


@pytest.mark.slow
def test_another_process_is_kept_out_until_the_first_ends(path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RecordError, match="written by another recorder"):
            RecordFile(path)
        holder.kill()
        holder.wait()
    append(path, "a")
    assert said(path) == ["held", "a"]


def test_lines_that_the_system_takes_in_pieces_are_whole(path, monkeypatch):
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, line: write(handle, line[:7]))
        append(path, "a", "b")
    assert (said(path), faults_of(path)) == (["a", "b"], [])


def test_threads_that_write_at_once_make_one_chain(path):
    file = RecordFile(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: file.append(f'{{"said":"{n:03}"}}'), range(400)))
    file.close()
    assert sorted(map(str, said(path))) == [f"{n:03}" for n in range(400)]


@pytest.mark.parametrize(("durability", "syncs"), [("process", 0), ("power", 1)])
def test_a_line_is_in_the_file_as_soon_as_it_is_appended(path, durability, syncs, monkeypatch):
    synced: list[int] = []
    file = RecordFile(path, durability=durability)
    monkeypatch.setattr(os, "fsync", synced.append)
    file.append('{"said":"a"}')
    assert (said(path), len(synced)) == (["a"], syncs)
    file.close()


def test_lines_of_threads_that_wait_share_one_fsync(path, monkeypatch):
    """Seven lines come while the first is synced: one fsync does for them."""
    file = RecordFile(path)
    synced: list[int] = []
    may_sync = threading.Event()

    def sync(_: int) -> None:
        synced.append(file._n)
        assert may_sync.wait(30)

    monkeypatch.setattr(os, "fsync", sync)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(file.append, '{"said":"0"}')
        until(lambda: synced)
        others = [pool.submit(file.append, f'{{"said":"{n}"}}') for n in range(1, 8)]
        until(lambda: file._n == 8)
        assert not any(each.done() for each in (first, *others))
        may_sync.set()
        for each in (first, *others):
            each.result(30)
    assert synced == [1, 8]
    file.close()


def test_lines_that_do_not_reach_the_disk_are_taken_back_and_told_to_all_who_wait(
    path, monkeypatch
):
    file = RecordFile(path)
    file.append('{"said":"kept"}')
    begun, may_fail = threading.Event(), threading.Event()

    def fail(_: int) -> None:
        begun.set()
        assert may_fail.wait(30)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(os, "fsync", fail)
        first = pool.submit(file.append, '{"said":"lost"}')
        assert begun.wait(30)
        second = pool.submit(file.append, '{"said":"lost, too"}')
        until(lambda: file._n == 3)
        may_fail.set()
        assert {type(each.exception(30)) for each in (first, second)} == {OSError}
    assert said(path) == ["kept"]
    file.append('{"said":"next"}')
    file.close()
    assert (said(path), faults_of(path)) == (["kept", "next"], [])


def test_a_line_that_was_on_the_disk_before_another_failed_is_not_told_as_lost(path, monkeypatch):
    file = RecordFile(path)
    file.append('{"said":"kept"}')
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "no disk")))
    with pytest.raises(OSError, match="no disk"):
        file.append('{"said":"lost"}')
    # As threads that had written their lines, and come to the fsync only now.
    file._sync(1, 0)
    with pytest.raises(OSError, match="another thread"):
        file._sync(2, 0)
    file.close()


@pytest.mark.slow
def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "full\n"
    assert said(path) == ["a", "c"]


def test_a_missing_file_cannot_be_verified(path):
    with pytest.raises(RecordError, match="cannot be read"):
        verify(path)
    assert not os.path.lexists(path)


def test_what_is_no_file_is_refused_and_left_alone(path):
    os.mkfifo(path)
    with pytest.raises(RecordError, match="cannot hold a record"):
        RecordFile(path)
    assert path.is_fifo()


def test_a_run_without_a_line_removes_no_file_of_another(path, caplog):
    file = RecordFile(path)
    path.unlink()
    append(path, "a")
    file.close()
    assert said(path) == ["a"]
    assert "was removed or replaced while it was written" in caplog.text


def test_a_file_that_its_last_writer_removes_meanwhile_is_made_anew(path, monkeypatch):
    last = RecordFile(path)
    claim = fcntl.flock

    def wait(handle, how):
        monkeypatch.setattr(fcntl, "flock", claim)
        last.close()
        claim(handle, how)

    monkeypatch.setattr(fcntl, "flock", wait)
    append(path, "a")
    assert said(path) == ["a"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_line_that_ctrl_c_falls_on_tears_no_chain(path, monkeypatch, when, stop):
    file = RecordFile(path)
    file.append('{"said":"a"}')
    write = os.write

    def interrupted(handle, line):
        monkeypatch.setattr(os, "write", write)
        if when == "after":
            write(handle, line)
        raise stop

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(stop):
        file.append('{"said":"b"}')
    file.append('{"said":"c"}')
    file.close()
    assert said(path) == (["a", "c"] if when == "before" else ["a", "b", "c"])


def test_a_second_ctrl_c_that_falls_on_the_look_at_the_file_tears_no_chain(path, monkeypatch):
    file = RecordFile(path)
    file.append('{"said":"a"}')
    write, pread = os.write, os.pread

    def interrupted(handle, line):
        monkeypatch.setattr(os, "write", write)
        write(handle, line)
        raise KeyboardInterrupt

    def interrupted_again(*asked):
        monkeypatch.setattr(os, "pread", pread)
        signal.raise_signal(signal.SIGINT)
        return pread(*asked)

    monkeypatch.setattr(os, "write", interrupted)
    monkeypatch.setattr(os, "pread", interrupted_again)
    with pytest.raises(KeyboardInterrupt):
        file.append('{"said":"b"}')
    file.append('{"said":"c"}')
    file.close()
    assert said(path) == ["a", "b", "c"]


def test_a_fork_writes_nothing_and_leaves_the_file(path):
    file = RecordFile(path)
    forked = os.fork()
    if not forked:
        try:
            file.append('{"said":"b"}')
        except RecordError:
            file.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(forked, 0)[1] == 0
    file.append('{"said":"a"}')
    file.close()
    assert said(path) == ["a"]
