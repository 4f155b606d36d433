"""Commands and scripts in real containers: closed off, limited, rolled back, gone afterwards."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.sandbox.podman.engine import containers, podman

from toolstile import Deadline, Host
from toolstile_hookspecs import (
    Cancellation,
    Prompt,
    PromptEvaluationError,
    Status,
    ToolCall,
    Visibility,
)
from toolstile_plugins.asteval import AstevalSection
from toolstile_plugins.code import CodeSection
from toolstile_plugins.sandbox import PodmanConfig, PodmanSandboxSection, SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.vfs import VfsConfig
from toolstile_plugins.workspace_digest import WorkspaceDigestSection

pytestmark = pytest.mark.long

Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_container_is_left() -> Iterator[None]:
    before = set(containers())
    yield
    # Of a call that was given up it goes a moment later.
    _wait_for(lambda: set(containers()) <= before)


def test_a_command_changes_files_of_all_kinds(shell):
    (shell.root / "old").mkdir()
    (shell.root / "old/gone.txt").write_text("gone")
    (shell.root / "kept.txt").write_text("one\n")
    result = shell(
        "echo two >> kept.txt; rm -r old; mkdir old empty; echo new > old/new.txt;"
        "ln -s /etc/passwd link; printf '#!/bin/sh\\n' > run; chmod 755 run; mkfifo pipe"
    )
    assert (result.exit_code, result.sandbox) == (0, "podman")
    assert shell.files() == ["empty", "kept.txt", "link", "old", "old/new.txt", "run"]
    assert (shell.root / "kept.txt").read_text() == "one\ntwo\n"
    assert (shell.root / "link").readlink() == Path("/etc/passwd")
    assert stat.S_IMODE((shell.root / "run").stat().st_mode) == 0o755
    assert (shell.root / "run").stat().st_uid == os.geteuid()
    assert "'pipe' (a FIFO)" in result.render()


def test_the_end_of_a_command_is_told_with_its_code_and_output(shell):
    result = shell("cat; echo $WORD; pwd; echo bad >&2; exit 3", stdin="in\n", env={"WORD": "a b"})
    assert (result.exit_code, result.stdout, result.stderr) == (3, "in\na b\n/workspace\n", "bad\n")
    assert "exit code 3" in result.render()
    assert shell(["nosuch"]).exit_code == 127
    assert shell(["/tmp"]).exit_code == 126
    assert shell("exit 125").exit_code == 125


def test_configured_so_a_failure_leaves_nothing(open_container: Open):
    shell = open_container(on_exit="fail")
    assert shell.outcome("echo x > a; exit 3").status is Status.FAILED
    assert shell.files() == []


def test_a_container_has_no_privilege_and_no_network(shell, monkeypatch):
    script = (
        "grep Cap /proc/self/status; grep NoNewPrivs /proc/self/status; ls /sys/class/net;"
        "touch /outside; mknod device c 1 3; mount -t tmpfs none /tmp;"
        "nc -w 2 192.0.2.1 80; echo $SECRET_OF_HOST"
    )
    monkeypatch.setenv("SECRET_OF_HOST", "s3cret")
    result = shell(script)
    assert "CapEff:\t0000000000000000" in result.stdout
    assert "NoNewPrivs:\t1" in result.stdout
    assert result.stdout.endswith("lo\n\n")
    for told in ("Read-only file system", "Operation not permitted", "Network is unreachable"):
        assert told in result.stderr
    assert shell.files() == []


def test_a_command_that_takes_too_long_is_killed_with_all_it_has_started(shell):
    result = shell("echo first; (sleep 60; echo late > late) & sleep 1000", timeout_seconds=4)
    assert (result.exit_code, result.timed_out, result.stdout) == (124, True, "first\n")
    assert shell.files() == []


def test_a_deadline_ends_a_command(shell):
    call = ToolCall("shell_execute", {"command": ["sleep", "60"]})
    with (
        shell.host.executor(deadline=Deadline.after(2)) as executor,
        pytest.raises(PromptEvaluationError),
    ):
        executor.dispatch(call)


def test_a_cancelled_call_ends_its_command_and_keeps_its_output(shell, scratch):
    stop = Cancellation()
    command = ["sh", "-c", "echo begun; echo x > a; sleep 60"]
    call = ToolCall("shell_execute", {"command": command}, cancellation=stop)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(shell.executor.dispatch, call)
        _wait_for(lambda: bool(list(scratch.glob("*/*/upper/a"))))
        stop.cancel()
        outcome = running.result(timeout=20)
    assert outcome.status is Status.CANCELLED
    assert outcome.event.attributes["sandbox.stdout"] == "begun\n"
    assert shell.files() == []


def test_a_fork_bomb_meets_its_limit(open_container: Open):
    shell = open_container(processes=20)
    result = shell("bomb() { bomb | bomb & bomb; }; bomb", timeout_seconds=5)
    assert "can't fork" in result.stderr


def test_a_memory_hog_is_killed_and_told_so(open_container: Open):
    result = open_container(memory=64 << 20)(["tail", "-c", "300m", "/dev/zero"])
    assert result.exit_code == 137
    assert "memory" in result.render()


def test_of_long_output_the_middle_is_missing(shell):
    result = shell("yes | head -c 10000000; printf '\\377' >&2; yes no | head -c 10000000 >&2")
    assert [whole.name for whole in result.whole_outputs] == ["stdout", "stderr"]
    for whole in result.whole_outputs:
        assert "the first 4,194,304" in result.render()
        assert shell.call("grep_files", path=whole.path, pattern="y|no", limit=1).success
    for text in (result.stdout, result.stderr):
        assert "9,967,232 bytes are missing" in text or "9,967,233 bytes are missing" in text
        assert len(text) < 33_000
    assert result.stderr.startswith("\N{REPLACEMENT CHARACTER}no")
    quiet = shell("echo x", capture_output=False)
    assert quiet.stdout == ""
    assert "not kept" in quiet.render()


def test_two_sessions_share_nothing_and_run_at_once(shell):
    meet = "i=0; while [ ! -e /tmp/x ] && [ $i -lt 9 ]; do sleep .2; i=$((i+1)); done; echo done"
    with shell.host.executor() as other, ThreadPoolExecutor() as pool:
        own = ToolCall("shell_execute", {"command": ["sh", "-c", f"touch /tmp/own; {meet}"]})
        others = ToolCall("shell_execute", {"command": ["sh", "-c", f"{meet}; ls /tmp"]})
        runs = [pool.submit(shell.executor.dispatch, own), pool.submit(other.dispatch, others)]
        _wait_for(lambda: len(containers()) == 2)
        texts = [run.result(timeout=30).result.value.stdout for run in runs]
    assert texts == ["done\n", "done\n"]


def test_a_container_that_died_is_told_and_the_next_command_has_a_new_one(shell):
    def kill() -> None:
        _wait_for(lambda: len(containers()) == 1)
        while podman("kill", *containers()).returncode:
            time.sleep(0.1)

    thread = threading.Thread(target=kill)
    thread.start()
    assert shell(["sleep", "60"]).exit_code == 137
    thread.join()
    assert shell("echo again").stdout == "again\n"


def test_hidden_and_reserved_paths_are_not_there(open_container: Open):
    shell = open_container(hidden=[".env"])
    (shell.root / ".env").write_text("TOKEN=1")
    shell("echo x > a")
    assert shell("ls -a").stdout.split() == [".", "..", "a"]
    assert "hidden from commands" in shell.outcome("echo y > .env").text
    assert (shell.root / ".env").read_text() == "TOKEN=1"


def test_a_mount_is_shown_and_cannot_be_changed(open_container: Open, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").write_text("wheel")
    mounts = [{"source": str(tmp_path / "wheels"), "target": "lib/wheels"}]
    root = str(tmp_path / "workspace")
    shell = open_container(vfs={"root": root, "mounts": mounts})
    assert shell("cat lib/wheels/a.whl; echo x > mine").stdout == "wheel"
    assert "read-only" in shell.outcome("echo y > lib/wheels/a.whl; echo z > mine").text
    assert (tmp_path / "wheels/a.whl").read_text() == "wheel"
    assert (shell.root / "mine").read_text() == "x\n"


def test_the_doctor_tries_a_container_and_advises_a_digest(image, options):
    options = {"image": image, **options}
    settings = SandboxSettings(backend="podman", options=options)
    found = {finding.subject: finding for finding in backend_of(settings).findings()}
    assert found["sandbox"].severity == "ok"
    assert "Name it by one of its digests" in str(found["image of the sandbox"].remedy)


def test_an_image_that_is_not_there_is_told_and_not_pulled(
    open_container: Open, caplog: pytest.LogCaptureFixture
):
    shell = open_container({"image": "localhost/nosuch:1"})
    with caplog.at_level("WARNING", "toolstile"):
        assert "no sandbox for it can be made" in shell.outcome("true").text
    assert "Run `podman pull localhost/nosuch:1`" in caplog.text
    options = {"image": "localhost/nosuch:1"}
    (found,) = backend_of(SandboxSettings(backend="podman", options=options)).findings()
    assert "Run `podman pull localhost/nosuch:1`" in str(found.remedy)


def test_a_script_runs_on_the_files_and_a_failing_one_changes_nothing(
    open_container: Open, python_image
):
    shell = open_container({"image": python_image})
    (shell.root / "a.txt").write_text("one")
    code = "import pathlib; p = pathlib.Path('a.txt'); p.write_text(p.read_text() * 2); print(6*7)"
    result = shell.call("container_python", code=code).result.value
    assert (result.stdout, result.changed) == ("42\n", ("M a.txt",))
    result = shell.call("container_python", code="print('word ' * 2_000)").result.value
    assert shell.call("read_file", path=result.whole_outputs[0].path).success
    outcome = shell.call("container_python", code="open('b', 'w').write('b'); 1 / 0")
    assert outcome.status is Status.FAILED
    assert "ZeroDivisionError" in outcome.text
    assert (shell.files(), (shell.root / "a.txt").read_text()) == (["a.txt"], "oneone")
    long = shell.call("container_python", code="print('x' * 100_000)")
    assert "95,905 bytes are missing" in long.text
    assert len(long.text) < 4_500
    slow = shell.call("container_python", code="import time; time.sleep(60)", timeout_seconds=1)
    assert "killed after" in slow.text


def test_all_suites_work_on_one_workspace(python_image, options, tmp_path):
    section = PodmanSandboxSection(
        config=PodmanConfig(image=python_image, **options),
        sandbox=SandboxSettings(scratch=tmp_path / "scratch"),
        workspace=VfsConfig(),
    )
    digest = WorkspaceDigestSection(visibility=Visibility.FULL)
    prompt = Prompt.of("tests", "all", (section, AstevalSection(), CodeSection(), digest))
    calls = [
        ("write_file", {"path": "a.txt", "content": "2\n"}),
        ("shell_execute", {"command": ["sh", "-c", "echo 3 >> a.txt"]}),
        ("container_python", {"code": "print(sum(map(int, open('a.txt'))))"}),
        ("evaluate_python", {"code": "2 + 3"}),
        ("run_python", {"code": "shell_execute(command=['cat', 'a.txt'])['stdout']"}),
        ("refresh_digest", {}),
    ]
    with Host() as host, host.executor(prompt=prompt) as executor:
        outcomes = [executor.dispatch(ToolCall(name, arguments)) for name, arguments in calls]
        failed = [outcome.text for outcome in outcomes if not outcome.result.success]
        assert failed == []
        unread = {"path": "a.txt", "content": "", "overwrite": True}
        assert executor.dispatch(ToolCall("write_file", unread)).status is not Status.SUCCEEDED
    assert "5" in outcomes[2].text
    assert "5" in outcomes[3].text
    assert "3" in outcomes[4].text
    assert "Files:\na.txt" in outcomes[5].text


def _wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)
