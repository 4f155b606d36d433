"""Containers are configured by name, closed off by default, and told no secrets aloud."""

from __future__ import annotations

import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ApprovalRequest, ConfigurationError, Status
from toolstile_plugins.sandbox import PodmanConfig, SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of
from toolstile_plugins.sandbox.podman.container import Program
from toolstile_plugins.sandbox.shell import NOT_RUN

IMAGE = "localhost/tools:1"
DIGEST = "sha256:" + "0123456789abcdef" * 4

Open = Callable[..., Any]


@pytest.fixture
def shell(open_shell: Open, program: Path) -> Any:
    """A shell over a program that starts nothing."""
    return open_shell(backend="podman", options={"image": IMAGE, "program": str(program)})


def words_of(program: Path) -> list[str]:
    return Path(f"{program}.calls").read_text().splitlines()


@pytest.mark.parametrize("image", ["python", "python:latest", "host:5000/python", ""])
def test_an_image_that_may_change_without_notice_is_refused(image):
    settings = SandboxSettings(backend="podman", options={"image": image})
    with pytest.raises(ConfigurationError, match=r"plugins\.sandbox\.options: image"):
        backend_of(settings)


@pytest.mark.parametrize(
    ("image", "pinned"),
    [(IMAGE, False), ("host:5000/a/b:1.2-x", False), (f"python@{DIGEST}", True), (DIGEST, True)],
)
def test_an_image_has_a_tag_or_a_digest(image, pinned):
    assert PodmanConfig(image=image).is_pinned is pinned


def test_without_an_image_the_host_is_not_opened():
    plugins = {"vfs": {}, "sandbox": {"backend": "podman"}}
    with pytest.raises(ConfigurationError, match="image"), Host(settings=Settings(plugins=plugins)):
        pass


def test_a_container_is_closed_off_and_limited(shell, program):
    shell.outcome("true")
    words = words_of(program)
    options = set(pairwise(words))
    assert options >= {
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--user", "0:0"),
        ("--pull", "never"),
        ("--memory", str(2048 << 20)),
        ("--cpus", "1.0"),
        ("--pids-limit", "256"),
        ("--ulimit", "nofile=1024:1024"),
        ("--ulimit", "nproc=4096:4096"),
        ("--log-driver", "none"),
    }
    assert {"--read-only", "--rm", "--http-proxy=false"} <= set(words)
    assert any(word.startswith("/tmp:rw,nosuid,nodev,size=") for word in words)
    assert words[-4:] == [IMAGE, "sh", "-c", "true"]


def test_settings_reach_the_program(open_shell: Open, program, tmp_path):
    options = {"pull": True, "runtime": "runc", "cpus": 0, "ulimits": ["nproc=9:9"]}
    shell = open_shell(
        backend="podman",
        options={"image": IMAGE, "program": str(program), **options},
        memory=1 << 20,
        processes=7,
        readable=[str(tmp_path)],
    )
    shell.outcome("true")
    words = words_of(program)
    assert {"missing", "runc", "nproc=9:9", "7"} <= set(words)
    assert f"type=bind,source={tmp_path},target={tmp_path},readonly" in words
    assert "--cpus" not in words


def test_a_program_is_called_with_its_own_connection(shell, program, monkeypatch):
    monkeypatch.setenv("CONTAINER_HOST", "unix:///run/user/7/podman.sock")
    shell.outcome("true")
    assert Path(f"{program}.host").read_text() == "unix:///run/user/7/podman.sock\n"


def test_a_command_has_as_much_time_as_it_asks_for_within_bounds(shell, program):
    for seconds in (0.1, 7, 999):
        shell.outcome("true", timeout_seconds=seconds)
    shell.outcome("true")
    shell.call("container_python", code="1")
    told = [int(after) for word, after in pairwise(words_of(program)) if word == "--timeout"]
    # The program ends it ten seconds later, should the host have died.
    assert [seconds - 10 for seconds in told] == [1, 7, 120, 30, 5]


def test_nothing_is_started_before_the_first_command(shell, program):
    assert "run" not in words_of(program)
    shell.outcome("true")
    assert words_of(program).count("run") == 1


def test_a_container_has_a_name_of_its_own_and_a_label(shell, program):
    shell.outcome("true")
    shell.outcome("true")
    words = words_of(program)
    names = {after for word, after in pairwise(words) if word == "--name"}
    assert len(names) == 2
    assert all(name.startswith("toolstile-") for name in names)
    assert any(word.startswith("toolstile=") for word in words)


