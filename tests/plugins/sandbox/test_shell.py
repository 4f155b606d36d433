"""Commands run on the call's branch: what they change is kept as a whole or not at all."""

from __future__ import annotations

import errno
import gc
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from toolstile import Deadline
from toolstile_hookspecs import (
    ApprovalRequest,
    PromptEvaluationError,
    Status,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from toolstile_plugins import sandbox
from toolstile_plugins.sandbox import ShellParams, ShellSection
from toolstile_plugins.sandbox.backend import GIT_VARIABLES
from toolstile_plugins.sandbox.shell import NOT_RUN

Open = Callable[..., Any]


def entries_in(directory: Path) -> list[str]:
    return [str(path) for path in directory.rglob("*") if path.parent != directory]


def test_a_command_changes_files_of_all_kinds(shell, scratch):
    (shell.root / "old").mkdir()
    (shell.root / "old/gone.txt").write_text("gone")
    (shell.root / "kept.txt").write_text("one\n")
    (shell.root / "kept.txt").chmod(0o640)
    result = shell(
        "echo two >> kept.txt; rm -r old; mkdir old empty; echo new > old/new.txt;"
        "ln -s /etc/passwd link; printf '#!/bin/sh\\n' > run; chmod 755 run; touch -d @1000 run"
    )
    assert result.exit_code == 0
    assert shell.files() == ["empty", "kept.txt", "link", "old", "old/new.txt", "run"]
    assert (shell.root / "kept.txt").read_text() == "one\ntwo\n"
    assert stat.S_IMODE((shell.root / "kept.txt").stat().st_mode) == 0o640
    assert (shell.root / "link").readlink() == Path("/etc/passwd")
    assert stat.S_IMODE((shell.root / "run").stat().st_mode) == 0o755
    assert (shell.root / "run").stat().st_mtime == 1000
    assert result.changed == (
        "A empty/",
        "M kept.txt",
        "A link",
        "A old/",
        "A old/new.txt",
        "A run",
    )
    assert entries_in(scratch) == []


def test_files_nobody_touched_stay_the_same_files(shell):
    (shell.root / "a.txt").write_text("a")
    before = (shell.root / "a.txt").stat()
    shell("cat a.txt > b.txt")
    after = (shell.root / "a.txt").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_a_directory_and_a_file_take_each_others_place(shell):
    (shell.root / "file").write_text("x")
    (shell.root / "directory").mkdir()
    (shell.root / "directory/inner").write_text("y")
    shell("rm file && mkdir file && echo z > file/in; rm -r directory && echo w > directory")
    assert shell.files() == ["directory", "file", "file/in"]
    assert (shell.root / "directory").read_text() == "w\n"


def test_a_directory_that_was_there_is_moved_by_a_copy(shell):
    (shell.root / "old").mkdir()
    (shell.root / "old/a").write_text("a")
    result = shell("mv old new && mkdir made && mv -T made new/made")
    assert result.exit_code == 0
    assert shell.files() == ["new", "new/a", "new/made"]


def test_a_directory_in_the_place_of_another_has_its_own_mode(shell):
    (shell.root / "d").mkdir(mode=0o700)
    (shell.root / "d/a").write_text("a")
    shell("rm -r d && mkdir d && echo b > d/b")
    assert stat.S_IMODE((shell.root / "d").stat().st_mode) == 0o755
    shell("rm -r d && mkdir -m 711 d")
    assert stat.S_IMODE((shell.root / "d").stat().st_mode) == 0o711


def test_modes_of_directories_change_with_what_they_hold_kept(shell):
    (shell.root / "d").mkdir(mode=0o755)
    (shell.root / "d/a").write_text("a")
    result = shell("chmod 700 d; mkdir -m 711 e")
    assert stat.S_IMODE((shell.root / "d").stat().st_mode) == 0o700
    assert stat.S_IMODE((shell.root / "e").stat().st_mode) == 0o711
    assert (shell.root / "d/a").read_text() == "a"
    assert result.changed == ("M d/", "A e/")


def test_the_bits_that_run_a_program_as_its_owner_are_dropped(shell):
    shell("cp /bin/sh sh; chmod 6755 sh")
    assert stat.S_IMODE((shell.root / "sh").stat().st_mode) == 0o755


def test_an_exit_code_other_than_0_is_a_success_whose_changes_are_kept(shell):
    result = shell("echo x > a; exit 3")
    assert (result.exit_code, shell.files()) == (3, ["a"])
    assert "exit code 3" in result.render()


def test_configured_otherwise_it_fails_and_nothing_is_kept(open_shell: Open):
    shell = open_shell(on_exit="fail")
    outcome = shell.outcome("echo x > a; echo told >&2; exit 3")
    assert outcome.status is Status.FAILED
    assert "exit code 3" in outcome.text
    assert "told" in outcome.text
    assert shell.files() == []


def test_a_program_that_is_not_there_has_the_exit_code_127(shell):
    assert shell(["nosuchprogram"]).exit_code == 127
    assert shell("nosuchprogram").exit_code == 127
    assert shell("echo 'bwrap: execvp x' >&2; exit 1").exit_code == 1


def test_a_signal_is_told_as_shells_do(shell):
    assert shell("kill -TERM $$").exit_code == 128 + 15


def test_words_are_read_by_no_shell(shell):
    assert shell(["echo", "$HOME; *"]).stdout == "$HOME; *\n"


def test_input_variables_and_directory_are_given(shell):
    (shell.root / "d").mkdir()
    result = shell("cat; echo $WORD; pwd", stdin="in\n", env={"WORD": "said"}, cwd="./d/")
    assert result.stdout == "in\nsaid\n/workspace/d\n"


def test_a_result_tells_the_command_its_directory_its_duration_and_output(shell):
    (shell.root / "d").mkdir()
    result = shell(["sh", "-c", "sleep 0.1; printf 'a\\377' >&2"], cwd="d")
    assert (result.command[0], result.cwd, result.stderr) == (
        "sh",
        "d",
        "a\N{REPLACEMENT CHARACTER}",
    )
    assert result.duration_ms >= 100
    assert result.render().startswith("exit code 0 after ")
    quiet = shell("echo x", capture_output=False)
    assert (quiet.stdout, quiet.captured) == ("", False)
    assert "not kept, as capture_output was false" in quiet.render()


@pytest.mark.operator_text("a command shows the folders of its sandbox")
def test_the_environment_holds_nothing_of_the_host(shell, monkeypatch):
    monkeypatch.setenv("SECRET_OF_HOST", "s3cret")
    names = {line.partition("=")[0] for line in shell(["env"]).stdout.splitlines()}
    assert names == {"PATH", "HOME", "USER", "LANG", "TERM", "PWD", *GIT_VARIABLES}


@pytest.mark.operator_text("a command shows the folders of its sandbox")
def test_variables_are_on_no_command_line(shell, tmp_path):
    """The sandbox's own processes show them to nobody; `ps` shows command lines to everybody."""
    found = shell("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'", env={"TOKEN": "s3cret"}).stdout
    assert "cmdline" in found
    assert "s3cret" not in found


def test_a_directory_that_is_not_there_is_refused_before_anything_runs(shell):
    (shell.root / "file").write_text("x")
    assert "There is no nosuch" in shell.outcome("pwd", cwd="nosuch").text
    assert "is not a directory" in shell.outcome("pwd", cwd="file").text
    assert "keeps .toolstile" in shell.outcome("pwd", cwd=".toolstile").text


@pytest.mark.parametrize(("cwd", "told"), [(".//.", ""), ("./", ""), ("a//./b/.", "/a/b")])
def test_any_spelling_of_a_directory_is_taken(shell, cwd, told):
    (shell.root / "a/b").mkdir(parents=True)
    assert shell(["pwd"], cwd=cwd).stdout == f"/workspace{told}\n"


def test_what_the_call_has_changed_before_is_seen(shell):
    (shell.root / "d").mkdir()
    for name in ("gone", "d/kept", "changed"):
        (shell.root / name).write_text("before")

    @tool(contained=True)
    def change_then_run(*, context: ToolContext) -> str:
        """Change files, then run a command."""
        files = context.filesystem
        assert files is not None
        files.delete("gone")
        files.write("changed", "after")
        files.write("new/deep.txt", "new")
        files.delete("d", recursive=True)
        files.write("d/other", "other")
        script = "find . -type f | sort | xargs grep -H .; rm new/deep.txt"
        outcome = context.call("shell_execute", {"command": ["sh", "-c", script]})
        return outcome.result.value.stdout

    with shell.host.executor(tools=[change_then_run]) as executor:
        text = executor.dispatch(ToolCall("change_then_run")).text
    assert text.splitlines() == ["./changed:after", "./d/other:other", "./new/deep.txt:new"]
    assert shell.files() == ["changed", "d", "d/other", "new"]


def test_a_person_approves_what_a_command_has_changed(open_shell: Open):
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return "fine" in str(request.diff)

    shell = open_shell(
        settings={
            "approve_diff": True,
            "policies": [{"kind": "rule", "tools": ["shell_execute"], "effect": "ask"}],
        },
        host={"approver": approver},
    )
    assert shell.outcome("echo bad > a").status is Status.DENIED
    assert shell.files() == []
    assert shell("echo fine > b").changed == ("A b",)
    assert shell.files() == ["b"]
    assert "+fine" in str(asked[1].diff)


def test_a_dry_run_shows_what_a_command_would_change(shell):
    with shell.host.executor(dry_run=True) as executor:
        call = ToolCall("shell_execute", {"command": ["sh", "-c", "echo x > a"]})
        outcome = executor.dispatch(call)
    assert "+x" in str(outcome.event.attributes["toolstile.diff"])
    assert shell.files() == []


def test_a_command_that_takes_too_long_is_killed_with_all_it_has_started(shell):
    result = shell("echo first; (sleep 60; echo late > late) & sleep 60", timeout_seconds=1)
    assert (result.exit_code, result.timed_out, result.stdout) == (124, True, "first\n")
    assert "timeout_seconds" in result.render()
    assert shell.files() == []


def test_a_command_without_outputs_is_timed_too(shell):
    assert shell("exec >&- 2>&-; sleep 60", timeout_seconds=1).timed_out


def test_what_runs_in_the_background_ends_with_the_command(shell):
    shell("(setsid sh -c 'while :; do date >> late; done') & sleep 0.2; echo done")
    size = (shell.root / "late").stat().st_size
    assert "late" in shell.files()
    assert (shell.root / "late").stat().st_size == size


def test_without_a_workspace_the_tool_says_so():
    (tool,) = ShellSection().tools
    with pytest.raises(ToolError, match="Commands need a workspace") as refused:
        tool.handler(ShellParams(("true",)), context=ToolContext(session=None))
    assert refused.value.for_operator == "Add [plugins.vfs] to the configuration."


def test_a_workspace_in_memory_is_laid_out_and_harvested(open_shell: Open):
    shell = open_shell(vfs={})
    shell("mkdir -p d/empty; echo one > d/a; chmod 755 d/a; ln -s a d/link; touch -d @1000 d/a")
    result = shell("ls -l --time-style=+%s d; cat d/link; rm d/a; echo two > d/b")
    assert "-rwxr-xr-x 1 agent agent    4 1000 a" in result.stdout
    assert "link -> a" in result.stdout
    assert "empty" in result.stdout
    assert result.stdout.endswith("one\n")
    assert shell("find . | sort").stdout.split() == [".", "./d", "./d/b", "./d/empty", "./d/link"]


def test_a_mount_is_shown_and_cannot_be_changed(open_shell: Open, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").write_text("wheel")
    (tmp_path / "wheels/b.txt").write_text("text")
    mounts = [
        {"source": str(tmp_path / "wheels"), "target": "lib/wheels"},
        {"source": str(tmp_path / "wheels"), "target": "some", "include": ["*.txt"]},
    ]
    shell = open_shell({"root": str(tmp_path / "workspace"), "mounts": mounts})
    result = shell("cat lib/wheels/a.whl; ls some; echo x > lib/wheels/c; echo y > mine")
    assert result.stdout == "wheelb.txt\n"
    assert "Read-only file system" in result.stderr
    assert result.changed == ("A mine",)
    assert shell.files() == ["mine"]


def test_what_is_configured_is_read_and_not_changed(open_shell: Open, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/a").write_text("a")
    shell = open_shell(readable=[str(tmp_path / "tools")])
    result = shell(f"cat {tmp_path}/tools/a; ls {tmp_path}; echo b > {tmp_path}/tools/b")
    assert result.stdout == "atools\n"
    assert "Read-only" in result.stderr


def test_hidden_paths_are_neither_seen_nor_changed(open_shell: Open):
    shell = open_shell(hidden=[".env", "keys/private"])
    (shell.root / "keys").mkdir()
    (shell.root / "keys/private").write_text("key")
    (shell.root / "keys/public").write_text("public")
    (shell.root / ".env").write_text("TOKEN=1")
    assert shell("cat .env keys/*").stdout == "public"
    assert "hidden from commands" in shell.outcome("echo x > .env").text
    assert "holds keys/private" in shell.outcome("rm -r keys").text
    assert (shell.root / ".env").read_text() == "TOKEN=1"
    assert (shell.root / "keys/private").read_text() == "key"


def test_the_workspaces_own_directory_is_not_shown_and_cannot_be_made(shell):
    shell("echo x > a")
    assert shell("ls -a; ls .toolstile").stdout.split() == [".", "..", "a"]
    assert "keeps .toolstile for itself" in shell.outcome("mkdir .toolstile").text


def test_what_only_processes_need_is_left_out_and_told(shell):
    result = shell("mkfifo pipe; echo x > a")
    assert shell.files() == ["a"]
    assert "'pipe' (a FIFO)" in result.render()


@pytest.mark.parametrize("backend", ["bubblewrap", "none"])
def test_what_they_took_the_place_of_is_gone(open_shell: Open, backend):
    shell = open_shell(backend=backend)
    (shell.root / "file").write_text("old")
    (shell.root / "held").mkdir()
    (shell.root / "held/x").write_text("old")
    result = shell("rm -r file held; mkfifo file held")
    assert shell.files() == []
    assert "'file' (a FIFO)" in result.render()


def test_a_file_that_nobody_may_read_is_kept_with_its_mode(shell):
    shell("echo x > secret; chmod 000 secret")
    assert (shell.root / "secret").stat().st_mode & 0o777 == 0


def test_a_scratch_directory_of_somebody_else_is_told_by_the_call(open_shell: Open, tmp_path):
    (tmp_path / "file").write_text("")
    shell = open_shell(scratch=str(tmp_path / "file"))
    outcome = shell.outcome("true")
    assert outcome.status is Status.FAILED
    assert outcome.text == NOT_RUN
    told = outcome.event.attributes["toolstile.for_operator"]
    assert "The workspace cannot be laid out" in told
    assert str(tmp_path / "file") in told


def test_a_full_scratch_directory_is_told_to_the_operator_alone(
    open_shell: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __enter__(self) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/tmp/stdin")

        def __exit__(self, *_: object) -> None: ...

    shell = open_shell()
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    outcome = shell.outcome("true")
    assert outcome.text == NOT_RUN
    assert "No space left on device" in outcome.event.attributes["toolstile.for_operator"]


LARGE = {
    "a file of one instant": "head -c 40M /dev/zero > a; cp a b",
    "a file that is longer than its blocks": "truncate -s 47M a; truncate -s 47M b",
    "one file": "head -c 200M /dev/zero > a; echo done",
    "a sparse file": "truncate -s 10G a",
    "one file under two names": "head -c 40M /dev/zero > a; ln a b",
    "a file within a directory": "mkdir d; head -c 40M /dev/zero > d/a; head -c 40M /dev/zero > b",
}


@pytest.mark.parametrize("backend", ["bubblewrap", "none"])
@pytest.mark.parametrize("script", LARGE.values(), ids=LARGE)
def test_a_command_that_wrote_more_than_its_disk_keeps_nothing(open_shell: Open, script, backend):
    outcome = open_shell(disk=48 << 20, backend=backend).outcome(script)
    assert outcome.status is Status.FAILED
    assert "more than the 48.0 MiB" in outcome.text or "more than 48.0 MiB" in outcome.text
    assert open_shell().files() == []


def test_a_sparse_file_counts_with_its_length(open_shell: Open):
    shell = open_shell(disk=48 << 20, backend="none")
    outcome = shell.outcome("truncate -s 10G a")
    assert outcome.status is Status.FAILED
    assert "has written 10.0 GiB" in outcome.text
    assert shell.files() == []


def test_files_that_were_there_before_do_not_count(open_shell: Open):
    shell = open_shell(disk=48 << 20, backend="none")
    (shell.root / "old").write_bytes(bytes(60 << 20))
    assert shell("head -c 30M /dev/zero > new; sleep 0.3").changed == ("A new",)


REMOVED = """
import os, time
files = []
for number in range(400):
    files.append(open("a", "wb"))
    files[-1].write(bytes(1 << 20))
    files[-1].flush()
    os.unlink("a")
    time.sleep(0.01)
print("all written")
"""


@pytest.mark.slow
def test_a_removed_file_that_is_still_open_counts(open_shell: Open):
    shell = open_shell(disk=48 << 20)
    outcome = shell.outcome(["/usr/bin/python3", "-c", REMOVED])
    assert outcome.status is Status.FAILED
    assert "more than 48.0 MiB" in outcome.text
    assert "all written" not in outcome.text
    assert shell.files() == []


DEEP = """
import os, time
for _ in range(3000):
    os.mkdir("a")
    os.chdir("a")
for number in range(20):
    with open(str(number), "wb") as file:
        file.write(bytes(1 << 20))
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_what_lies_deep_is_counted_and_removed(open_shell: Open, scratch: Path):
    shell = open_shell(disk=8 << 20)
    outcome = shell.outcome(["/usr/bin/python3", "-c", DEEP])
    assert outcome.status is Status.FAILED
    assert "128 at most" in outcome.text or "more than 8.0 MiB" in outcome.text
    gc.collect()
    assert entries_in(scratch) == []


def test_names_that_no_path_can_hold_fail_the_command_by_name(shell):
    outcome = shell.outcome(["sh", "-c", "echo x > a; echo y > \"$(printf 'b\\377')\""])
    assert outcome.status is Status.FAILED
    assert "b\\udcff" in outcome.text
    assert shell.files() == []


def test_a_deadline_ends_a_command(shell):
    call = ToolCall("shell_execute", {"command": ["sleep", "60"]})
    with (
        shell.host.executor(deadline=Deadline.after(1)) as executor,
        pytest.raises(PromptEvaluationError),
    ):
        executor.dispatch(call)


def test_a_readonly_workspace_is_read_and_changes_are_refused(open_shell: Open, tmp_path):
    shell = open_shell({"root": str(tmp_path / "workspace"), "readonly": True})
    (shell.root / "a").write_text("a")
    assert shell("cat a").stdout == "a"
    assert "read-only" in shell.outcome("echo b > a").text
    assert (shell.root / "a").read_text() == "a"


def test_the_plugin_loads_where_the_modules_of_unix_are_missing():
    told = "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None\n"
    told += "import toolstile_plugins.sandbox"
    subprocess.run([sys.executable, "-c", told], check=True)


def test_a_rollback_while_another_thread_imports_the_shell_finds_no_command(monkeypatch):
    name = "toolstile_plugins.sandbox.shell"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sandbox.toolstile_rollback(object())
