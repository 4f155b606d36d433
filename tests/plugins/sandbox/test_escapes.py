"""Commands in a sandbox get nowhere else, neither as root nor as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolstile_plugins.sandbox.bubblewrap import needed_program

DRIVER = Path(__file__).with_name("shell_driver.py")
MIB = 1024 * 1024
NOBODY = 65534

pytestmark = pytest.mark.slow
LIMITS = {"memory": 192 * MIB, "disk": 64 * MIB, "processes": 64}


def copied_program(place: Path) -> Path:
    """Copy bubblewrap to where every user can start it, and return its directory."""
    program = Path(needed_program())
    if program.parent.name != "_bin":
        return program.parent
    # What the wheel brings along lies beside its package.
    package = program.parents[1]
    for directory in package.parent.glob(f"{package.name}*"):
        if directory.suffix in {"", ".libs"}:
            shutil.copytree(directory, place / directory.name)
    return place / package.name / "_bin"


class Box:
    """Commands of one user, each over the same directory."""

    def __init__(self, place: Path, user: int | None) -> None:
        self.place = place
        self.root = place / "workspace"
        self.outside = place / "outside"
        self.user = user
        for directory in (self.root, self.outside, place / "trial"):
            directory.mkdir()
        programs = copied_program(place / "bin")
        if user is not None:
            place.chmod(0o755)
            for path in (self.root, self.outside):
                os.chown(path, user, user)
        sandbox = {"scratch": str(place / "scratch"), **LIMITS}
        (place / "scratch").mkdir()
        (place / "scratch").chmod(0o1777)
        told = [
            {"vfs": {"root": str(root)}, "sandbox": sandbox}
            for root in (self.root, place / "trial")
        ]
        users = [] if user is None else [str(user)]
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), *map(json.dumps, told), *users],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        )
        assert self._answer()["status"] == "succeeded"

    def __call__(self, script: str, **arguments: Any) -> dict[str, Any]:
        """Run a script, and return its result."""
        told = self.call(["sh", "-c", script], **arguments)
        assert told["status"] == "succeeded", told["text"]
        value: dict[str, Any] = told["value"]
        return value

    def call(self, command: list[str], **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps({"command": command, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def peak(self) -> int:
        """Return the most memory that the host's process has used, in bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()
        base = self.place / "scratch"
        assert [path for path in base.glob("*/*") if path.parent.name.startswith("toolstile")] == []


@pytest.fixture(scope="module", params=["this user", "an ordinary user"])
def user(request: pytest.FixtureRequest) -> int | None:
    if request.param == "this user":
        return None
    if os.geteuid():
        pytest.skip("the tests run as an ordinary user already")
    return NOBODY


@pytest.fixture(scope="module")
def box(user: int | None) -> Iterator[Box]:
    # Not below pytest's own directory, which is closed to others.
    with tempfile.TemporaryDirectory(prefix="toolstile-escapes-", dir="/tmp") as place:
        box = Box(Path(place), user)
        yield box
        box.close()


@pytest.fixture(autouse=True)
def _empty(box: Box) -> Iterator[None]:
    yield
    for path in (box.root, box.outside):
        subprocess.run(f"rm -rf {path}/* {path}/.[a-su-z]*", shell=True, check=True)


def python(box: Box, code: str, **arguments: Any) -> dict[str, Any]:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("the machine has no Python below /usr")
    told = box.call(["/usr/bin/python3", "-c", code], **arguments)
    assert told["status"] == "succeeded", told["text"]
    value: dict[str, Any] = told["value"]
    return value


# --- The network


def test_no_server_of_this_machine_is_reached(box: Box):
    name = f"\0toolstile-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        port = server.getsockname()[1]
        result = python(
            box,
            "import socket\n"
            f"for family, address in ((2, ('127.0.0.1', {port})), (1, {name!r})):\n"
            "    try: socket.socket(family).connect(address); print('REACHED')\n"
            "    except OSError as error: print(error.errno)\n"
            "print(socket.if_nameindex())",
        )
    assert result["stdout"].splitlines() == ["111", "111", "[(1, 'lo')]"]


# --- Processes, and what the kernel tells of them


def test_no_process_outside_is_seen(box: Box):
    numbers = box("ls -d /proc/[0-9]*")["stdout"].split()
    assert len(numbers) <= 4
    assert box("cat /proc/1/environ | tr '\\0' '\\n'")["stdout"].count("=") <= 6


def test_no_process_outside_is_traced_and_one_that_is_stopped_ends_all_the_same(box: Box):
    """The first process in there may be: it holds what the command does, and no more."""
    code = (
        "import ctypes, time\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for process in ({}, 1):\n"
        "    ctypes.set_errno(0); libc.ptrace(16, process, None, None)\n"
        "    print(ctypes.get_errno(), flush=True)\n"
        "time.sleep(60)"
    )
    result = python(box, code.format(os.getpid()), timeout_seconds=3)
    assert result["stdout"].split()[0] == "3"
    assert result["timed_out"]
    assert box("echo still here")["stdout"] == "still here\n"