def test_variables_are_in_a_file_for_this_user_alone(shell, program):
    outcome = shell.outcome("true", env={"TOKEN": "s3cret"})
    assert "s3cret" not in "\n".join(words_of(program)) + outcome.text
    variables = Path(f"{program}.variables")
    assert "TOKEN=s3cret\n" in variables.read_text()
    assert stat.S_IMODE(variables.stat().st_mode) == 0o600


def test_variables_of_a_call_win_over_those_of_the_configuration(open_shell: Open, program):
    options = {"image": IMAGE, "program": str(program)}
    variables = {"WORD": "configured", "OTHER": "kept"}
    shell = open_shell(backend="podman", options=options, environment=variables)
    shell.outcome("true", env={"WORD": "asked"})
    found = Path(f"{program}.variables").read_text().splitlines()
    assert {"WORD=asked", "OTHER=kept"} <= set(found)


def test_a_variable_of_several_lines_is_refused_by_name(shell, program):
    outcome = shell.outcome("true", env={"KEY": "s3cret\nline"})
    assert "the value of KEY has several lines" in outcome.text
    assert outcome.text.endswith("then retry.")
    assert "s3cret" not in outcome.text
    assert "run" not in words_of(program)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": []}, ["command"]),
        ({"command": [""], "cwd": "/etc"}, ["command", "cwd"]),
        ({"command": ["x" * 4097]}, ["4,096"]),
        ({"command": ["a\0b"], "cwd": "a/../.."}, ["control character", "cwd"]),
        ({"command": ["a"], "env": {f"A{n}": "" for n in range(65)}}, ["env"]),
        ({"command": ["a"], "env": {"A": "x" * 513}}, ["env"]),
        ({"command": ["a"], "env": {"A" * 81: ""}}, ["env"]),
    ],
)
def test_what_no_command_can_be_is_refused_with_every_fault(shell, program, arguments, told):
    text = shell.call("shell_execute", **arguments).text
    assert [part for part in told if part not in text] == []
    assert "run" not in words_of(program)


def test_a_person_sees_the_whole_command_before_it_runs(open_shell: Open, program):
    asked: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    rule = {"kind": "rule", "tools": ["shell_execute"], "effect": "ask"}
    shell = open_shell(
        backend="podman",
        options={"image": IMAGE, "program": str(program)},
        settings={"policies": [rule]},
        host={"approver": approver},
    )
    script = f"echo {'long ' * 300}end"
    assert shell.outcome(script).status is Status.DENIED
    assert asked[0].params.command == ("sh", "-c", script)
    assert "run" not in words_of(program)


def test_a_program_that_is_missing_is_told_by_call_and_doctor(open_shell: Open):
    options = {"image": IMAGE, "program": "/nosuch/podman"}
    shell = open_shell(backend="podman", options=options)
    outcome = shell.outcome("true")
    assert outcome.text == NOT_RUN
    told = outcome.event.attributes["toolstile.for_operator"]
    assert "/nosuch/podman cannot be started" in told
    (found,) = backend_of(SandboxSettings(backend="podman", options=options)).findings()
    assert found.severity == "error"
    assert "The program /nosuch/podman is missing" in found.text


def test_an_engine_that_fails_is_told_with_what_to_do(shell):
    outcome = shell.outcome("true")
    assert outcome.status is Status.FAILED
    assert outcome.text == NOT_RUN
    told = outcome.event.attributes["toolstile.for_operator"]
    assert "it starts nothing. `toolstile doctor` tries it again" in told


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("Error: localhost/tools:1: image not known", "`podman pull localhost/tools:1`"),
        ("Error: no such image", "plugins.sandbox.options.pull = true"),
        ("Error: cannot connect to Podman", "Start the service of the program"),
        ("Error: setrlimit `RLIMIT_NPROC`: rlimit", "smaller plugins.sandbox.options.ulimits"),
        ("Error: newuidmap: not found", "Install the package uidmap."),
        ("Error: something else", "`toolstile doctor` tries it again."),
    ],
)
def test_each_failure_of_an_engine_has_its_remedy(failure, told):
    assert told in Program(PodmanConfig(image=IMAGE)).remedy(failure)


def test_a_command_that_prints_as_docker_does_has_run(open_shell: Open, tmp_path):
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\ncase $* in *run*) echo 'docker: no image' >&2; exit 1; esac\n")
    engine.chmod(0o755)
    options = {"program": str(engine), "image": "localhost/tools:1"}
    result = open_shell(backend="podman", options=options)("true")
    assert (result.exit_code, result.stderr) == (1, "docker: no image\n")
