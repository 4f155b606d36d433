"""Backends: none, those of strangers, and what is said where there is no sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError, PluginError, Status
from toolstile_plugins.sandbox import SandboxSettings, ShellSection, bubblewrap
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.sandbox.bubblewrap import remedy
from toolstile_plugins.sandbox.shell import NOT_RUN


def test_without_a_sandbox_the_model_the_record_and_the_doctor_say_so(open_shell):
    shell = open_shell(backend="none")
    (tool,) = ShellSection(config=SandboxSettings(backend="none")).tools
    assert not tool.contained
    assert "nothing else contains it" in tool.description
    result = shell("echo x > a; mkdir e; ln -s a l")
    assert result.sandbox == "none"
    assert "without a sandbox" in result.render()
    outcome = shell.outcome("true")
    assert outcome.event.attributes["sandbox.backend"] == "none"
    (finding,) = backend_of(SandboxSettings(backend="none")).findings()
    assert finding.severity == "warning"
    assert shell.files() == ["a", "e", "l"]


def test_without_a_sandbox_changes_are_harvested_all_the_same(open_shell):
    shell = open_shell(backend="none", hidden=["secret"])
    (shell.root / "d").mkdir()
    (shell.root / "d/gone").write_text("x")
    (shell.root / "kept").write_text("one\n")
    (shell.root / "secret").write_text("s")
    result = shell("rm -r d; echo two > new; ls; chmod 700 kept", cwd="")
    assert result.stdout == "kept\nnew\n"
    assert result.changed == ("D d", "M kept", "A new")
    assert shell.files() == ["kept", "new", "secret"]
    assert (shell.root / "kept").stat().st_mode & 0o777 == 0o700
    assert shell("exit 4").exit_code == 4
    assert shell("sleep 60", timeout_seconds=1).timed_out
    missing = shell(["nosuchprogram"])
    assert missing.exit_code == 127
    assert "not found" in missing.stderr


def test_a_mark_of_overlays_removes_nothing_from_a_copy(open_shell):
    shell = open_shell(backend="none")
    (shell.root / "held").mkdir()
    (shell.root / "held/x").write_text("x")
    code = "import os; os.setxattr('held', 'user.overlay.opaque', b'y'); os.chmod('held', 0o700)"
    assert shell([sys.executable, "-c", code]).changed == ("M held/",)
    assert (shell.root / "held/x").read_text() == "x"


def test_a_process_that_leaves_its_group_does_not_hold_up_the_call(open_shell):
    shell = open_shell(backend="none")
    assert shell("setsid sleep 3 & echo done").stdout == "done\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
def test_what_its_user_has_closed_stops_no_later_command(place):
    """Root can read all, so the commands run as an ordinary user."""
    user, users = (65534, ["65534"]) if os.geteuid() == 0 else (os.geteuid(), [])
    sandbox = {"scratch": str(place / "scratch"), "backend": "none"}
    for name in ("scratch", "workspace", "trial"):
        (place / name).mkdir()
        os.chown(place / name, user, -1)
    (place / "scratch").chmod(0o1777)
    told = [
        json.dumps({"vfs": {"root": str(place / name)}, "sandbox": sandbox})
        for name in ("workspace", "trial")
    ]
    scripts = [
        "mkdir -p d; echo x > d/f; echo y > g; chmod 0 d g",
        "ls; ls d; cat g; echo new > k",
        "rm -r d; echo z > z",
        "chmod u+rw g; echo z > g",
        "mkdir -p e; echo x > e/f; chmod 555 e",
        "rm -r e; ls e",
        "chmod -R u+w e && rm -r e",
        "chmod -R u+w e",
        "rm -r e",
    ]
    calls = "".join(f"{json.dumps({'command': ['sh', '-c', script]})}\n" for script in scripts)
    words = [sys.executable, str(Path(__file__).with_name("shell_driver.py")), *told, *users]
    ran = subprocess.run(words, input=calls, capture_output=True, text=True, check=True)
    _, closing, looking, removing, writing, narrow, denied, at_once, wide, then = (
        json.loads(line) for line in ran.stdout.splitlines()
    )
    assert closing["status"] == "succeeded"
    assert looking["value"]["stdout"] == "d\ng\n"
    assert looking["value"]["changed"] == ["A k"]
    assert "d, g: this user cannot read them" in looking["text"]
    assert removing["status"] == "failed"
    assert "'d': d cannot be reached" in removing["text"]
    assert "'g': it is hidden from commands, so it stays unchanged" in writing["text"]
    assert "f\n" in denied["text"]
    assert at_once["status"] == "failed"
    assert "Let one command change only modes, and the next remove" in at_once["text"]
    assert [each["status"] for each in (narrow, denied, wide, then)] == ["succeeded"] * 4
    kept = [path.name for path in (place / "workspace").iterdir()]
    assert sorted(kept) == [".toolstile", "d", "g", "k"]


def test_a_backend_that_is_not_known_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="did you mean 'bubblewrap'"):
        backend_of(SandboxSettings(backend="bubblewarp"))
    settings = Settings(plugins={"sandbox": {"backend": "nosuch"}})
    with pytest.raises((ConfigurationError, PluginError), match="nosuch"), Host(settings=settings):
        pass


def test_where_namespaces_are_forbidden_the_refusal_says_what_to_do(
    open_shell, tmp_path, monkeypatch
):
    program = tmp_path / "bwrap"
    failure = "bwrap: setting up uid map: Permission denied"
    program.write_text(f"#!/bin/sh\necho '{failure}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_found", lambda: str(program))
    outcome = open_shell().outcome("true")
    assert outcome.status is Status.FAILED
    assert outcome.text == NOT_RUN
    told = outcome.event.attributes["toolstile.for_operator"]
    assert failure in told
    assert "apparmor_restrict_unprivileged_userns" in told
    found = list(backend_of(SandboxSettings()).findings())
    assert "apparmor_restrict_unprivileged_userns" in str(found[0].remedy)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("bwrap: Creating new namespace failed: Operation not permitted", "seccomp=unconfined"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths"),
        ("bwrap: Can't make overlay mount on /newroot/w: Invalid argument", "5.11"),
        ("bwrap: Creating new namespace failed: No space left on device", "max_user_namespaces"),
        ("bwrap: something else", "toolstile doctor"),
    ],
)
def test_each_failure_has_its_remedy(failure, told):
    assert told in remedy(failure)


def test_without_bubblewrap_the_refusal_says_what_to_install(open_shell, monkeypatch):
    monkeypatch.setattr(bubblewrap, "_found", lambda: None)
    outcome = open_shell().outcome("true")
    assert outcome.text == NOT_RUN
    assert "[workspace]" in outcome.event.attributes["toolstile.for_operator"]
    (found,) = backend_of(SandboxSettings()).findings()
    assert "[workspace]" in str(found.remedy)


def test_the_doctor_tries_it_and_tells_the_limits():
    found = list(backend_of(SandboxSettings()).findings())
    assert [each.subject for each in found] == ["sandbox", "limits of commands"]
    assert found[0].severity == "ok"


def test_the_systems_program_is_used_where_it_is_new_enough(tmp_path, monkeypatch):
    for version, own in (("0.8.0", False), ("0.11.0", True), ("1.0", True)):
        program = tmp_path / version / "bwrap"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        bubblewrap._found.cache_clear()
        assert (bubblewrap.needed_program() == str(program)) is own
    bubblewrap._found.cache_clear()


def test_the_wheels_program_runs():
    told = subprocess.run(
        [bubblewrap.needed_program(), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "bubblewrap" in told.stdout
    assert Path(bubblewrap.needed_program()).is_file()