def test_the_kernels_settings_cannot_be_changed(box: Box):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    result = box(
        "for f in sys/kernel/core_pattern sys/vm/drop_caches sysrq-trigger self/oom_score_adj; do"
        " (echo 1 > /proc/$f) 2>/dev/null && echo WROTE $f; done; true"
    )
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before
    assert result["stdout"] in {"", "WROTE sysrq-trigger\n"}  # the null device stands there


def test_nothing_of_the_kernels_memory_and_keys_is_read(box: Box):
    result = box("cd /proc; head -qc 100 kcore keys kmsg kpagecount timer_list 2>/dev/null | wc -c")
    assert result["stdout"].strip() == "0"


def test_kill_of_all_ends_the_command_alone(box: Box):
    assert box("echo x > a; kill -9 -1; echo y > b")["exit_code"] in {0, 137}
    assert (box.root / "a").read_text() == "x\n"
    assert box("echo still here")["stdout"] == "still here\n"


def test_processes_do_not_outlive_their_command(box: Box):
    mark = f"37{os.getpid()}"
    box(f"setsid sleep {mark} & (sleep {mark} &) ; nohup sleep {mark} > /dev/null 2>&1 & sleep 0.1")
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"sleep {mark}" not in running.stdout


# --- Privileges


def test_there_is_no_privilege_and_none_can_be_had(box: Box):
    result = box("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")["stdout"]
    told = dict(line.split(":\t") for line in result.splitlines())
    assert {told[name] for name in told if name.startswith("Cap")} == {"0" * 16}
    assert told["NoNewPrivs"] == "1"
    assert told["Seccomp"] == "2"


def test_a_program_that_runs_as_its_owner_does_not(box: Box):
    result = box("cp /usr/bin/id id; chmod 6755 id; ./id -u; id -u")
    one, other = result["stdout"].split()
    assert one == other
    assert (box.root / "id").stat().st_mode & 0o7000 == 0


def test_no_device_can_be_made_or_is_there(box: Box):
    result = box(
        "mknod sda b 8 0; mknod mem c 1 1; ls /dev; cat /dev/mem /dev/sda /dev/vda | wc -c"
    )
    found = set(result["stdout"].split())
    assert found <= {
        "0",
        "console",
        "core",
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    }
    assert list(box.root.glob("[sm]*")) == []


def test_nothing_can_be_mounted_and_no_namespace_made(box: Box):
    result = box(
        "mount -t tmpfs none /tmp; mount --bind /usr /workspace; umount /workspace;"
        "unshare -Urm true && echo MADE; mount -o remount,rw / && echo REMOUNTED; true"
    )
    assert result["stdout"] == ""


def test_other_dangerous_calls_of_the_kernel_are_refused(box: Box):
    """Keyrings belong to the user, not to a namespace; the others serve attacks on the kernel."""
    result = python(
        box,
        "import ctypes, platform\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "numbers = (250, 248, 249, 321, 298, 323, 425) if platform.machine() == 'x86_64' else"
        " (219, 217, 218, 280, 241, 282, 425)\n"
        "for number in numbers:\n"
        "    ctypes.set_errno(0); libc.syscall(number, 0, -3, 0, 0, 0); print(ctypes.get_errno())",
    )
    assert set(result["stdout"].split()) == {"1"}


# --- Files


def test_files_outside_are_not_there(box: Box):
    secret = box.outside / "secret"
    secret.write_text("s3cret")
    result = box(
        f"cat {secret} /etc/shadow /etc/hostname ~root/.ssh/* /proc/1/root{secret};"
        f"ls / ; touch /x /usr/x /etc/x"
    )
    assert "s3cret" not in result["stdout"]
    assert set(result["stdout"].split()) <= {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "tmp",
        "usr",
        "workspace",
    }
    assert not Path("/usr/x").exists()


def test_a_link_leads_nowhere_when_it_is_harvested(box: Box):
    box("mkdir d; echo old > d/file")
    box.call(
        ["sh", "-c", f"ln -s {box.outside} out; echo x > out/x; rm -r d; ln -s {box.outside} d"]
    )
    assert (box.root / "d").is_symlink()
    box("rm out d; mkdir d; echo mine > d/file")
    assert list(box.outside.iterdir()) == []


def test_a_link_that_changes_places_with_a_directory_leads_nowhere(box: Box):
    """A process in the background goes on with it until all are killed, before the harvest."""
    (box.outside / "file").write_text("theirs")
    script = (
        f"mkdir real; echo mine > real/file; ln -s {box.outside} link;"
        "(while :; do mv -T real d && mv -T d real; mv -T link d && mv -T d link; done)"
        " 2>/dev/null & sleep 0.3"
    )
    for _ in range(3):
        box.call(["sh", "-c", script])
        for path in box.root.glob("[a-z]*"):
            if path.is_dir() and not path.is_symlink():
                assert (path / "file").read_text() == "mine\n"
        subprocess.run(f"rm -rf {box.root}/*", shell=True, check=True)
    assert (box.outside / "file").read_text() == "theirs"


def test_a_file_outside_cannot_be_linked_in_and_two_names_become_two_files(box: Box):
    result = box("ln /usr/bin/env env; ln /etc/passwd p; echo x > a; ln a b; rm -f env p")
    assert result["stderr"].count("ross-device") >= 1
    assert (box.root / "a").stat().st_ino != (box.root / "b").stat().st_ino
    assert (box.root / "b").read_text() == "x\n"


def test_fifos_sockets_and_locks_do_not_stop_the_harvest(box: Box):
    result = python(
        box,
        "import os, socket\nos.mkfifo('fifo')\nsocket.socket(socket.AF_UNIX).bind('socket')\n"
        "open('kept', 'w').write('x')",
    )
    assert [path.name for path in box.root.iterdir() if path.name != ".toolstile"] == ["kept"]
    assert len(result["notes"]) == 1


def test_names_that_are_not_utf_8_fail_the_command(box: Box):
    told = box.call(["sh", "-c", "mkdir \"$(printf 'd\\377')\"; echo x > a"])
    assert told["status"] == "failed"
    assert "'d\\udcff'" in told["text"]
    assert not (box.root / "a").exists()


def test_nothing_is_left_open_for_the_command(box: Box):
    assert box("ls /proc/self/fd")["stdout"].split() == ["0", "1", "2", "3"]
    assert box("ls -l /proc/1/fd | grep -c memfd; true")["stdout"] == "0\n"


def test_there_is_no_terminal(box: Box):
    assert box("echo x > /dev/tty; true")["stderr"] != ""


# --- Limits


def test_a_fork_bomb_ends_with_its_command(box: Box):
    began = time.monotonic()
    result = box("b() { b | b & }; b; sleep 60", timeout_seconds=2)
    assert result["exit_code"] != 0 or result["stderr"]
    assert time.monotonic() - began < 30
    assert box("echo still here")["stdout"] == "still here\n"


def test_more_memory_than_is_allowed_ends_a_process(box: Box):
    result = box("head -c 1G /dev/zero | tail -c 900M | wc -c; echo after")
    assert "after" in result["stdout"]
    assert "943718400" not in result["stdout"]
    if box.user is None and os.geteuid() == 0:
        assert "memory" in " ".join(result["notes"])


def test_a_disk_is_not_filled_by_one_file(box: Box):
    told = box.call(["sh", "-c", "head -c 1G /dev/zero > big; ls -s --block-size=1M big"])
    assert "more than the 64.0 MiB" in told["text"]
    assert not (box.root / "big").exists()


def test_a_disk_is_not_filled_by_many_files(box: Box):
    began = time.monotonic()
    told = box.call(["sh", "-c", "i=0; while :; do i=$((i+1)); head -c 8M /dev/zero > f$i; done"])
    assert "more than 64.0 MiB" in told["text"]
    assert time.monotonic() - began < 25


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/", "/dev", "/etc"])
def test_no_other_place_takes_much(box: Box, place: str):
    result = box(f"head -c 40M /dev/zero > {place}/big; du -m {place}/big 2>/dev/null | cut -f1")
    assert int(result["stdout"].split()[0] if result["stdout"].split() else 0) <= 7


def test_an_endless_output_is_cut_and_takes_no_memory(box: Box):
    before = box.peak()
    result = box("head -c 300M /dev/zero | tr '\\0' x; echo; echo the end")
    assert "bytes are missing here" in result["stdout"]
    assert result["stdout"].endswith("the end\n")
    assert len(result["stdout"]) < 33 * 1024
    assert box.peak() - before < 20 * MIB


@pytest.mark.slow
@pytest.mark.long
def test_an_output_of_ten_gigabytes_is_cut(box: Box):
    result = box("head -c 10G /dev/zero", timeout_seconds=110)
    assert result["exit_code"] == 0
    assert "read the first 4,194,304 of 10,737,418,240 in .outputs/" in result["stdout"]
    assert box.peak() < 300 * MIB


# --- Approvals


def test_the_approvals_of_the_host_are_out_of_reach(box: Box):
    (box.root / ".toolstile").mkdir(exist_ok=True)
    if box.user is not None:
        os.chown(box.root / ".toolstile", box.user, box.user)
    (box.root / ".toolstile/inbox.key").write_text("s3cret")
    (box.outside / "inbox.db").write_text("s3cret")
    result = box(
        f"cat .toolstile/* {box.outside}/* {box.root}/.toolstile/*;"
        "find / -name 'inbox.*' 2>/dev/null"
    )
    assert result["stdout"] == ""
    assert box.call(["sh", "-c", "mkdir .toolstile; echo x > .toolstile/inbox.key"])["status"] == (
        "failed"
    )
    assert (box.root / ".toolstile/inbox.key").read_text() == "s3cret"
    shutil.rmtree(box.root / ".toolstile")
